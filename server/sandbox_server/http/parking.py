"""Connections that wait for bytes: watched together, each until its deadline. Waiting costs nothing."""

from __future__ import annotations

import math
import select

from .connection import Connection


class Parking:
    """The connections in an epoll set, by descriptor."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll
        self._by_descriptor: dict[int, Connection] = {}
        self.find = self._by_descriptor.get
        self.check_at = math.inf  # no deadline is earlier

    def all(self) -> list[Connection]:
        return list(self._by_descriptor.values())

    def add(self, connection: Connection) -> bool:
        """Watch it; False when the kernel has no room to watch one more."""
        descriptor = connection.sock.fileno()
        try:
            self._epoll.register(descriptor, select.EPOLLIN)
        except OSError:
            return False
        self._by_descriptor[descriptor] = connection
        return True

    def remove(self, connection: Connection) -> None:
        """Watch it no longer. Closing alone is not enough: a child being spawned may hold a copy for an instant."""
        descriptor = connection.sock.fileno()
        if self._by_descriptor.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def expect(self, connection: Connection, deadline: float) -> None:
        connection.deadline = deadline
        if deadline < self.check_at:
            self.check_at = deadline

    def overdue(self, now: float) -> list[Connection]:
        """Those whose deadline has passed. Deadlines move on without notice, so `check_at` is found anew here."""
        overdue = []
        self.check_at = math.inf
        for connection in self._by_descriptor.values():
            if connection.deadline <= now:
                overdue.append(connection)
            elif connection.deadline < self.check_at:
                self.check_at = connection.deadline
        return overdue
