"""What comes in on one connection: bytes that become requests, or a refusal. Blocking, but for `take`."""

from __future__ import annotations

import select
import socket
from typing import NoReturn

from ..messages import Aborted, Refusal, Request, Response
from . import faults, parser, writer
from .body import WireBody
from .exchange import Exchange
from .peer import WirePeer
from .site import Site

_RECEIVE = 64 * 1024


class Incoming:
    __slots__ = (
        "_fields",
        "_line",
        "_no_body",
        "_peer",
        "_section",
        "_site",
        "any_host",
        "buffer",
        "client",
        "path",
        "sock",
    )

    def __init__(self, site: Site, sock: socket.socket, address: object, path: str | None = None) -> None:
        self.sock = sock
        self.path = path  # what every request here asks for, whatever it says
        self.buffer = b""
        self.any_host = sock.family == socket.AF_UNIX
        self.client = "unix" if self.any_host else client_name(address)
        self._site = site
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
            first = rest[: fields.length]
            body = WireBody(self.sock, self._site.bounds, fields.length, first, fields.expects, line.minor > 0)
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
