"""Bytes of a stream -> events, incrementally. Sans I/O: `feed` takes what has come and answers what it completes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from ._wire import Json

STDOUT, STDERR, RECORDS = 1, 2, 3
_HEADER = 8
_MOST_RECORD_BYTES = 1 << 20


class Frame(NamedTuple):
    """A piece of one stream of Docker's attach format; `payload` of a large frame comes in several pieces."""

    stream: int
    payload: bytes


class MalformedStreamError(ValueError):
    """The peer does not keep to the format."""


class FrameDecoder:
    """Docker's multiplexed frames: the stream's number, three zero bytes, a big-endian length, the payload.

    Output is handed out as it comes, however large its frame; only records (stream 3) wait until they are whole.
    """

    def __init__(self, most_record_bytes: int = _MOST_RECORD_BYTES) -> None:
        self._most_record_bytes = most_record_bytes
        self._buffer = bytearray()
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while self._buffer:
            if not self._left and not self._head():
                return
            if self._stream == RECORDS and len(self._buffer) < self._left:
                return
            piece = bytes(self._buffer[: self._left])
            del self._buffer[: self._left]
            self._left -= len(piece)
            if piece:
                yield Frame(self._stream, piece)

    def _head(self) -> bool:
        """Read the header of the next frame that is not empty; False while its bytes are missing."""
        while len(self._buffer) >= _HEADER:
            stream, zeros, length = self._buffer[0], self._buffer[1:4], int.from_bytes(self._buffer[4:8], "big")
            if any(zeros) or stream not in (STDOUT, STDERR, RECORDS):
                raise MalformedStreamError(f"a frame header begins with {bytes(self._buffer[:4])!r}")
            if stream == RECORDS and length > self._most_record_bytes:
                raise MalformedStreamError(f"a record of {length} bytes")
            del self._buffer[:_HEADER]
            if length:
                self._stream, self._left = stream, length
                return True
        return False


class ServerSentEvent(NamedTuple):
    event: str
    data: Json


class SSEDecoder:
    """Server-sent events whose data is a JSON object. Only a blank line ends an event, so no data can forge one."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._event = ""
        self._data: list[str] = []

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        self._buffer = bytearray(rest)
        for raw in lines:
            line = raw.rstrip(b"\r").decode("utf-8", "replace")
            if not line:
                if self._data:
                    yield ServerSentEvent(self._event or "message", _object("\n".join(self._data)))
                self._event, self._data = "", []
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                self._event = value
            elif name == "data":
                self._data.append(value)


def record(payload: bytes) -> Json:
    """The JSON object of a record frame."""
    return _object(payload.decode("utf-8", "replace"))


def _object(text: str) -> Json:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedStreamError(f"not JSON: {text[:100]!r}") from None
    if not isinstance(value, dict):
        raise MalformedStreamError(f"not a JSON object: {text[:100]!r}")
    return value
