"""One thread for everything that must go on while nobody asks: filling rings, noting ends, keeping deadlines.

It sleeps in `select` and costs nothing while nothing happens. It starts with the first piece of work.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable

from . import kernel
from .wake import Wake

#: No kernel sleeps for any number of seconds.
_LONGEST_SLEEP = 3600.0

log = logging.getLogger("sandbox_server")


class Timer:
    """A call to be made later, unless cancelled."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        self.call = None  # the entry stays in the heap until its time comes, but holds nothing


class Supervisor:
    """Calls back from its own thread. Callbacks are short: they never wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake: Wake | None = None
        self._selector: selectors.BaseSelector | None = None
        self._todo: deque[Callable[[], object]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._most_timers = 64
        self._count = itertools.count()
        self._until: float | None = None  # when the thread will wake by itself
        self._closed = False
        self._census: kernel.Census | None = None

    def after(self, seconds: float, call: Callable[[], object]) -> Timer:
        timer = Timer(call)
        at = time.monotonic() + seconds
        with self._lock:
            self._drop_cancelled()
            heapq.heappush(self._timers, (at, next(self._count), timer))
            if self._until is None or at < self._until:
                self._until = at
                self._rouse()
        return timer

    def watch(self, descriptor: int, call: Callable[[], object]) -> None:
        """Call whenever the descriptor is readable, or at its end; only from a callback."""
        assert self._selector is not None
        self._selector.register(descriptor, selectors.EVENT_READ, call)

    def unwatch(self, descriptor: int) -> None:
        """The descriptor may be closed right after; only from a callback."""
        assert self._selector is not None
        self._selector.unregister(descriptor)

    def census(self) -> kernel.Census:
        """Of processes, for all that is done in one go: hundreds of commands may have to be ended together.

        Only from a callback of `soon` or `after`; it is younger than the call of those.
        """
        self._census = self._census or kernel.Census()
        return self._census

    def soon(self, call: Callable[[], object]) -> None:
        with self._lock:
            self._todo.append(call)
            self._rouse()

    def close(self) -> None:
        """End the thread. What is still to be done is not done."""
        with self._lock:
            thread = self._thread
            if self._wake is not None and not self._closed:
                self._wake.set()
            self._closed = True
        if thread is not None:
            thread.join()

    def start(self) -> None:
        """Start the thread now if it does not run; `OSError` or `RuntimeError` where that is impossible."""
        with self._lock:
            self._begin()

    def _begin(self) -> None:
        if self._thread is not None or self._closed:
            return
        wake = Wake()
        try:
            selector = selectors.DefaultSelector()
            selector.register(wake, selectors.EVENT_READ, wake.clear)
            thread = threading.Thread(target=self._run, args=(selector, wake), name="supervisor", daemon=True)
            thread.start()
        except BaseException:
            wake.close()
            raise
        self._thread, self._selector, self._wake = thread, selector, wake

    def _rouse(self) -> None:
        self._begin()
        if self._wake is not None and not self._closed:
            self._wake.set()

    def _run(self, selector: selectors.BaseSelector, wake: Wake) -> None:
        while not self._closed:
            for key, _ in selector.select(self._pause()):
                self._call(key.data)
            self._census = None
            for call in self._due():
                self._call(call)
            self._census = None
        selector.close()
        wake.close()

    def _pause(self) -> float | None:
        with self._lock:
            if self._todo:
                return 0
            while self._timers and self._timers[0][2].call is None:
                heapq.heappop(self._timers)
            self._until = self._timers[0][0] if self._timers else None
            return None if self._until is None else min(max(0.0, self._until - time.monotonic()), _LONGEST_SLEEP)

    def _due(self) -> list[Callable[[], object]]:
        with self._lock:
            due = list(self._todo)
            self._todo.clear()
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                timer = heapq.heappop(self._timers)[2]
                if timer.call is not None:
                    due.append(timer.call)
        return due

    def _drop_cancelled(self) -> None:
        """Now and then, so that thousands of short commands with long deadlines leave nothing behind."""
        if len(self._timers) > self._most_timers:
            self._timers = [entry for entry in self._timers if entry[2].call is not None]
            heapq.heapify(self._timers)
            self._most_timers = 64 + 2 * len(self._timers)

    def _call(self, call: Callable[[], object]) -> None:
        try:
            call()
        except Exception:
            log.exception("a background task of the process table failed")
