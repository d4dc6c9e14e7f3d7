"""One connection, and what goes out on it: each request is answered, and what becomes of the connection then.

A connection belongs to one thread at a time: to the selector thread while it waits, to a worker while it is served.
"""

from __future__ import annotations

import math
import socket
import struct
import time
from typing import Literal, NamedTuple

from ..messages import Aborted, FileSlice, Refusal, Request, Response
from . import faults, writer
from .body import discard
from .bounds import ONE_PIECE
from .exchange import Exchange
from .incoming import Incoming
from .site import Site
from .streaming import Stream

#: What becomes of a connection now: wait for the next request, close after reading on for a moment, close; or wait
#: until its `stream` can go on.
After = Literal["keep", "linger", "close", "wait"]


class _Started(NamedTuple):
    """An answer whose stream is under way."""

    exchange: Exchange
    response: Response
    close: bool


class Connection(Incoming):
    __slots__ = ("_settled", "_started", "deadline", "lingering", "stream")

    def __init__(self, site: Site, sock: socket.socket, address: object, path: str | None = None) -> None:
        super().__init__(site, sock, address, path)
        self.stream: Stream | None = None  # of the answer under way
        self.deadline = 0.0
        self.lingering = False
        self._started: _Started | None = None
        self._settled = False

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
            patience = self._site.bounds.write_seconds
            if unsent:
                writer.send_all(self.sock, unsent, patience)
            elif isinstance(response.body, (bytes, FileSlice)):
                writer.send(self.sock, response, close=close, bodiless=bodiless, patience=patience)
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
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(bounds.write_seconds / 10))

    def _unsettle(self) -> None:
        """Take the timeouts away: another protocol may be silent as long as it likes."""
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.sock.setsockopt(socket.SOL_SOCKET, option, _timeval(0))


def _timeval(seconds: float) -> bytes:
    return struct.pack("@ll", int(seconds), int(seconds % 1 * 1_000_000))
