"""Which text the operating system can take."""

from __future__ import annotations

import os


def encodable(text: str) -> bool:
    """False for half of a surrogate pair, which stands for no byte."""
    if text.isascii():
        return True
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return True
