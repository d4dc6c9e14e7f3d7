"""How much is tried where input is open-ended: everything, or so many per cent of it as ``TESTS_EFFORT`` says."""

from __future__ import annotations

import os

EFFORT = int(os.environ.get("TESTS_EFFORT", "100"))


def share(count: int) -> int:
    """What is left of so many attempts."""
    return max(1, count * EFFORT // 100)
