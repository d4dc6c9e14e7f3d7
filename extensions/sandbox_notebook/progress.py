"""How far a transfer has come: a bar in a terminal, now and then a line in a notebook, nothing for what is quick.

A notebook keeps what was printed, so its lines carry no carriage returns and come seconds apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from .live import Sink
from .text import printable, size, width

_PATIENCE = 1.0
_TERMINAL_PAUSE = 0.1
_NOTEBOOK_PAUSE = 5.0
_BAR = 24


class Progress:
    """Call it with the bytes done and the total (or None); close it at the end."""

    def __init__(
        self, sink: Sink, what: str, *, terminal: bool, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sink = sink
        self._what = printable(what)
        self._terminal = terminal
        self._quiet = quiet
        self._clock = clock
        self._began = clock()
        self._due = self._began + _PATIENCE
        self._drawn = 0

    def __call__(self, done: int, total: int | None = None) -> None:
        now = self._clock()
        if self._quiet or now < self._due:
            return
        self._due = now + (_TERMINAL_PAUSE if self._terminal else _NOTEBOOK_PAUSE)
        line = self._line(done, total, done / max(now - self._began, 0.001))
        if self._terminal:
            gap = " " * max(0, self._drawn - width(line))
            self._drawn = width(line)
            self._sink.write(f"\r{line}{gap}")
        else:
            self._sink.write(f"{line}\n")
        self._sink.flush()

    def close(self) -> None:
        if self._drawn:
            self._sink.write("\r" + " " * self._drawn + "\r")
            self._sink.flush()
            self._drawn = 0

    def _line(self, done: int, total: int | None, speed: float) -> str:
        if not total:
            return f"{self._what}  {size(done)}  {size(int(speed))}/s"
        share = min(done / total, 1.0)
        figures = f"{share:4.0%}  {size(done)} of {size(total)}  {size(int(speed))}/s"
        if not self._terminal:
            return f"{self._what}  {figures.strip()}"
        full = int(share * _BAR)
        return f"{self._what}  {'█' * full}{'░' * (_BAR - full)}  {figures}"
