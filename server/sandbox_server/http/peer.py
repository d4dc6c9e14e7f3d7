"""The other end of a connection, for work that stops when nobody listens."""

from __future__ import annotations

import select
import socket

GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class WirePeer:
    __slots__ = ("_sock",)

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def fileno(self) -> int:
        return self._sock.fileno()

    def gone(self) -> bool:
        if self._sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._sock, GONE)
        return bool(poll.poll(0))
