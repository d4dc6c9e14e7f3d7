"""Threads for what blocks: started when all others are busy, gone when there was nothing to do for a while."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable

from . import faults

Job = Callable[[], None]

#: So many threads are started at once; the next ones only where those are still busy after so many seconds. A thousand
#: short jobs that come together, such as the heartbeats of as many streams, then take a few threads and not a thousand.
_AT_ONCE = 8
_PAUSE = 0.005
#: More than these do not wait for work.
_KEPT = 8


class _Seat:
    """Where an idle thread waits for a job. (`queue.SimpleQueue` may wait for ever in spite of a timeout.)"""

    __slots__ = ("bell", "job")

    def __init__(self) -> None:
        self.bell = threading.Lock()
        self.bell.acquire()
        self.job: Job | None = None


class Workers:
    """As many threads as there are jobs at once; whoever submits bounds that.

    One thread submits, and calls `grow` when it is time.
    """

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._seats: list[_Seat] = []  # taken by idle threads, the latest last
        self._backlog: deque[Job] = deque()
        self._started = 0  # threads, since `_started_at`
        self._started_at = -math.inf
        self.grow_at = math.inf  # when jobs may have waited long enough

    def submit(self, job: Job) -> bool:
        """Run `job` on some thread; False when the system gives none."""
        with self._lock:
            if self._seats:
                seat = self._seats.pop()
                seat.job = job
                seat.bell.release()
                return True
            if not self._may_start():
                self._backlog.append(job)
                self.grow_at = self._started_at + _PAUSE
                return True
        return self._start(job)

    def grow(self) -> None:
        """Start threads for jobs that none has taken meanwhile."""
        self.grow_at = math.inf
        while self._backlog:
            with self._lock:
                job = self._backlog.popleft() if self._backlog and self._may_start() else None
            if job is None:
                break
            if not self._start(job):
                with self._lock:
                    self._backlog.appendleft(job)
                break
        if self._backlog:
            self.grow_at = time.monotonic() + _PAUSE

    def _may_start(self) -> bool:
        now = time.monotonic()
        if now - self._started_at >= _PAUSE:
            self._started, self._started_at = 0, now
        return self._started < _AT_ONCE

    def _start(self, job: Job) -> bool:
        try:
            threading.Thread(target=self._work, args=(job,), name="sandbox-worker", daemon=True).start()
        except RuntimeError:
            return False
        self._started += 1
        return True

    def _work(self, first: Job) -> None:
        job: Job | None = first
        del first  # a job may hold much
        while job is not None:
            try:
                job()
            except Exception:
                faults.report("a worker")
            job = None
            job = self._next()

    def _next(self) -> Job | None:
        with self._lock:
            if self._backlog:
                return self._backlog.popleft()
            if len(self._seats) >= _KEPT:
                return None
            seat = _Seat()
            self._seats.append(seat)
        if not seat.bell.acquire(timeout=self._idle_seconds):
            with self._lock:
                if seat in self._seats:
                    self._seats.remove(seat)
                    return None
            # A job came for this thread at the last moment.
        return seat.job
