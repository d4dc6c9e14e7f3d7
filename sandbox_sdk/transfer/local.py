"""What the system says of a file on this side: it stays what it is, and is shown as short as an error of ours."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from .._errors import SandboxError
from .._tracebacks import short

#: What to do about such an error where nothing better is known.
HINT = "see to it on this side; the sandbox has no part in it"


@contextmanager
def on_this_side(path: str) -> Iterator[None]:
    """An error of the system in here speaks of the path that was asked for, and notebooks show it in a few lines."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = path, None
        vars(error)["_render_traceback_"] = partial(_rendered, error)
        raise


def _rendered(error: OSError) -> list[str]:
    """For IPython."""
    if SandboxError.whole_traceback:
        return traceback.format_exception(error)
    hint = HINT
    if isinstance(error, FileNotFoundError):
        start = "" if os.path.isabs(error.filename) else f", which counts from {os.getcwd()}"
        hint = f"check the path{start}"
    return short(error, f'{(error.strerror or "failed").lower()}: "{error.filename}"', hint)
