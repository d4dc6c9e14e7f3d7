"""One JSON line per exchange, numbered and chained: an edit, a removal or a reordering shows.

Each line carries ``seq`` and ``prev``, the SHA-256 of the line before it (without its line feed). Lines are written
by a thread of their own, so that a full pipe never holds up a request; what does not fit the queue is counted and the
count is written as a line of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import stat
import threading
import time
from typing import Any

PATH_LENGTH = 512  # characters kept of a path
PATHS = 8  # paths kept of a request
GENESIS = "0" * 64
_PATIENCE = 5.0
_TAIL = 65536  # bytes at the end of a file that hold its last line


class AuditLog:
    """Appends to a file, or to an open descriptor such as standard error (2).

    With `most_bytes`, a file that has grown longer loses its oldest lines: the first one left has a later ``seq``.
    """

    def __init__(
        self,
        file: str | None = None,
        descriptor: int = 2,
        *,
        most_bytes: int | None = None,
        most_waiting: int = 10_000,
    ) -> None:
        self._sequence, self._previous = 0, GENESIS
        self._torn = False  # the last line has no end: what comes next must not become part of it
        self._owned = file is not None
        if file is not None:
            descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._sequence, self._previous, self._torn = _resume(descriptor)
        self._descriptor = descriptor
        self._most_bytes = most_bytes
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue(most_waiting)
        self._lost = 0
        self.lost = 0  # in all
        self.written = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._given_up = False  # nobody takes the lines: what waits is not written any more

    def write(self, facts: dict[str, Any]) -> None:
        """Queue one line. `facts` never hold a token or a body."""
        try:
            if self._thread is None:
                self._start()
            self._waiting.put_nowait(facts)
        except (queue.Full, RuntimeError):  # the latter: the system gives no thread now
            with self._lock:
                self._lost += 1
                self.lost += 1

    def close(self) -> None:
        """Write what waits, then stop."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):  # nobody reads the pipe that the lines go to
                self._waiting.put(None, timeout=_PATIENCE)
                self._thread.join(_PATIENCE)
            self._given_up = self._thread.is_alive()
        # While a line is under way the descriptor stays open: its number may soon be that of somebody else's file.
        if self._owned and not self._given_up:
            os.close(self._descriptor)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="audit", daemon=True)
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        while not self._given_up and (facts := self._waiting.get()) is not None:
            with self._lock:
                lost = self._lost
            if lost and self._append({"ts": round(time.time(), 3), "event": "lost", "count": lost}):
                with self._lock:
                    self._lost -= lost
            if not self._append(facts):
                with self._lock:
                    self._lost += 1
                    self.lost += 1

    def _append(self, facts: dict[str, Any]) -> bool:
        """Write one line; False where that cannot be done. What was not written is no link of the chain."""
        sequence = self._sequence + 1
        line = json.dumps({**facts, "seq": sequence, "prev": self._previous}, separators=(",", ":")).encode()
        view = memoryview(b"\n" * self._torn + line + b"\n")
        try:
            while view:
                written = os.write(self._descriptor, view)
                view, self._torn = view[written:], written < len(view)
        except OSError:  # a full disk or a closed terminal must not stop the server
            if len(view) > 1:  # more is missing than the line feed
                return False
        self._sequence, self._previous = sequence, hashlib.sha256(line).hexdigest()
        self.written += 1
        if self._most_bytes is not None:
            self._shorten(self._most_bytes)
        return True

    def _shorten(self, most_bytes: int) -> None:
        """Keep the last quarter of a file that is too long. What is no file has no length, and stays as it is."""
        with contextlib.suppress(OSError):
            size, kept = os.fstat(self._descriptor).st_size, b""
            if size <= most_bytes:
                return
            with contextlib.suppress(OSError):  # open for writing only, as standard error may be: nothing is kept
                kept = os.pread(self._descriptor, most_bytes // 4, size - most_bytes // 4).partition(b"\n")[2]
            os.ftruncate(self._descriptor, 0)
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            os.write(self._descriptor, kept)


def cut(paths: list[str]) -> list[str]:
    """Paths as they go into a line."""
    return [path[:PATH_LENGTH] for path in paths[:PATHS]]


def _resume(descriptor: int) -> tuple[int, str, bool]:
    """Sequence number and hash of the last whole line, so that a restart continues the chain; whether more follows."""
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):  # a device may never end, a pipe never begin
        return 0, GENESIS, False
    *lines, torn = os.pread(descriptor, _TAIL, max(0, facts.st_size - _TAIL)).split(b"\n")
    for line in reversed((*lines, torn)):
        try:
            return int(json.loads(line)["seq"]), hashlib.sha256(line).hexdigest(), bool(torn)
        except (ValueError, KeyError, TypeError):
            continue
    return 0, GENESIS, bool(torn)
