"""Keeps the loop of an ``await`` cell turning, so that the stop button is noticed at once.

A kernel hands the stop to its loop without waking it: a cell that waits for one thing alone would see it only when
that thing happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

SECONDS = 0.2


class Pulse:
    """Wakes the loops in which cells run, from each cell's start to its end."""

    def __init__(self) -> None:
        self._next: dict[asyncio.AbstractEventLoop, asyncio.TimerHandle] = {}

    def start(self) -> None:
        loop = _loop()
        if loop is not None and loop not in self._next:
            self._beat(loop)

    def stop(self) -> None:
        loop = _loop()
        handle = None if loop is None else self._next.pop(loop, None)
        if handle is not None:
            handle.cancel()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next[loop] = loop.call_later(SECONDS, self._beat, loop)


def _loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs here; none in a terminal's plain cells, which Ctrl-C reaches anyway."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
