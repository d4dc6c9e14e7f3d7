"""Waiting for what other threads and processes are about to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SECONDS = 60.0


def eventually(condition: Callable[[], object]) -> None:
    """Return once the condition holds. The bound only keeps a failing test from hanging."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def in_time(attempt: Callable[[float], T], enough: Callable[[T], object]) -> T:
    """What came of an attempt that is cut off after so many seconds. Where it did not get far enough, it has longer."""
    for seconds in (1, 4, 16):
        if enough(result := attempt(seconds)):
            return result
    return attempt(SECONDS)
