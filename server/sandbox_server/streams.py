"""Encoders for streamed bodies: server-sent events, and Docker's multiplexed frames. Bytes only, no sockets.

A frame is one byte for the stream, three zero bytes, the payload's length as a big-endian 32-bit number, the payload.
Streams 1 and 2 carry raw output. Stream 3 carries one JSON record per frame: where offsets, gaps and ends are told.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

STDOUT = 1
STDERR = 2
RECORDS = 3

_compact = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps would build an encoder for every record


def event(name: str, data: Mapping[str, Any]) -> bytes:
    """One server-sent event. JSON escapes line ends, so no text in `data` can end the event or forge another."""
    return f"event: {name}\ndata: {_compact(data)}\n\n".encode("ascii")


def frame(stream: int, payload: bytes | bytearray | memoryview) -> bytes:
    """One multiplexed frame."""
    return b"".join((stream.to_bytes(4, "little"), len(payload).to_bytes(4, "big"), payload))


def record(kind: str, /, **facts: Any) -> bytes:
    """One JSON record as a frame of stream 3: `start`, `gap`, `heartbeat`, `held` or `end`, and its facts."""
    return frame(RECORDS, _compact({"kind": kind, **facts}).encode("ascii"))
