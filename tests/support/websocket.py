"""A WebSocket client small enough to misbehave: it sends the bytes one asks for, and reads only when asked."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

from sandbox_server.websocket import unmasked

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
SECONDS = 60.0


class NotUpgraded(AssertionError):
    """The server answered the handshake in HTTP's words."""

    def __init__(self, status: int, head: str, body: bytes) -> None:
        super().__init__(f"{status}: {body.decode(errors='replace')}")
        self.status = status
        self.head = head
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body)


def frame(opcode: int, payload: bytes = b"", *, final: bool = True, mask: bytes | None = b"\1\2\3\4") -> bytes:
    """One frame as a client sends it; without a mask as it must not."""
    size, masked = len(payload), 0x80 if mask is not None else 0
    head = bytes([(0x80 if final else 0) | opcode])
    if size < 126:
        head += bytes([masked | size])
    elif size < 1 << 16:
        head += bytes([masked | 126]) + struct.pack(">H", size)
    else:
        head += bytes([masked | 127]) + struct.pack(">Q", size)
    return head + payload if mask is None else head + mask + unmasked(payload, mask)


class WebSocketClient:
    """One connection. Pings of the server are answered only by `receive`, which is also what reads."""

    def __init__(self, address: tuple[str, int] | str, target: str, headers: Mapping[str, str] | None = None) -> None:
        if isinstance(address, str):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.settimeout(SECONDS)
            self.sock.connect(address)
            host = "sandbox"
        else:
            self.sock = socket.create_connection(address, SECONDS)
            host = f"{address[0]}:{address[1]}"
        fields = {
            "Host": host,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
            **(headers or {}),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
        self.sock.sendall(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode())
        self.close_code: int | None = None
        self.close_reason = ""
        self.pings: list[bytes] = []
        self.pongs: list[bytes] = []
        self._bytes = bytearray()
        self._shown = ""  # output received, and not asked for yet
        try:
            head = self._head()
        except BaseException:
            self.sock.close()
            raise
        self.headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head.split("\r\n")[1:])
        }

    def __enter__(self) -> WebSocketClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.sock.close()

    def _head(self) -> str:
        while b"\r\n\r\n" not in self._bytes:
            self._more()
        head, _, self._bytes = self._bytes.partition(b"\r\n\r\n")
        text = head.decode("latin-1")
        status = int(text.split()[1])
        if status != 101:
            lines = [line.lower() for line in text.split("\r\n")]
            length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
            while len(self._bytes) < length:
                self._more()
            raise NotUpgraded(status, text, bytes(self._bytes))
        return text

    def _more(self) -> None:
        data = self.sock.recv(1 << 16)
        if not data:
            raise EOFError("the server closed the connection")
        self._bytes += data

    def _take(self, count: int) -> bytes:
        while len(self._bytes) < count:
            self._more()
        data = bytes(self._bytes[:count])
        del self._bytes[:count]
        return data

    def raw_frame(self) -> tuple[int, bytes]:
        """The next frame, whatever it is; the server masks none and fragments none."""
        first, second = self._take(2)
        assert first & 0xF0 == 0x80 and second < 0x80, (first, second)
        size = second
        if size == 126:
            size = struct.unpack(">H", self._take(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self._take(8))[0]
        return first & 15, self._take(size)

    def receive(self) -> Any | None:
        """The next message, read as JSON; None once the connection is closed."""
        while True:
            try:
                opcode, payload = self.raw_frame()
            except (EOFError, ConnectionResetError):
                return None
            if opcode == CLOSE:
                self.close_code = int.from_bytes(payload[:2], "big") if payload else None
                self.close_reason = payload[2:].decode()
                with contextlib.suppress(OSError):
                    self.sock.sendall(frame(CLOSE, payload[:2]))
                return None
            if opcode == PING:
                self.pings.append(payload)
                self.sock.sendall(frame(PONG, payload))
            elif opcode == PONG:
                self.pongs.append(payload)
            else:
                return json.loads(payload)

    def send(self, **message: Any) -> None:
        self.sock.sendall(frame(TEXT, json.dumps(message).encode()))

    def type(self, text: str) -> None:
        self.send(type="input", data=text)

    def event(self, name: str) -> Any:
        """The next event of this name; output before it is skipped."""
        self._shown = ""
        while (message := self.receive()) is not None:
            if message.get("event") == name:
                return message
        raise AssertionError(f"no event {name!r}; closed with {self.close_code} {self.close_reason!r}")

    def until(self, text: str) -> str:
        """All output up to the end of this text; what came with it in one message stays for the next call."""
        pieces, tail = [self._shown], self._shown
        deadline = time.monotonic() + SECONDS
        while text not in tail:
            message = self.receive()
            assert message is not None, f"closed with {self.close_code} {self.close_reason!r} after {tail!r}"
            assert time.monotonic() < deadline, f"{text!r} did not come; {tail!r}"
            if message["type"] == "output":
                pieces.append(message["data"])
                tail = tail[-len(text) - 100 :] + message["data"]
        self._shown = tail.partition(text)[2]
        return "".join(pieces).removesuffix(self._shown)

    def rest(self) -> list[Any]:
        """All messages until the connection is closed."""
        messages = []
        while (message := self.receive()) is not None:
            messages.append(message)
        return messages
