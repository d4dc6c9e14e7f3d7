"""A server that misbehaves as it is told: each request goes to a function that writes the answer by hand."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

OURS = {"X-Sandbox-Server": "notebook-sandbox"}
FRAMES = "application/vnd.docker.multiplexed-stream"


@dataclass
class Exchange:
    """One request, and the connection to answer it on."""

    connection: socket.socket
    method: str
    target: str
    headers: Mapping[str, str]
    early: bytes  # what has come of the body
    ours: bool = True  # answer like the server of this project
    closed: bool = False

    @property
    def length(self) -> int:
        return int(self.headers.get("content-length", "0"))

    def read(self, most: int | None = None) -> bytes:
        """The request body, or its first bytes."""
        wanted = self.length if most is None else most
        data = self.early
        while len(data) < wanted and (piece := self.connection.recv(65536)):
            data += piece
        return data

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        own = OURS if self.ours else {}
        lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in {**own, **headers}.items())]
        self.send("\r\n".join([*lines, "", ""]).encode())

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def reply(self, status: int, body: bytes | Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.head(status, {"Content-Length": str(len(raw)), "Content-Type": "application/json", **(headers or {})})
        self.send(raw)

    def chunk(self, data: bytes) -> None:
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def stream(self, *pieces: bytes, kind: str = FRAMES, end: bool = True) -> None:
        """A chunked body; without `end` it is cut off."""
        self.read()  # what is left unread would turn closing into a reset, and that would take the answer with it
        self.head(200, {"Content-Type": kind, "Transfer-Encoding": "chunked"})
        for piece in pieces:
            self.chunk(piece)
        if end:
            self.send(b"0\r\n\r\n")
        else:
            self.close()

    def close(self) -> None:
        """End the connection in order: closing with bytes unread would reset what was sent away."""
        self.closed = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(1)
            while self.connection.recv(1 << 16):
                pass
        self.connection.close()

    def reset(self) -> None:
        """Break the connection off, so that the peer gets an error instead of an end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.closed = True
        self.connection.close()


Answer = Callable[[Exchange], object]


@dataclass
class Scripted:
    """The running server; `seen` lists the requests in order. `die` makes it deaf."""

    listener: socket.socket
    answer: Answer
    seen: list[tuple[str, str]] = field(default_factory=list)
    ours: bool = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def asked(self, target: str) -> int:
        """How many requests have come for targets that begin so."""
        return sum(seen.startswith(target) for _, seen in self.seen)

    def die(self) -> None:
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, ValueError):
            buffer = b""
            while True:
                while b"\r\n\r\n" not in buffer:
                    if not (piece := connection.recv(65536)):
                        return
                    buffer += piece
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")
                method, target, _ = first.split(" ")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                exchange = Exchange(connection, method, target, headers, buffer, self.ours)
                buffer = b""
                self.seen.append((method, target))
                if target == "/health":
                    exchange.reply(200, {"status": "ok"})
                else:
                    self.answer(exchange)
                if exchange.closed:
                    return


@contextmanager
def scripted(answer: Answer, *, ours: bool = True) -> Iterator[Scripted]:
    """Run a server that answers every request but ``/health`` by calling `answer`."""
    server = Scripted(socket.create_server(("127.0.0.1", 0)), answer, ours=ours)
    thread = threading.Thread(target=server.accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.die()
        thread.join(5)
