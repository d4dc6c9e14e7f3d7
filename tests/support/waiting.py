"""Waiting for what other threads and processes are about to do."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 60.0


def eventually(condition: Callable[[], object]) -> None:
    """Return once the condition holds. The bound only keeps a failing test from hanging."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
