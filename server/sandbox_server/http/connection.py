"""One connection: its bytes become requests, its answers bytes. Blocking, but for `take`, which only looks at bytes.

A connection belongs to one thread at a time: to the selector thread while it waits, to a worker while it is served.
"""

from __future__ import annotations

import itertools
import math
import os
import select
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, NoReturn

from ..messages import Aborted, FileSlice, Refusal, Request, Response
from . import faults, parser, writer
from .body import WireBody, discard
from .bounds import ONE_PIECE, Bounds
from .exchange import Exchange, Handler
from .hosts import HostRules
from .peer import WirePeer
from .streaming import Stream

#: What becomes of a connection now: wait for the next request, close after reading on for a moment, close; or wait
#: until its `stream` can go on.
After = Literal["keep", "linger", "close", "wait"]

_RECEIVE = 64 * 1024


class RequestIds:
    """Ids unlike those of other runs, cheap to count up, safe to take from any thread."""

    def __init__(self) -> None:
        self._prefix = os.urandom(6).hex()
        self._count = itertools.count(1)

    def next(self) -> str:
        return f"{self._prefix}{next(self._count):06x}"


@dataclass(slots=True)
class Site:
    """What all connections of a server share."""

    handler: Handler
    hosts: HostRules = field(default_factory=HostRules)
    bounds: Bounds = Bounds()
    ids: RequestIds = field(default_factory=RequestIds)
    stopping: bool = False  # answers then close their connections


class _Started(NamedTuple):
    """An answer whose stream is under way."""

    exchange: Exchange
    response: Response
    close: bool


class Connection:
    __slots__ = (
        "_line",
        "_section",
        "_fields",
        "_settled",
        "_site",
        "_started",
        "_no_body",
        "_peer",
        "any_host",
        "buffer",
        "client",
        "deadline",
        "lingering",
        "path",
        "sock",
        "stream",
    )

    def __init__(self, site: Site, sock: socket.socket, address: object, path: str | None = None) -> None:
        self.sock = sock
        self.path = path  # what every request here asks for, whatever it says
        self.stream: Stream | None = None  # of the answer under way
        self._started: _Started | None = None
        self.buffer = b""
        self.deadline = 0.0
        self.lingering = False
        self.any_host = sock.family == socket.AF_UNIX
        self.client = "unix" if self.any_host else client_name(address)
        self._site = site
        self._settled = False
        self._no_body = WireBody(sock, site.bounds)
        self._peer = WirePeer(sock)
        self._line: parser.RequestLine | None = None
        self._section = b""
        self._fields: parser.Fields | None = None

    def take(self) -> Exchange | None:
        """The next request, if all of its head is here. After a refusal nothing more can be read."""
        buffer = self.buffer
        start = 2 if buffer.startswith(b"\r\n") else 0
        end = buffer.find(b"\r\n\r\n", start)
        self._line = None
        if end < 0:
            if buffer:
                parser.check_incomplete(buffer[start:])
            return None
        line_end = buffer.find(b"\r\n", start)
        line = self._line = parser.parse_request_line(buffer[start:line_end])
        fields = self._read_fields(buffer[line_end + 2 : end], line.minor)
        body, rest = self._no_body, buffer[end + 4 :]
        if fields.length:
            body = WireBody(self.sock, self._site.bounds, fields.length, rest[: fields.length], fields.expects)
            rest = rest[fields.length :]
        self.buffer = rest
        request = Request(
            line.method,
            self.path or line.path,
            line.query,
            fields.headers,
            body,
            self._peer,
            self.client,
            self._site.ids.next(),
        )
        return Exchange(request, body, line.minor > 0 and not fields.close, line.minor > 0)

    def _read_fields(self, section: bytes, minor: int) -> parser.Fields:
        # A client repeats its fields from request to request; equal bytes need no second reading.
        if self._fields is not None and section == self._section and minor > 0:
            return self._fields
        fields = parser.parse_fields(section, minor)
        self._site.hosts.check(fields, any_host=self.any_host)
        if minor > 0:
            self._section, self._fields = section, fields
        return fields

    def receive(self, seconds: float) -> bool:
        """Wait for more bytes; False when none came. The end of the peer's bytes raises."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
        try:
            data = self.sock.recv(_RECEIVE)
        except BlockingIOError:
            return False
        except OSError as fault:
            raise Aborted from fault
        if not data:
            self.ended()
        self.buffer += data
        return True

    def ended(self) -> NoReturn:
        """The peer sends no more: refuse half a head, leave quietly after none."""
        raise Refusal("bad_request", "the request head ended early") if self.buffer else Aborted

    def expired(self) -> NoReturn:
        """The peer took too long: the same."""
        limit = self._site.bounds.head_seconds
        raise Refusal("timeout", f"the request head did not arrive within {limit:g} s") if self.buffer else Aborted

    def converse(self, exchange: Exchange, response: Response | None = None, unsent: bytes = b"") -> After:
        """Answer on this thread, and go on while the next request is there or comes at once.

        What the selector thread could not finish is passed on: a response to send, or the part of it yet unsent.
        """
        self._settle()
        return self._guarded(exchange, response, unsent)

    def resume(self, patience: float | None = None) -> After:
        """Go on with the stream that waited, and then as `converse` does."""
        return self._guarded(None, patience=patience)

    def abandon(self) -> None:
        """Close it, and let go of what its stream holds."""
        if self._started is not None:
            self._finish(self._started.response)
        self.sock.close()

    def _guarded(
        self,
        exchange: Exchange | None,
        response: Response | None = None,
        unsent: bytes = b"",
        patience: float | None = None,
    ) -> After:
        try:
            return self._converse(exchange, response, unsent, patience)
        except Refusal as refusal:
            return self.refuse(refusal)
        except Aborted:
            return "close"

    def _converse(
        self, exchange: Exchange | None, response: Response | None, unsent: bytes, patience: float | None
    ) -> After:
        stay = self._site.bounds.stay_seconds
        while True:
            if exchange is None:
                after = self._go_on(stay if patience is None else patience)
            else:
                response = response or self.handle(exchange.request)
                if response is None:
                    raise Aborted  # only a request tried inline may go unanswered
                after = self._answer(exchange, response, unsent)
            if after != "keep":
                return after
            response, unsent = None, b""
            exchange = self.take()
            if exchange is None and self.receive(stay):
                exchange = self.take()
            if exchange is None:
                return "keep"

    def serve(self) -> None:
        """Serve from the first byte to the last on this thread, where no selector thread waits for requests."""
        bounds = self._site.bounds
        self._settle()
        after: After = "keep"
        patience = bounds.head_seconds
        while after == "keep":
            try:
                exchange = self._await(patience)
            except Refusal as refusal:
                after = self.refuse(refusal)
            except Aborted:
                return
            else:
                after = self.converse(exchange)
            while after == "wait":
                after = self.resume(math.inf)
            patience = bounds.idle_seconds
        if after == "linger":
            self._linger()

    def refuse(self, refusal: Refusal) -> After:
        try:
            self.sock.sendall(self.render_refusal(refusal))
        except OSError:
            return "close"
        return "linger"

    def render_refusal(self, refusal: Refusal) -> bytes:
        """The whole answer to what `take` refused; the connection must close after it."""
        method, path = (self._line.method, self._line.path) if self._line else ("", "")
        try:
            response = self._site.handler.refuse(
                refusal, client=self.client, method=method, path=path, id=self._site.ids.next()
            )
            return render(response, close=True, bodiless=method == "HEAD")
        except Exception:
            faults.report("a refusal")
            return b""

    def closes(self, exchange: Exchange, response: Response) -> bool:
        """True when this must be the last answer."""
        body = exchange.body
        return (
            not exchange.keep
            or response.close_connection
            or self._site.stopping
            or body.failed
            or body.withheld
            or body.left > self._site.bounds.drain_bytes
            or not (exchange.chunked or isinstance(response.body, (bytes, FileSlice)))
        )

    def handle(self, request: Request, *, inline: bool = False) -> Response | None:
        """Ask the handler; what it must not do, raise, becomes a refusal all the same."""
        try:
            return self._site.handler.handle(request, inline=inline)
        except Exception:
            faults.report("the application")
            refusal = Refusal("internal_error", "the request failed inside the server; its log says why")
            return self._site.handler.refuse(
                refusal, client=self.client, method=request.method, path=request.path, id=request.id
            )

    def _answer(self, exchange: Exchange, response: Response, unsent: bytes) -> After:
        close = self.closes(exchange, response)
        bodiless = exchange.request.method == "HEAD"
        try:
            if exchange.body.aborted:
                return self._finish(response)
            if response.upgrade is not None:
                return self._upgrade(exchange, response)
            if unsent:
                self.sock.sendall(unsent)
            elif isinstance(response.body, (bytes, FileSlice)):
                writer.send(self.sock, response, close=close, bodiless=bodiless)
            else:
                head = writer.render_head(response, close=close, chunked=exchange.chunked)
                self._started = _Started(exchange, response, close)
                body = () if bodiless else response.body
                self.stream = Stream(self.sock, head, body, chunked=exchange.chunked and not bodiless)
                return self._go_on(self._site.bounds.stay_seconds)
        except (Aborted, OSError):
            return self._finish(response)
        self._finish(response)
        return self._leave(exchange, close)

    def _go_on(self, patience: float) -> After:
        assert self.stream is not None and self._started is not None
        exchange, response, close = self._started
        try:
            if not self.stream.advance(patience):
                return "wait"
        except Aborted:
            return self._finish(response)
        self._finish(response)
        return self._leave(exchange, close)

    def _finish(self, response: Response) -> After:
        if self.stream is not None:
            self.stream.close()
        self.stream = self._started = None
        writer.finish(response)
        return "close"

    def _leave(self, exchange: Exchange, close: bool) -> After:
        body = exchange.body
        if close:
            return "linger" if body.left or self.buffer else "close"
        return "keep" if body.drain() else "linger"

    def _upgrade(self, exchange: Exchange, response: Response) -> After:
        """Let another protocol have the connection until it is done."""
        upgrade = response.upgrade
        assert upgrade is not None
        if exchange.body.length or not exchange.chunked or exchange.request.method != "GET":
            self._finish(response)
            raise Refusal("bad_request", "only a GET request of HTTP/1.1 without a body can change the protocol")
        try:
            self.sock.sendall(writer.render_head(response, close=False))
            self._unsettle()
            leftover, self.buffer = self.buffer, b""
            upgrade(self.sock, leftover)
        except (Aborted, OSError):
            pass  # the peer has gone
        except Exception:
            faults.report("an upgraded connection")
        finally:
            self._finish(response)
        return "linger" if self.sock.fileno() >= 0 else "close"

    def _await(self, seconds: float) -> Exchange:
        bounds = self._site.bounds
        deadline = time.monotonic() + (bounds.head_seconds if self.buffer else seconds)
        while (exchange := self.take()) is None:
            begun = bool(self.buffer)
            if not self.receive(max(0.0, deadline - time.monotonic())):
                self.expired()
            if not begun:
                deadline = time.monotonic() + bounds.head_seconds
        return exchange

    def _linger(self) -> None:
        """Say that nothing follows, and read on: closing with bytes unread would reset the answer away."""
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            return
        deadline = time.monotonic() + self._site.bounds.linger_seconds
        while discard(self.sock, ONE_PIECE, deadline):
            pass

    def _settle(self) -> None:
        """Give the socket its timeouts. Only who blocks needs them, so this waits for the first worker."""
        if not self._settled:
            self._settled = True
            bounds = self._site.bounds
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(bounds.body_seconds / 6))
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(bounds.write_seconds))

    def _unsettle(self) -> None:
        """Take the timeouts away: another protocol may be silent as long as it likes."""
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.sock.setsockopt(socket.SOL_SOCKET, option, _timeval(0))


def render(response: Response, *, close: bool, bodiless: bool) -> bytes:
    """A response that is all there, as one piece; it is finished with that."""
    data = writer.render_head(response, close=close)
    if not bodiless and isinstance(response.body, bytes):
        data += response.body
    writer.finish(response)
    return data


def client_name(address: object) -> str:
    """``127.0.0.1:40312`` or ``[::1]:40312``."""
    if not isinstance(address, tuple):
        return "unix"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _timeval(seconds: float) -> bytes:
    return struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
