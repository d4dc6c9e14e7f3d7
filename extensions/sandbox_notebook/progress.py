"""How far a transfer has come: a bar in a terminal, now and then a line in a notebook, nothing for what is quick.

A notebook keeps what was printed, so its lines carry no carriage returns and come seconds apart. Of what has no
measure one is told for how long it has been going on, in a line that goes away.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from contextvars import copy_context
from itertools import accumulate

from .live import Sink
from .text import count, printable, size, width
from .widgets.page import start_thread

Status = Callable[[str], object]
"""Shows a line in the place of the one before it; an empty one leaves nothing."""

_PATIENCE = 1.0
_TERMINAL_PAUSE = 0.1
_NOTEBOOK_PAUSE = 5.0
_BAR = 24


class Line:
    """A status in a terminal."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._drawn = 0

    def __call__(self, line: str) -> None:
        if line or self._drawn:
            gap = " " * max(0, self._drawn - width(line))
            self._sink.write(f"\r{line}{gap}" if line else f"\r{gap}\r")
            self._sink.flush()
            self._drawn = width(line)


class Progress:
    """Call it with the bytes done and the total (or None); close it at the end.

    ``sizes`` are those of the files of a directory, in bytes and in their order: then files are counted, too.
    """

    def __init__(
        self,
        sink: Sink,
        what: str,
        *,
        terminal: bool,
        quiet: bool = False,
        sizes: Iterable[int] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink = sink
        self._what = printable(what)
        self._terminal = terminal
        self._quiet = quiet
        self._ends = list(accumulate(sizes))
        self._clock = clock
        self._began = clock()
        self._due = self._began + _PATIENCE
        self._bar = Line(sink)

    def __call__(self, done: int, total: int | None = None) -> None:
        now = self._clock()
        if self._quiet or now < self._due:
            return
        self._due = now + (_TERMINAL_PAUSE if self._terminal else _NOTEBOOK_PAUSE)
        line = self._line(done, total, done / max(now - self._began, 0.001))
        if self._terminal:
            self._bar(line)
        else:
            self._sink.write(f"{line}\n")
            self._sink.flush()

    def close(self) -> None:
        self._bar("")

    def _line(self, done: int, total: int | None, speed: float) -> str:
        if not total:
            return f"{self._what}  {size(done)}  {size(int(speed))}/s"
        share = min(done / total, 1.0)
        files = f"{bisect_right(self._ends, done):,} of {count(len(self._ends), 'file')}  " if self._ends else ""
        figures = f"{share:4.0%}  {files}{size(done)} of {size(total)}  {size(int(speed))}/s"
        if not self._terminal:
            return f"{self._what}  {figures.strip()}"
        full = int(share * _BAR)
        return f"{self._what}  {'█' * full}{'░' * (_BAR - full)}  {figures}"


class Waiting:
    """Around what takes its time without a word: its name and the seconds, after the first one, gone in the end."""

    def __init__(self, status: Status | None, what: str, *, patience: float = _PATIENCE) -> None:
        self._status = status
        self._what = what
        self._patience = patience
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if self._status is not None:
            self._thread = start_thread(copy_context(), self._tell, "sandbox-waiting")

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _tell(self) -> None:
        assert self._status is not None
        began, told = time.monotonic(), False
        while not self._over.wait(self._patience):
            self._status(f"{self._what} … {time.monotonic() - began:.0f} s")
            told = True
        if told:
            self._status("")
