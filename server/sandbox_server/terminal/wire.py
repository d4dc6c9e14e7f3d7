"""A WebSocket on its socket: frames go out as the peer takes them, messages come in, pongs go first.

One thread owns it and calls `turn` again and again; nothing else here waits. What is queued is bounded by whoever
queues (`hungry` tells), what comes in by not reading while the peer does not take our answers.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from collections.abc import Mapping

from .. import websocket
from ..websocket import Event, Reader, Violation

_RECEIVE_BYTES = 1 << 16
#: So much waits to be sent, and so much lies unsent in the kernel: more would hold up pongs and the last key.
_QUEUE_BYTES = 1 << 16
_TCP_NOTSENT_LOWAT = 25
#: Pongs that wait, before no more pings are read.
_MOST_PONGS = 64
#: An idle connection shows signs of life, for whatever sits between. Whether the peer is gone TCP finds out with that;
#: one that is there, but has read and said nothing for so long, is let go.
PING_SECONDS = 25.0
SILENCE_SECONDS = 900.0
#: How long the peer may take to read the last frame and to answer it.
CLOSE_SECONDS = 10.0
#: The same when the server stops.
LAST_SECONDS = 2.0
_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL
_SILENT = 4008


class Wire:
    """`over` tells that the connection is done with; then `code` and `reason` say how it ended."""

    def __init__(self, sock: socket.socket, first: bytes = b"", *, most_bytes: int = 1 << 20) -> None:
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _QUEUE_BYTES)
        self._sock = sock
        self._first = first
        self._reader = Reader(most_bytes)
        self._frames: deque[bytes] = deque()
        self._pongs: deque[bytes] = deque()
        self._partial = memoryview(b"")  # of a frame that has to go out before any other
        self._queued = 0
        self._heard = self._pinged = time.monotonic()
        self._deadline = 0.0  # of the closing handshake, once our close frame is queued
        self._answered = False  # the peer's close frame has come, or nothing that it says counts any more
        self.over = False
        self.code = websocket.NO_CODE
        self.reason = ""

    @property
    def closing(self) -> bool:
        """A close frame is queued or sent; nothing may follow it."""
        return self._deadline > 0

    @property
    def hungry(self) -> bool:
        """There is room for more to send."""
        return self._queued < _QUEUE_BYTES and not self.closing

    def send(self, frame: bytes) -> None:
        if not self.closing:
            self._frames.append(frame)
            self._queued += len(frame)

    def close(self, code: int, reason: str, *, at_once: bool = False, seconds: float | None = None) -> None:
        """Say goodbye: after what is queued, or instead of it. The peer has so long to hear and answer it."""
        if self.closing:
            return
        if at_once:
            self._frames.clear()
        self.code, self.reason = code, reason
        self.send(websocket.close_frame(code, reason))
        self._deadline = time.monotonic() + (CLOSE_SECONDS if seconds is None else seconds)

    def turn(self, others: Mapping[int, int], seconds: float, *, listen: bool = True) -> list[Event]:
        """Send, wait for news of the socket or of `others` (descriptor -> poll events), and answer what has come in.

        Without `listen` the peer's messages stay where they are, and it will notice.
        """
        if self._first:
            first, self._first = self._first, b""
            return self._received(first)
        self._look_after()
        if self.over:
            return []
        if not listen:
            self._heard = time.monotonic()
        poll = select.poll()
        listen = (listen or self.closing) and len(self._pongs) < _MOST_PONGS
        poll.register(self._sock, select.POLLIN * listen | select.POLLOUT * self._has_something())
        for descriptor, events in others.items():
            poll.register(descriptor, events)
        ready = dict(poll.poll(max(0.0, min(seconds, self._patience())) * 1000 + 1))
        events = ready.get(self._sock.fileno(), 0)
        if events & select.POLLOUT:
            self._flush()
        if not events & (select.POLLIN | _GONE):
            return []
        return self._receive()

    def _look_after(self) -> None:
        """Keep alive, give up on who is silent, and end what has said its goodbyes."""
        now = time.monotonic()
        if self.closing:
            self.over = now >= self._deadline or (self._answered and not self._has_something())
        elif now - self._heard >= SILENCE_SECONDS:
            self.close(_SILENT, f"no sign of life for {SILENCE_SECONDS:g} seconds", at_once=True)
        elif now - self._pinged >= PING_SECONDS:
            self._pinged = now
            self.send(websocket.ping_frame())

    def _patience(self) -> float:
        now = time.monotonic()
        if self.closing:
            return self._deadline - now
        return min(self._pinged + PING_SECONDS, self._heard + SILENCE_SECONDS) - now

    def _has_something(self) -> bool:
        return bool(self._partial or self._frames or self._pongs)

    def _flush(self) -> None:
        while self._has_something():
            if not self._partial:
                self._partial = memoryview(self._next_piece())
            try:
                count = self._sock.send(self._partial)
            except BlockingIOError:
                return
            except OSError:
                self._lost()
                return
            self._partial = self._partial[count:]
            if self._partial:
                return

    def _next_piece(self) -> bytes:
        """Frames that go out in one call: the pongs, or what else is queued."""
        if self._pongs:
            pieces = b"".join(self._pongs)
            self._pongs.clear()
            return pieces
        pieces = b"".join(self._frames)
        self._frames.clear()
        self._queued = 0
        return pieces

    def _receive(self) -> list[Event]:
        try:
            data = self._sock.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self._lost()
            return []
        return self._received(data)

    def _received(self, data: bytes) -> list[Event]:
        self._heard = time.monotonic()
        events: list[Event] = []
        if self._answered:
            return events
        try:
            for event in self._reader.feed(data):
                if event.kind == "ping":
                    self._answer(event.data)
                elif event.kind == "close":
                    self._answered = True
                    if not self.closing:
                        self.close(event.code, event.text)
                elif event.kind != "pong" and not self.closing:
                    events.append(event)
        except Violation as violation:
            self._answered = True
            self.close(violation.code, violation.reason)
        return events

    def _answer(self, ping: bytes) -> None:
        if not self.closing:
            self._pongs.append(websocket.pong_frame(ping))

    def _lost(self) -> None:
        """Nobody is there any more."""
        if not self.closing:
            self.reason = "the peer has gone"
        self.over = True
