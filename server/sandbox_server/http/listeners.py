"""The listening sockets, and what to do when descriptors run out: turn callers away, never spin, never die."""

from __future__ import annotations

import errno
import math
import os
import select
import socket
from collections.abc import Callable, Iterable, Iterator

Accepted = tuple[socket.socket, object]

_BATCH = 64  # connections taken in one go
_PAUSE = 0.1  # seconds without accepting
# Faults of one caller; all others are ours and call for a pause.
_PASSING = frozenset((errno.ECONNABORTED, errno.EPROTO, errno.EPERM, errno.EINTR))


class Listeners:
    """Listening sockets in an epoll set.

    A spare descriptor is given up and taken again to turn callers away one by one when there is no other left.
    """

    def __init__(self, epoll: select.epoll, sockets: Iterable[socket.socket], turn_away: Callable[[Accepted], None]):
        self._epoll = epoll
        self._sockets = {sock.fileno(): sock for sock in sockets}
        self._turn_away = turn_away
        self._spare = -1
        self.resume_at = math.inf
        for sock in self._sockets.values():
            sock.setblocking(False)
            tune(sock)

    def __contains__(self, descriptor: int) -> bool:
        return descriptor in self._sockets

    def __iter__(self) -> Iterator[int]:
        return iter(self._sockets)

    def resume(self) -> None:
        self.resume_at = math.inf
        self._save_one()
        for descriptor in self._sockets:
            self._epoll.register(descriptor, select.EPOLLIN)

    def accept(self, descriptor: int, now: float) -> Iterator[Accepted]:
        listener = self._sockets[descriptor]
        for _ in range(_BATCH):
            try:
                yield listener.accept()
            except BlockingIOError:
                return
            except OSError as fault:
                if fault.errno in _PASSING:
                    continue
                if not self._use_spare(listener):
                    self._pause(now)
                return

    def close(self) -> None:
        for descriptor, listener in self._sockets.items():
            if self.resume_at == math.inf:
                self._epoll.unregister(descriptor)
            listener.close()
        self._sockets.clear()
        self.resume_at = math.inf
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1

    def _use_spare(self, listener: socket.socket) -> bool:
        if self._spare < 0:
            return False
        os.close(self._spare)
        self._spare = -1
        try:
            accepted = listener.accept()
        except OSError:
            self._save_one()
            return False
        self._turn_away(accepted)
        return self._save_one()

    def _save_one(self) -> bool:
        if self._spare < 0:
            try:
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return False
        return True

    def _pause(self, now: float) -> None:
        for descriptor in self._sockets:
            self._epoll.unregister(descriptor)
        self.resume_at = now + _PAUSE


def tune(sock: socket.socket) -> None:
    """Options of a TCP connection. Set on a listener they hold for what it accepts."""
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A stream may be silent for hours; keep-alive probes tell when its reader's machine is gone.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3)):
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
