"""Threads for what blocks: started when all others are busy, gone when there was nothing to do for a while."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from . import faults

Job = Callable[[], None]


class Workers:
    """As many threads as there are jobs at once; whoever submits bounds that."""

    def __init__(self, idle_seconds: float) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._idle = 0  # threads waiting, less the jobs already meant for one of them

    def submit(self, job: Job) -> bool:
        """Run `job` on some thread; False when the system gives none."""
        with self._lock:
            waiting = self._idle > 0
            if waiting:
                self._idle -= 1
        if waiting:
            self._jobs.put(job)
            return True
        try:
            threading.Thread(target=self._work, args=(job,), name="sandbox-worker", daemon=True).start()
        except RuntimeError:
            return False
        return True

    def _work(self, first: Job) -> None:
        job: Job | None = first
        while job is not None:
            try:
                job()
            except Exception:
                faults.report("a worker")
            job = self._next()

    def _next(self) -> Job | None:
        with self._lock:
            self._idle += 1
        try:
            return self._jobs.get(timeout=self._idle_seconds)
        except queue.Empty:
            pass
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                return None
        return self._jobs.get()  # a job was meant for this thread a moment ago
