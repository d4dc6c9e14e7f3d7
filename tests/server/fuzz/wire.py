"""A client that believes nothing: it sends bytes as they are, and takes an answer apart to the last one."""

from __future__ import annotations

import json
import re
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass

from sandbox_server.messages import FRAMES_TYPE, REFUSALS, SSE_TYPE

#: Statuses above 499 that an odd request may get: no such HTTP version, no room for so much.
ALLOWED_5XX = {505, 507}
BODILESS = {204, 304}
STREAMS = {SSE_TYPE, FRAMES_TYPE}
_STATUS = re.compile(rb"HTTP/1\.1 ([1-5][0-9][0-9]) [A-Za-z -]*")
_FIELD = re.compile(rb"([A-Za-z-]+): ([\t\x20-\x7e\x80-\xff]*)")
_PATIENCE = 60.0  # only keeps a failing test from hanging


class Broken(AssertionError):
    """What came back is no answer that this server may give."""


class EarlyEnd(Broken):
    """The connection was closed before the answer was all there."""


@dataclass(frozen=True)
class Reply:
    status: int
    fields: dict[str, str]
    body: bytes

    def judge(self) -> None:
        """Raise unless this is an answer in the one shape."""
        no_browser = self.status == 503 and b'"code":"browser_unavailable"' in self.body
        if self.status >= 500 and self.status not in ALLOWED_5XX and not no_browser:
            raise Broken(f"status {self.status}: {self.body[:500]!r}")
        if "x-request-id" not in self.fields:
            raise Broken(f"no request id: {self.fields}")
        if self.status < 400 or not self.body:  # without a body it answers a HEAD
            return
        if self.fields.get("content-type") != "application/json; charset=utf-8":
            raise Broken(f"an error that is no JSON: {self.fields}")
        told = json.loads(self.body)
        reason = REFUSALS[told["code"]]
        if (reason.status, reason.type) != (self.status, told["type"]) or not isinstance(told["error"], str):
            raise Broken(f"status {self.status}: {told}")


class Wire:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.open = True

    def close(self) -> None:
        self.open = False
        self.sock.close()

    def ask(self, data: bytes, *, bodiless: bool = False, cut: int = 0) -> Reply:
        """Send one whole request and read its one answer; the connection stays, unless the server closes it."""
        if cut:
            self._send(data[:cut])
        self._send(data[cut:])
        reply = self._reply(bodiless)
        if reply.fields.get("connection") == "close":
            if rest := self.buffer + self._rest():
                raise Broken(f"bytes after the last answer: {rest[:200]!r}")
            self.close()
        elif self.buffer:
            raise Broken(f"bytes after the answer: {self.buffer[:200]!r}")
        return reply

    def hang_up(self, data: bytes) -> None:
        """Send bytes, and vanish without listening."""
        self._send(data)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def all(self, data: bytes) -> list[Reply]:
        """Send any bytes and the end of them; every answer until the server closes."""
        self._send(data)
        with suppress(OSError):  # the server has refused and closed already; its answer is still to be read
            self.sock.shutdown(socket.SHUT_WR)
        self.buffer += self._rest()
        self.close()
        heads = data.lstrip(b"\r\n").startswith(b"HEAD ")
        replies = []
        while self.buffer:
            replies.append(self._reply(heads))
            if replies[-1].fields.get("connection") == "close" and self.buffer:
                raise Broken(f"bytes after the last answer: {self.buffer[:200]!r}")
        return replies

    def _send(self, data: bytes) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before the end; the answer says so
            self.sock.sendall(data)

    def _reply(self, bodiless: bool) -> Reply:
        while True:
            status, fields = self._head()
            if status != 100:
                break
        if status in BODILESS or (bodiless and not self._has_body(fields)):
            return Reply(status, fields, b"")
        if "content-length" in fields:
            return Reply(status, fields, self._exactly(int(fields["content-length"])))
        if fields.get("transfer-encoding") == "chunked":
            return Reply(
                status, fields, self._chunks(may_break_off=not self.open and fields["content-type"] in STREAMS)
            )
        if fields.get("connection") != "close":
            raise Broken(f"nothing says where the answer ends: {fields}")
        body, self.buffer = self.buffer + self._rest(), b""
        return Reply(status, fields, body)

    def _has_body(self, fields: dict[str, str]) -> bool:
        """Of several requests sent at once one cannot know which was a HEAD; an answer never begins like a body."""
        return bool(self.buffer) and not self.buffer.startswith(b"HTTP/1.1 ")

    def _head(self) -> tuple[int, dict[str, str]]:
        while b"\r\n\r\n" not in self.buffer:
            self._more("the connection was dropped instead of an answer")
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        line, *lines = head.split(b"\r\n")
        status = _STATUS.fullmatch(line)
        matches = [_FIELD.fullmatch(field) for field in lines]
        if status is None or not all(matches):
            raise Broken(f"no head of an answer: {head[:500]!r}")
        names = [match[1].decode().lower() for match in matches if match]
        fields = {match[1].decode().lower(): match[2].decode("latin-1") for match in matches if match}
        if len(set(names)) != len(names):
            raise Broken(f"a field is there twice: {names}")
        return int(status[1]), fields

    def _exactly(self, length: int) -> bytes:
        while len(self.buffer) < length:
            self._more(f"the answer ends {length - len(self.buffer)} bytes early")
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return body

    def _chunks(self, may_break_off: bool) -> bytes:
        """To a stream of output our end is its reader's going away, and then it breaks off."""
        try:
            return self._whole_chunks()
        except EarlyEnd:
            if not may_break_off:
                raise
            rest, self.buffer = self.buffer, b""
            return rest

    def _whole_chunks(self) -> bytes:
        body = b""
        while True:
            while b"\r\n" not in self.buffer:
                self._more("the answer ends within its chunks")
            size, _, self.buffer = self.buffer.partition(b"\r\n")
            data = self._exactly(int(size, 16) + 2)
            if not data.endswith(b"\r\n"):
                raise Broken(f"a chunk without its end: {data[-20:]!r}")
            if len(data) == 2:
                return body
            body += data[:-2]

    def _more(self, otherwise: str) -> None:
        try:
            data = self.sock.recv(65536) if self.open else b""
        except ConnectionResetError:
            data = b""
        if not data:
            raise EarlyEnd(otherwise)
        self.buffer += data

    def _rest(self) -> bytes:
        pieces = []
        try:
            while data := self.sock.recv(65536) if self.open else b"":
                pieces.append(data)
        except ConnectionResetError:
            pass
        return b"".join(pieces)
