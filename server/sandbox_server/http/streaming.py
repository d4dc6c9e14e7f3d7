"""A streamed body on its way out. Where it has to wait it says what for, so that no thread has to wait with it."""

from __future__ import annotations

import math
import select
import socket
import time
from collections.abc import Iterable, Iterator

from ..messages import Aborted, Wait
from . import faults
from .peer import WirePeer

_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL
_NO_MORE = b"0\r\n\r\n"
#: No event tells when a caller leaves who has ended its own side before; so it is looked after, in seconds.
_FIRST_LOOK, _RARELY = 0.02, 1.0


class Stream:
    """One body, sent as far as it goes with every `advance`.

    A slow reader is waited for as long as its TCP answers: a stream must neither lose nor hoard.
    """

    __slots__ = (
        "_body", "_chunked", "_ended", "_half_closed", "_look_at", "_pause", "_poll", "_polled", "_sock", "_source",
        "_unsent", "_wait",
    )  # fmt: skip

    def __init__(self, sock: socket.socket, head: bytes, body: Iterable[bytes | Wait], *, chunked: bool) -> None:
        self._sock = sock
        self._body = body
        self._source: Iterator[bytes | Wait] = iter(body)
        self._chunked = chunked
        self._unsent: bytes | memoryview = head
        self._wait: Wait | None = None
        self._ended = False
        self._half_closed = False  # the peer has ended its own side, and reads on
        self._look_at = math.inf
        self._pause = _FIRST_LOOK
        self._poll = select.poll()
        self._polled: tuple[int, ...] | None = None  # the descriptors that `_poll` knows beside the socket

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What makes it go on when it becomes readable; beside that, `socket_events` of the socket."""
        return () if self._unsent or self._wait is None else self._wait.descriptors

    @property
    def socket_events(self) -> int:
        """For `poll` or `epoll`; that the peer hangs up is always told."""
        return (select.POLLOUT if self._unsent else 0) | (0 if self._half_closed else select.POLLRDHUP)

    @property
    def until(self) -> float:
        """When it goes on by itself."""
        return self._look_at if self._unsent or self._wait is None else min(self._wait.until, self._look_at)

    def advance(self, patience: float) -> bool:
        """Send what there is. True at the end; False when nothing happened for `patience` seconds.

        Raises `Aborted` when the peer has gone or the body fails.
        """
        while True:
            if self._unsent:
                self._send()
            if (self._unsent or self._wait is not None) and not self._may_go_on(patience):
                return False
            if self._unsent:
                continue
            self._wait = None
            if self._ended:
                return True
            self._take(self._next())

    def close(self) -> None:
        """Let go of the body's iterator; the body itself is the response's."""
        if self._source is not self._body:
            close_body(self._source)

    def _next(self) -> bytes | Wait | None:
        try:
            return next(self._source, None)
        except Aborted:
            raise
        except Exception as fault:
            faults.report("a streamed response")
            raise Aborted from fault

    def _take(self, item: bytes | Wait | None) -> None:
        if item is None:
            self._ended = True
            self._unsent = _NO_MORE if self._chunked else b""
        elif isinstance(item, Wait):
            self._wait = item
        elif item:  # an empty chunk would be the end
            self._unsent = b"%x\r\n%b\r\n" % (len(item), item) if self._chunked else item

    def _send(self) -> None:
        try:
            count = self._sock.send(self._unsent, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError as fault:
            raise Aborted from fault
        self._unsent = memoryview(self._unsent)[count:] if count < len(self._unsent) else b""

    def _may_go_on(self, patience: float) -> bool:
        now = time.monotonic()
        if now >= self._look_at:
            self._look()
        seconds = min(patience, max(0.0, self.until - now))
        events = self._watched().poll(None if seconds == math.inf else seconds * 1000)
        ready = False
        for descriptor, event in events:
            if descriptor != self._sock.fileno() or event & select.POLLOUT:
                ready = True
            if descriptor == self._sock.fileno() and event & ~select.POLLOUT:
                self._look()
        return ready or (not self._unsent and self._wait is not None and time.monotonic() >= self._wait.until)

    def _watched(self) -> select.poll:
        """Made once for a body that waits for the same things again and again."""
        if self._unsent:
            poll = select.poll()
            poll.register(self._sock, self.socket_events)
            return poll
        if self._polled != self.descriptors:
            self._poll = select.poll()
            for descriptor in self.descriptors:
                self._poll.register(descriptor, select.POLLIN)
            self._poll.register(self._sock, self.socket_events)
            self._polled = self.descriptors
        return self._poll

    def _look(self) -> None:
        """The peer may have gone; if not, it has ended its own side only, and is looked after from now on."""
        if WirePeer(self._sock).gone():
            raise Aborted
        self._half_closed = True
        self._polled = None
        self._look_at = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _RARELY)


def close_body(body: Iterable[bytes | Wait]) -> None:
    close = getattr(body, "close", None)
    if close is not None:
        try:
            close()
        except Exception:
            faults.report("closing a stream")
