"""How long and how much the socket side puts up with, in one value."""

from __future__ import annotations

from typing import NamedTuple

KIB = 1024
MIB = 1024 * 1024

#: Room for the longest path, 4096 characters of up to four bytes, each byte escaped.
REQUEST_LINE_BYTES = 64 * KIB
HEADER_BYTES = 64 * KIB
HEADER_FIELDS = 100

#: Bodies and files up to this size travel in one piece with the head.
ONE_PIECE = 64 * KIB


class Bounds(NamedTuple):
    """Deadlines in seconds and caps in bytes or connections."""

    connections: int = 1024
    head_seconds: float = 10.0  # from the first byte of a head, or from accepting, to its end
    idle_seconds: float = 60.0  # between two requests
    body_seconds: float = 30.0  # the window over which `body_rate` is averaged; waiting time only
    body_rate: int = 1024  # bytes a second
    write_seconds: float = 15.0  # without progress
    drain_bytes: int = 256 * KIB  # of an unread body, to keep the connection
    drain_seconds: float = 2.0
    linger_seconds: float = 2.0  # reading on after the last answer, so that it is not lost in a reset
    stay_seconds: float = 0.01  # a worker waits for the next request before it gives the socket back
    idle_worker_seconds: float = 10.0
