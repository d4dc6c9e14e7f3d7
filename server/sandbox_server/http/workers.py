"""Threads for what blocks: started when all others are busy, gone when there was nothing to do for a while."""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable

from . import faults

Job = Callable[[], None]

#: So many threads are started at once; the next ones only where those are still busy after so many seconds. A thousand
#: short jobs that come together, such as the heartbeats of as many streams, then take a few threads and not a thousand.
_AT_ONCE = 8
_PAUSE = 0.005
#: More than these do not wait for work.
_KEPT = 8


class Workers:
    """As many threads as there are jobs at once; whoever submits bounds that.

    One thread submits, and calls `grow` when it is time.
    """

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._idle = 0  # threads waiting, less the jobs in the queue
        self._started = 0  # threads, since `_started_at`
        self._started_at = -math.inf
        self.grow_at = math.inf  # when jobs may have waited long enough

    def submit(self, job: Job) -> bool:
        """Run `job` on some thread; False when the system gives none."""
        with self._lock:
            queued = self._idle > 0 or not self._may_start()
            if queued:
                self._idle -= 1
                if self._idle < 0:
                    self.grow_at = self._started_at + _PAUSE
        if queued:
            self._jobs.put(job)
            return True
        return self._start(job)

    def grow(self) -> None:
        """Start threads for jobs that none has taken meanwhile."""
        self.grow_at = math.inf
        with self._lock:
            waiting = -self._idle
        while waiting > 0 and self._may_start() and self._start(None):
            waiting -= 1
        if waiting > 0:
            self.grow_at = time.monotonic() + _PAUSE

    def _may_start(self) -> bool:
        now = time.monotonic()
        if now - self._started_at >= _PAUSE:
            self._started, self._started_at = 0, now
        return self._started < _AT_ONCE

    def _start(self, job: Job | None) -> bool:
        try:
            threading.Thread(target=self._work, args=(job,), name="sandbox-worker", daemon=True).start()
        except RuntimeError:
            return False
        self._started += 1
        return True

    def _work(self, first: Job | None) -> None:
        job = first or self._next()
        while job is not None:
            try:
                job()
            except Exception:
                faults.report("a worker")
            job = None  # it may hold much
            job = self._next()

    def _next(self) -> Job | None:
        with self._lock:
            if self._idle >= _KEPT:
                return None
            self._idle += 1
        while True:
            try:
                return self._jobs.get(timeout=self._idle_seconds)
            except queue.Empty:
                pass
            with self._lock:
                if self._idle > 0:
                    self._idle -= 1
                    return None
            # A job was meant for this thread a moment ago; it comes, unless another one takes it.
