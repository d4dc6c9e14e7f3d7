"""Connections on their way back from workers to the selector thread, and the bell that wakes it."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections import deque
from collections.abc import Iterator

from .connection import After, Connection


class Returned:
    """Any thread puts in, and rings; only the selector thread takes out. After `close` nobody takes out any more."""

    def __init__(self, epoll: select.epoll) -> None:
        self._waiting: deque[tuple[Connection, After]] = deque()
        self._lock = threading.RLock()  # a signal handler may ring in this very thread
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        epoll.register(self.bell, select.EPOLLIN)

    def put(self, connection: Connection, after: After) -> None:
        self._waiting.append((connection, after))
        if not self.ring():
            self._abandon()  # the selector thread is gone

    def ring(self) -> bool:
        """Wake the selector thread; False when there is none any more."""
        with self._lock:
            if self.bell < 0:
                return False
            os.eventfd_write(self.bell, 1)
            return True

    def take(self) -> Iterator[tuple[Connection, After]]:
        """Silence the bell, and all that came back."""
        os.eventfd_read(self.bell)
        while self._waiting:
            yield self._waiting.popleft()

    def close(self) -> None:
        with self._lock:
            os.close(self.bell)
            self.bell = -1
        self._abandon()

    def _abandon(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._waiting.popleft()[0].abandon()
