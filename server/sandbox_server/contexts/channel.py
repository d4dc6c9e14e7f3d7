"""Our end of the socket to the program in a context. It may be in anybody's hands: nothing that comes is believed.

Messages are a big-endian 32-bit length and a JSON object. Neither sending nor receiving ever waits.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import Any

#: The largest message that is taken, and how much is read at once.
MOST_BYTES = 32 << 20
_BLOCK = 1 << 18


class Broken(Exception):
    """The other end is closed, or does not keep to the format; nothing more can be said over this channel."""


class Channel:
    """One end. One thread at a time."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._socket = end
        self._incoming = bytearray()
        self._outgoing = bytearray()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, **message: Any) -> None:
        """Put it on its way; what does not fit at once goes with the next `flush`."""
        payload = json.dumps(message).encode("ascii")
        self._outgoing += len(payload).to_bytes(4, "big") + payload
        self.flush()

    def flush(self) -> bool:
        """True once everything is on its way."""
        with suppress(BlockingIOError):
            while self._outgoing:
                with memoryview(self._outgoing)[:_BLOCK] as block:
                    try:
                        count = self._socket.send(block)
                    except (BrokenPipeError, ConnectionResetError):
                        count = len(self._outgoing)  # receiving tells
                del self._outgoing[:count]
        return not self._outgoing

    def receive(self) -> tuple[dict[str, Any], int] | None:
        """The next message and its size, None while there is none; `Broken` after the last."""
        while (message := self._whole()) is None:
            try:
                data = self._socket.recv(_BLOCK)
            except BlockingIOError:
                return None
            except OSError:
                raise Broken from None
            if not data:
                raise Broken
            self._incoming += data
        return message

    def _whole(self) -> tuple[dict[str, Any], int] | None:
        if len(self._incoming) < 4:
            return None
        length = int.from_bytes(self._incoming[:4], "big")
        if length > MOST_BYTES:
            raise Broken
        if len(self._incoming) < 4 + length:
            return None
        payload = bytes(self._incoming[4 : 4 + length])
        del self._incoming[: 4 + length]
        return _object(payload), length


def pair() -> tuple[Channel, int]:
    """Our end, and the descriptor that the child inherits; the caller closes that."""
    ours, theirs = socket.socketpair()
    return Channel(ours), theirs.detach()


def _object(payload: bytes) -> dict[str, Any]:
    try:
        message = json.loads(payload.decode(), parse_constant=_no_constant)
        if b"\\ud" in payload.lower():  # halves of characters become question marks: no text may hold them
            message = json.loads(json.dumps(message, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise Broken from None
    if not isinstance(message, dict):
        raise Broken
    return message


def _no_constant(name: str) -> Any:
    raise ValueError
