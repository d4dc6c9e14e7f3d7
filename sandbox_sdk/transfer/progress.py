"""Progress reports, thinned out so that a callback never costs more than the transfer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

#: Called with (bytes done, bytes in all).
ProgressCallback: TypeAlias = Callable[[int, int], object]

_INTERVAL = 0.1


class Progress:
    """Counts bytes of one transfer, which may be many files, and reports at most ten times a second and at the end."""

    def __init__(
        self, callback: ProgressCallback | None, total: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._callback = callback
        self._clock = clock
        self._due = 0.0
        self._reported = (-1, -1)
        self.total = total
        self.done = 0

    def add(self, count: int) -> None:
        self.done += count
        if self._callback is not None and (now := self._clock()) >= self._due:
            self._due = now + _INTERVAL
            self._report()

    def take_back(self, count: int) -> None:
        """Some bytes must be moved once more."""
        self.done -= count

    def finish(self) -> None:
        """The last report, which is never left out."""
        self._report()

    def _report(self) -> None:
        facts = (self.done, max(self.total, self.done))
        if self._callback is not None and facts != self._reported:
            self._reported = facts
            self._callback(*facts)
