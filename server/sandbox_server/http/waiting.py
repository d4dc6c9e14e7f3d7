"""Connections whose streamed answers have nothing to send: the selector thread watches them, and no other waits."""

from __future__ import annotations

import contextlib
import math
import select

from .connection import Connection

#: When a stream looks again by itself because something was missing: a thread, room in the epoll set.
_SOON = 0.25


class Waiting:
    """In the epoll set of the selector thread. Two streams may wait for the same descriptor."""

    def __init__(self, epoll: select.epoll) -> None:
        self._epoll = epoll
        self._watchers: dict[int, list[Connection]] = {}
        self._until: dict[Connection, float] = {}
        self._watched: dict[Connection, tuple[int, ...]] = {}
        self.check_at = math.inf  # nobody's time is up earlier

    def add(self, connection: Connection, now: float, *, retry: bool = False) -> None:
        """Until its stream can go on; with `retry` it can already, and tries again soon."""
        stream = connection.stream
        assert stream is not None
        if retry:
            self._watched[connection] = ()
            self._until[connection] = now + _SOON
            self.check_at = min(self.check_at, now + _SOON)
            return
        until, watched = stream.until, []
        for descriptor in dict.fromkeys(stream.descriptors):
            if self._watch(connection, descriptor, select.EPOLLIN):
                watched.append(descriptor)
            else:
                until = min(until, now + _SOON)
        if self._watch(connection, connection.sock.fileno(), stream.socket_events):
            watched.append(connection.sock.fileno())
        else:
            until = min(until, now + _SOON)
        self._watched[connection] = tuple(watched)
        self._until[connection] = until
        self.check_at = min(self.check_at, until)

    def remove(self, connection: Connection) -> None:
        del self._until[connection]
        for descriptor in self._watched.pop(connection):
            watchers = self._watchers[descriptor]
            watchers.remove(connection)
            if not watchers:
                del self._watchers[descriptor]
                with contextlib.suppress(OSError):  # closed meanwhile: it left the set by that
                    self._epoll.unregister(descriptor)

    def roused(self, descriptor: int) -> list[Connection]:
        """Take those who wait for this descriptor; they wait no longer."""
        connections = list(self._watchers.get(descriptor, ()))
        for connection in connections:
            self.remove(connection)
        return connections

    def overdue(self, now: float) -> list[Connection]:
        """Take those whose time is up."""
        overdue = [connection for connection, until in self._until.items() if until <= now]
        for connection in overdue:
            self.remove(connection)
        self.check_at = min(self._until.values(), default=math.inf)
        return overdue

    def all(self) -> list[Connection]:
        return list(self._until)

    def _watch(self, connection: Connection, descriptor: int, events: int) -> bool:
        watchers = self._watchers.setdefault(descriptor, [])
        if not watchers:
            try:
                self._epoll.register(descriptor, events)
            except (OSError, ValueError):
                del self._watchers[descriptor]
                return False
        watchers.append(connection)
        return True
