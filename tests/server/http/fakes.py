"""A small application for the socket side, a server around it, and a client that shows bytes."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox_server.http.bounds import Bounds
from sandbox_server.http.hosts import HostRules
from sandbox_server.http.reactor import Reactor
from sandbox_server.messages import Aborted, FileSlice, Refusal, Request, Response, json_response

Route = Callable[[Request], Response]


class FakeApplication:
    """Answers by path; keeps what it was asked, what it refused and what was closed."""

    def __init__(self, **routes: Route) -> None:
        self.routes: dict[str, Route] = {"/health": health, "/echo": echo, **{f"/{k}": v for k, v in routes.items()}}
        self.seen: list[Request] = []
        self.refused: list[dict[str, Any]] = []
        self.aborted = 0
        self.closed = 0
        self.inline = 0
        self.blocks = False  # answer None to every inline try

    def quick(self, method: str, path: str) -> bool:
        return path == "/health"

    def handle(self, request: Request, *, inline: bool = False) -> Response | None:
        if inline and self.blocks:
            return None
        self.inline += inline
        self.seen.append(request)
        route = self.routes.get(request.path)
        try:
            if route is None:
                raise Refusal("unknown_route", f"no endpoint at '{request.path}'")
            response = route(request)
        except Refusal as refusal:
            response = json_response(refusal.body(), refusal.status)
        except Aborted:
            self.aborted += 1
            response = json_response({}, 500)
        return self._told(response, request.id)

    def refuse(self, refusal: Refusal, *, client: str, method: str = "", path: str = "", id: str = "") -> Response:
        self.refused.append({"code": refusal.code, "client": client, "method": method, "path": path, "id": id})
        return self._told(json_response(refusal.body(), refusal.status), id)

    def _told(self, response: Response, id: str) -> Response:
        response.headers.append(("X-Request-Id", id))
        response.on_close.append(self._count_close)
        return response

    def _count_close(self) -> None:
        self.closed += 1


def health(request: Request) -> Response:
    return json_response({"status": "ok"})


def echo(request: Request) -> Response:
    return Response(200, request.body.read(), [("Content-Type", "application/octet-stream")])


def file_response(path: Path, offset: int = 0, length: int | None = None) -> Response:
    descriptor = os.open(path, os.O_RDONLY)
    return Response(200, FileSlice(descriptor, offset, os.fstat(descriptor).st_size if length is None else length))


#: A test that is held up for a moment still gets the answer that a server with less patience would reset away.
PATIENT = Bounds(linger_seconds=60, drain_seconds=60)


@contextmanager
def serving(
    application: FakeApplication,
    *,
    bounds: Bounds | None = None,
    hosts: HostRules | None = None,
    unix: Path | None = None,
    on_stop: Callable[[], None] | None = None,
) -> Iterator[Server]:
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=256)]
    if unix is not None:
        listeners.append(socket.socket(socket.AF_UNIX))
        listeners[1].bind(str(unix))
        listeners[1].listen(256)
    port = listeners[0].getsockname()[1]
    reactor = Reactor(
        application, listeners, hosts=hosts, bounds=bounds or PATIENT, on_stop=[on_stop] if on_stop else []
    )
    thread = threading.Thread(target=reactor.run, name="reactor")
    thread.start()
    try:
        yield Server(port, reactor, thread)
    finally:
        reactor.stop(0)
        thread.join(60)
        assert not thread.is_alive()


class Server:
    def __init__(self, port: int, reactor: Reactor, thread: threading.Thread) -> None:
        self.port = port
        self.reactor = reactor
        self.thread = thread

    def connect(self) -> Wire:
        return Wire(socket.create_connection(("127.0.0.1", self.port), timeout=60))


class Wire:
    """One connection of a client that sends exactly what it is given."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *exc: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> Wire:
        self.sock.sendall(data)
        return self

    def get(self, path: str, *headers: str, method: str = "GET") -> Answer:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        return self.answer(method)

    def post(self, path: str, body: bytes, *headers: str) -> Answer:
        lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body)
        return self.answer()

    def fill(self) -> bool:
        data = self.sock.recv(1 << 18)
        self.buffer += data
        return bool(data)

    def line(self) -> bytes:
        while b"\r\n" not in self.buffer:
            if not self.fill():
                raise EOFError(f"closed after {self.buffer!r}")
        line, _, self.buffer = self.buffer.partition(b"\r\n")
        return line

    def exactly(self, count: int) -> bytes:
        pieces, have = [self.buffer], len(self.buffer)
        while have < count:
            data = self.sock.recv(min(1 << 18, count - have))
            if not data:
                raise EOFError(f"closed {count - have} bytes early")
            pieces.append(data)
            have += len(data)
        whole = b"".join(pieces)
        self.buffer = whole[count:]
        return whole[:count]

    def rest(self) -> bytes:
        """All until the server closes."""
        while self.fill():
            pass
        whole, self.buffer = self.buffer, b""
        return whole

    def head(self) -> Answer:
        version, status, _ = self.line().decode("latin-1").split(" ", 2)
        fields: dict[str, str] = {}
        while line := self.line():
            name, _, value = line.decode("latin-1").partition(": ")
            assert name.lower() not in fields, f"{name} twice"
            fields[name.lower()] = value
        return Answer(int(status), fields, version)

    def answer(self, method: str = "GET") -> Answer:
        answer = self.head()
        if method == "HEAD" or answer.status in (100, 204, 304):
            return answer
        if answer.fields.get("transfer-encoding") == "chunked":
            while size := int(self.line(), 16):
                answer.chunks.append(self.exactly(size))
                assert self.line() == b""
            assert self.line() == b""
            answer.body = b"".join(answer.chunks)
        elif "content-length" in answer.fields:
            answer.body = self.exactly(int(answer.fields["content-length"]))
        else:
            answer.body = self.rest()
        return answer

    def closed(self) -> bool:
        """True when the server has closed and sent nothing more; waits for it."""
        return self.buffer == b"" and self.sock.recv(1) == b""


class Answer:
    def __init__(self, status: int, fields: dict[str, str], version: str) -> None:
        assert version == "HTTP/1.1"
        self.status = status
        self.version = version
        self.fields = fields
        self.body = b""
        self.chunks: list[bytes] = []

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        code: str | None = self.json.get("code")
        return code
