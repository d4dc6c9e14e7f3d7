"""RFC 6455 without sockets, the server's side: bytes in, events out, and frames as bytes to send.

No extension is ever agreed on, so the reserved bits stay zero. Whatever a client does wrong ends in `Violation`, which
carries the close code to send; nothing that a frame announces is allocated before it was compared with the limit.
"""

from __future__ import annotations

import base64
import codecs
import hashlib
from collections.abc import Iterator
from typing import Literal, NamedTuple

VERSION = "13"
NORMAL, GOING_AWAY, PROTOCOL_ERROR, NO_CODE, BAD_DATA, REFUSED, TOO_BIG, FAILED, LATER = (
    1000, 1001, 1002, 1005, 1007, 1008, 1009, 1011, 1013,
)  # fmt: skip

_TEXT, _BINARY, _CLOSE, _PING, _PONG = 1, 2, 8, 9, 10
_CONTROL: dict[int, Literal["ping", "pong"]] = {_PING: "ping", _PONG: "pong"}
_MOST_CONTROL_BYTES = 125
_KEY_SUFFIX = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_UTF8 = codecs.getincrementaldecoder("utf-8")


class Event(NamedTuple):
    """Something that has come in whole. A close without a code has `NO_CODE`."""

    kind: Literal["text", "binary", "ping", "pong", "close"]
    data: bytes = b""
    text: str = ""  # of a text message; of a close, the reason
    code: int = 0


class Violation(Exception):
    """The client broke the protocol, or a limit; the connection must be closed with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


def accept_key(key: str) -> str | None:
    """What answers a ``Sec-WebSocket-Key``; None when that is not the base64 of 16 bytes."""
    try:
        nonce = base64.b64decode(key, validate=True)
    except ValueError:
        return None
    if len(nonce) != 16:
        return None
    return base64.b64encode(hashlib.sha1(key.encode("ascii") + _KEY_SUFFIX).digest()).decode("ascii")


class Reader:
    """Frames of one connection, in whatever pieces they come. A message has at most `most_bytes`."""

    def __init__(self, most_bytes: int = 1 << 20) -> None:
        self._most_bytes = most_bytes
        self._buffer = bytearray()
        self._left = -1  # bytes of the present frame's payload that have not come; -1 between frames
        self._final = False
        self._opcode = 0
        self._mask = b""
        self._kind = 0  # of the present message: text or binary; 0 between messages
        self._message = bytearray()
        self._utf8 = _UTF8()  # looks at text as it comes, so that bad text fails at its first bad byte

    def feed(self, data: bytes) -> Iterator[Event]:
        """What is complete with these bytes. After a close, or a `Violation`, nothing may be fed any more."""
        self._buffer += data
        while self._left >= 0 or self._begin():
            if self._opcode >= _CLOSE:
                if len(self._buffer) < self._left:
                    return
                event = self._control(self._payload())
                yield event
                if event.kind == "close":
                    return
            else:
                self._collect(self._payload())
                if self._left > 0:
                    return
                if self._final:
                    yield self._finished()
            self._left = -1

    def _begin(self) -> bool:
        """Read the next frame's head; False while it is not all there."""
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        first, second = buffer[0], buffer[1]
        self._final, opcode, length = first >= 0x80, first & 0x0F, second & 0x7F
        self._judge(first, opcode, length, masked=second >= 0x80)
        start = {126: 4, 127: 10}.get(length, 2)
        if len(buffer) < start:
            return False
        if start > 2:
            length = int.from_bytes(buffer[2:start], "big")
            if length < 126 or (start == 10 and not 1 << 16 <= length < 1 << 63):
                raise Violation(PROTOCOL_ERROR, "the length of a frame is not written in its shortest form")
        if opcode < _CLOSE and len(self._message) + length > self._most_bytes:
            raise Violation(TOO_BIG, f"a message has at most {self._most_bytes} bytes")
        if len(buffer) < start + 4:
            return False
        self._mask = bytes(buffer[start : start + 4])
        del buffer[: start + 4]
        self._opcode, self._left = opcode, length
        if opcode in (_TEXT, _BINARY):
            self._kind = opcode
        return True

    def _judge(self, first: int, opcode: int, length: int, *, masked: bool) -> None:
        if first & 0x70:
            raise Violation(PROTOCOL_ERROR, "a reserved bit is set, but no extension was agreed on")
        if not masked:
            raise Violation(PROTOCOL_ERROR, "a frame is not masked")
        if _BINARY < opcode < _CLOSE or opcode > _PONG:
            raise Violation(PROTOCOL_ERROR, f"opcode {opcode} is not known")
        if opcode >= _CLOSE:
            if not self._final or length > _MOST_CONTROL_BYTES:
                raise Violation(PROTOCOL_ERROR, "a control frame is fragmented, or has more than 125 bytes")
        elif bool(opcode) == bool(self._kind):
            begun = "within another message" if opcode else "without a message"
            raise Violation(PROTOCOL_ERROR, f"opcode {opcode} came {begun}")

    def _payload(self) -> bytes:
        """The part of the frame's payload that is here, unmasked."""
        count = min(self._left, len(self._buffer))
        data = unmasked(self._buffer[:count], self._mask)
        del self._buffer[:count]
        self._left -= count
        turn = count % 4
        self._mask = self._mask[turn:] + self._mask[:turn]
        return data

    def _collect(self, data: bytes) -> None:
        if self._kind == _TEXT:
            try:
                self._utf8.decode(data, final=self._final and not self._left)
            except UnicodeDecodeError:
                raise Violation(BAD_DATA, "a text message is not UTF-8") from None
        self._message += data

    def _finished(self) -> Event:
        data, kind = bytes(self._message), self._kind
        self._message, self._kind = bytearray(), 0
        return Event("text", data, data.decode()) if kind == _TEXT else Event("binary", data)

    def _control(self, data: bytes) -> Event:
        if self._opcode in _CONTROL:
            return Event(_CONTROL[self._opcode], data)
        if not data:
            return Event("close", code=NO_CODE)
        code = int.from_bytes(data[:2], "big")
        if len(data) < 2 or not _may_be_sent(code):
            raise Violation(PROTOCOL_ERROR, "a close frame has no valid code")
        try:
            return Event("close", data, data[2:].decode(), code)
        except UnicodeDecodeError:
            raise Violation(BAD_DATA, "the reason of a close frame is not UTF-8") from None


def _may_be_sent(code: int) -> bool:
    """Registered and meant for the wire (RFC 6455, section 7.4, and the registry that it opens), or private."""
    return 3000 <= code < 5000 or 1000 <= code <= 1014 and code not in (1004, 1005, 1006)


def unmasked(data: bytes | bytearray, mask: bytes) -> bytes:
    """The bytes under the mask: one operation on two large numbers, the fastest way without an extension module."""
    size = len(data)
    key = (mask * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "little") ^ int.from_bytes(key, "little")).to_bytes(size, "little")


def text_frame(text: str) -> bytes:
    return _frame(_TEXT, text.encode())


def binary_frame(data: bytes) -> bytes:
    return _frame(_BINARY, data)


def ping_frame(data: bytes = b"") -> bytes:
    return _frame(_PING, data)


def pong_frame(data: bytes) -> bytes:
    return _frame(_PONG, data)


def close_frame(code: int = NO_CODE, reason: str = "") -> bytes:
    """The reason is cut where it does not fit; what is no character in it becomes one."""
    if code == NO_CODE:
        return _frame(_CLOSE, b"")
    text = reason.encode(errors="replace")[: _MOST_CONTROL_BYTES - 2].decode(errors="ignore").encode()
    return _frame(_CLOSE, code.to_bytes(2, "big") + text)


def _frame(opcode: int, payload: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 127)) + size.to_bytes(8, "big")
    return head + payload
