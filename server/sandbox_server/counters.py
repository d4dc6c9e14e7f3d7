"""What one server has done so far, counted. Read by the metrics endpoint."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from threading import Lock
from typing import TypeVar

T = TypeVar("T")


def _nothing() -> None:
    pass


class Counters:
    """Cheap enough for every request: one lock that nobody holds for long, and a few additions."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.started_at = time.time()
        self.requests: Counter[tuple[str, int]] = Counter()  # (endpoint or "", first digit of the status)
        self.refusals: Counter[str] = Counter()
        self.in_flight = 0
        self.received = 0  # bytes of request bodies, as declared
        self.sent = 0  # bytes of answers' bodies
        self._lock = Lock()

    def enter(self) -> None:
        """A request has begun."""
        with self._lock:
            self.in_flight += 1

    def put_off(self) -> None:
        """A request that had begun will begin anew."""
        with self._lock:
            self.in_flight -= 1

    def answered(self, endpoint: str, status: int, code: str | None, received: int, sent: int) -> None:
        """A request that had begun has got all of its answer."""
        with self._lock:
            self.in_flight -= 1
            self.requests[endpoint, status // 100] += 1
            if code is not None:
                self.refusals[code] += 1
            self.received += received
            self.sent += sent

    def carried(
        self, pieces: Iterable[T], then: Callable[[], None] = _nothing, whole: Callable[[], None] = _nothing
    ) -> Iterator[T]:
        """The pieces of a streamed answer, passed on; closing this closes them.

        `whole` is called after the last of them, and `then` in any case.
        """
        total = 0
        try:
            for piece in pieces:
                if isinstance(piece, bytes):
                    total += len(piece)
                yield piece
            whole()
        finally:
            with self._lock:
                self.sent += total
            close = getattr(pieces, "close", None)
            if close is not None:
                close()
            then()
