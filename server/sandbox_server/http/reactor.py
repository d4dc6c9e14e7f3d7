"""The selector thread: accepts, reads heads, keeps idle connections, answers what cannot block; workers do the rest.

Sockets block; this thread passes MSG_DONTWAIT instead, so a connection changes hands without a system call. A
connection is either in `_parking`, and this thread's, or it belongs to one worker, which sends it
back through `_returned`.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import time
from collections.abc import Callable, Iterable
from functools import partial

from ..messages import Aborted, Refusal, Response
from . import faults, writer
from .body import discard_now
from .bounds import Bounds
from .connection import After, Connection
from .exchange import Exchange, Handler
from .hosts import HostRules
from .listeners import Accepted, Listeners
from .parking import Parking
from .returned import Returned
from .site import Site
from .waiting import Waiting
from .workers import Workers

_RECEIVE = 16 * 1024
_TURNS = 32  # requests answered in one go on one connection; a longer pipeline goes to a worker
_CROWD = 64  # connections above the cap that still get a refusal and time to read it
_GLANCE = 80e-6  # seconds
_CUT_SECONDS = 2.0  # for workers to notice that their connections were cut


class Reactor:
    """Serve on listening sockets until `stop`. The sockets become the reactor's.

    `doors` are listening sockets too: behind each, every request is for that one path, whatever it says.
    """

    def __init__(
        self,
        handler: Handler,
        listeners: Iterable[socket.socket],
        *,
        doors: Iterable[tuple[socket.socket, str]] = (),
        hosts: HostRules | None = None,
        bounds: Bounds | None = None,
        on_stop: Iterable[Callable[[], None]] = (),
    ) -> None:
        self._site = Site(handler, hosts or HostRules(), bounds or Bounds())
        self._bounds = self._site.bounds
        self._workers = Workers(self._bounds.idle_worker_seconds)
        self._on_stop = tuple(on_stop)
        self._epoll = select.epoll()
        doors = tuple(doors)
        self._paths = {sock.fileno(): path for sock, path in doors}
        self._listeners = Listeners(self._epoll, [*listeners, *(sock for sock, _ in doors)], self._turn_away)
        self._connections: set[Connection] = set()
        self._parking = Parking(self._epoll)
        self._waiting = Waiting(self._epoll)
        self._returned = Returned(self._epoll)
        self._lone = False  # the last turn had one event, and that a connection's
        self._now = time.monotonic()
        self._grace: float | None = None  # asked for by `stop`
        self._stop_at = math.inf

    def stop(self, grace: float = 10.0) -> None:
        """Accept no more, let running requests finish for `grace` seconds, then cut. From any thread or signal."""
        self._grace = grace if self._grace is None else min(grace, self._grace)
        self._returned.ring()

    def run(self) -> None:
        """Serve on this thread until stopped."""
        try:
            self._listeners.resume()
            while self._stop_at == math.inf or (self._connections and self._now < self._stop_at):
                self._turn()
            self._cut_off()
        finally:
            self._close()

    def _turn(self) -> None:
        wake_at = min(
            self._parking.check_at,
            self._waiting.check_at,
            self._workers.grow_at,
            self._listeners.resume_at,
            self._stop_at,
        )
        events = self._glance() or self._epoll.poll(-1 if wake_at == math.inf else max(0.0, wake_at - time.monotonic()))
        self._lone = len(events) == 1 and events[0][0] != self._returned.bell
        self._now = time.monotonic()
        for descriptor, _ in events:
            self._attend_to(descriptor)
        if self._now >= self._parking.check_at:
            self._expire()
        if self._now >= self._waiting.check_at:
            for connection in self._waiting.overdue(self._now):
                self._resume(connection, 0.0)
        if self._now >= self._workers.grow_at:
            self._workers.grow()
        if self._now >= self._listeners.resume_at:
            self._listeners.resume()

    def _glance(self) -> list[tuple[int, int]]:
        """After a lone request, look again for an instant: who asks one thing after the other asks at once.

        Going to sleep and being woken up costs more processor time than that, and doubles the caller's round trip.
        """
        until = time.monotonic() + _GLANCE if self._lone else 0.0
        while time.monotonic() < until:
            if events := self._epoll.poll(0):
                return events
        return []

    def _attend_to(self, descriptor: int) -> None:
        connection = self._parking.find(descriptor)
        try:
            if connection is not None:
                self._read(connection)
            elif descriptor == self._returned.bell:
                self._take_back()
            elif descriptor in self._listeners:
                self._accept(descriptor)
            else:
                for stirred in self._waiting.roused(descriptor):
                    self._resume(stirred)
        except Exception as fault:
            if not isinstance(fault, Aborted):
                faults.report("the selector thread")
            if connection is not None:
                self._drop(connection)

    def _read(self, connection: Connection) -> None:
        try:
            if connection.lingering:
                if not discard_now(connection.sock):
                    self._drop(connection)
                return
            data = connection.sock.recv(_RECEIVE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError as fault:
            raise Aborted from fault
        begun = bool(connection.buffer)
        try:
            if not data:
                connection.ended()
            connection.buffer += data
            if self._serve(connection, begun=begun):
                self._wait(connection)
        except Refusal as refusal:
            self._refuse(connection, refusal)

    def _serve(self, connection: Connection, *, begun: bool) -> bool:
        """Answer the complete requests in the buffer, or pass the connection on; True when a new wait begins."""
        turns = 0
        while (exchange := connection.take()) is not None:
            request = exchange.request
            if turns == _TURNS or exchange.body.left or not self._site.handler.quick(request.method, request.path):
                self._hand_over(connection, exchange)
                return False
            response = connection.handle(request, inline=True)
            if response is None:
                self._hand_over(connection, exchange)
                return False
            close = connection.closes(exchange, response)
            data = writer.one_piece(response, close=close, bodiless=request.method == "HEAD")
            if data is None:
                self._hand_over(connection, exchange, response)
                return False
            sent = _send_now(connection.sock, data)
            if sent < len(data):
                self._hand_over(connection, exchange, response, data[sent:])
                return False
            writer.finish(response)
            if close:
                self._leave(connection)
                return False
            turns += 1
        return turns > 0 or not begun

    def _hand_over(
        self, connection: Connection, exchange: Exchange, response: Response | None = None, unsent: bytes = b""
    ) -> None:
        self._lone = False  # a worker needs the interpreter now
        self._parking.remove(connection)
        if self._workers.submit(
            partial(self._work, connection, partial(connection.converse, exchange, response, unsent))
        ):
            return
        self._park(connection)
        if response is None:
            raise Refusal("busy", "no thread can be started now; try again")
        writer.finish(response)
        raise Aborted

    def _resume(self, connection: Connection, patience: float | None = None) -> None:
        """Let a worker go on with a stream, and stay with it for a moment unless nothing but its time has come."""
        if not self._workers.submit(partial(self._work, connection, partial(connection.resume, patience))):
            self._waiting.add(connection, self._now, retry=True)

    def _work(self, connection: Connection, serve: Callable[[], After]) -> None:
        """On a worker: serve, and give the connection back."""
        after: After = "close"
        try:
            after = serve()
        finally:
            self._returned.put(connection, after)

    def _take_back(self) -> None:
        for connection, after in self._returned.take():
            if after == "close" or (after == "keep" and self._site.stopping):
                self._forget(connection)
                continue
            if after == "wait":
                self._waiting.add(connection, self._now)
                continue
            self._park(connection)
            if after == "linger":
                self._linger(connection)
            else:
                self._wait(connection)
        if self._grace is not None:
            self._begin_stop(self._grace)

    def _refuse(self, connection: Connection, refusal: Refusal) -> None:
        _send_now(connection.sock, connection.render_refusal(refusal))
        self._linger(connection)

    def _leave(self, connection: Connection) -> None:
        """The last answer is out."""
        if connection.buffer:
            self._linger(connection)
        else:
            self._drop(connection)

    def _linger(self, connection: Connection) -> None:
        """Say that nothing follows, and read on: closing with bytes unread would reset the answer away."""
        connection.lingering = True
        connection.buffer = b""
        try:
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            self._drop(connection)
            return
        self._parking.expect(connection, self._now + self._bounds.linger_seconds)

    def _wait(self, connection: Connection) -> None:
        bounds = self._bounds
        self._parking.expect(
            connection, self._now + (bounds.head_seconds if connection.buffer else bounds.idle_seconds)
        )

    def _expire(self) -> None:
        for connection in self._parking.overdue(self._now):
            try:
                if connection.lingering:
                    raise Aborted
                connection.expired()
            except Refusal as refusal:
                self._refuse(connection, refusal)
            except Aborted:
                self._drop(connection)

    def _park(self, connection: Connection) -> None:
        if not self._parking.add(connection):
            self._forget(connection)

    def _drop(self, connection: Connection) -> None:
        self._parking.remove(connection)
        self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        connection.sock.close()

    def _accept(self, descriptor: int) -> int:
        """Take in those who wait there, as many as one turn may; how many they were."""
        count = 0
        for sock, address in self._listeners.accept(descriptor, self._now):
            count += 1
            if len(self._connections) >= self._bounds.connections + _CROWD:
                self._turn_away((sock, address))
                continue
            connection = Connection(self._site, sock, address, self._paths.get(descriptor))
            crowded = len(self._connections) >= self._bounds.connections
            self._connections.add(connection)
            self._park(connection)
            if crowded:
                self._refuse(connection, Refusal("busy", "too many connections; try again"))
            else:
                self._parking.expect(connection, self._now + self._bounds.head_seconds)
        return count

    def _turn_away(self, accepted: Accepted) -> None:
        """Refuse a caller for whom there is no room, and no time either."""
        sock, address = accepted
        with sock:
            with contextlib.suppress(OSError):
                sock.recv(_RECEIVE, socket.MSG_DONTWAIT)  # unread bytes would turn the close into a reset
            connection = Connection(self._site, sock, address)
            _send_now(sock, connection.render_refusal(Refusal("busy", "out of connections; try again")))

    def _begin_stop(self, grace: float) -> None:
        self._stop_at = min(self._stop_at, self._now + grace)
        if self._site.stopping:
            return
        self._site.stopping = True
        for descriptor in self._listeners:
            while self._accept(descriptor):
                pass
        self._listeners.close()
        for connection in self._parking.all():
            self._attend_to(connection.sock.fileno())  # what has arrived by now is answered
        for connection in self._parking.all():
            if not (connection.buffer or connection.lingering):
                self._drop(connection)
        for announce in self._on_stop:
            try:
                announce()
            except Exception:
                faults.report("stopping")

    def _cut_off(self) -> None:
        """Close what is still open, so that workers wake up and let go of what they hold."""
        for connection in self._parking.all():
            self._drop(connection)
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self._stop_at = time.monotonic() + _CUT_SECONDS
        while self._connections and self._now < self._stop_at:
            self._turn()

    def _close(self) -> None:
        self._listeners.close()
        self._returned.close()
        for connection in self._waiting.all():
            connection.abandon()
        for connection in self._parking.all():
            self._drop(connection)  # came back after the cut, to linger
        self._epoll.close()


def _send_now(sock: socket.socket, data: bytes) -> int:
    """Send what fits into the socket's buffer at once."""
    try:
        return sock.send(data, socket.MSG_DONTWAIT)
    except OSError:
        return 0
