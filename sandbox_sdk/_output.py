"""The course of a command's output: frames or server-sent events in, `Event`s out, and how it ended. Sans I/O."""

from __future__ import annotations

import codecs
from collections import deque
from collections.abc import Iterator

from . import _wire as wire
from ._events import STDERR, STDOUT, FrameDecoder, SSEDecoder, record
from ._models import CommandResult, Event
from ._wire import Json

KEEP = 64 << 20  # bytes of each stream that a result holds unless the caller says otherwise
_NAMES = {STDOUT: "stdout", STDERR: "stderr"}


class Course:
    """Counts every byte of two streams, so that a reader who was cut off knows where to go on."""

    def __init__(self) -> None:
        self.offsets = {"stdout": 0, "stderr": 0}  # of the next byte expected
        self.position = dict(self.offsets)  # of the next byte that the reader has not been given
        self.pid: int | None = None
        self.id = ""
        self.held = False
        self.ended = False
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.reason = ""
        self.truncated = False
        self.digests: dict[str, str] = {}
        self._text = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in self.offsets}

    @classmethod
    def at(cls, position: dict[str, int]) -> Course:
        """A course that begins at given offsets, and keeps them up to date as its events are delivered."""
        course = cls()
        course.position = position
        course.offsets = dict(position)
        return course

    def deliver(self, event: Event) -> None:
        """The reader has got this event."""
        if event.stream:
            self.position[event.stream] = event.offset + len(event.data)

    @property
    def offset(self) -> int:
        """Bytes seen of both streams together."""
        return self.offsets["stdout"] + self.offsets["stderr"]

    def output(self, stream: str, data: bytes) -> Event:
        offset = self.offsets[stream]
        self.offsets[stream] = offset + len(data)
        return Event("output", stream, data, offset, self._text[stream].decode(data))

    def gap(self, stream: str, first: int, end: int) -> Event:
        """Bytes `first` to `end` of a stream fell out of what the server keeps."""
        lost = max(end - max(first, self.offsets[stream]), 0)
        self.offsets[stream] = max(end, self.offsets[stream])
        self.truncated = True
        self._text[stream].reset()
        return Event("gap", stream, offset=self.offsets[stream], lost=lost)

    def hold(self) -> Event:
        self.held = True
        return Event("held")

    def end(self, exit_code: int | None, signal: int | None, reason: str = "") -> Event:
        self.ended = True
        self.signal = signal or (-exit_code if exit_code is not None and exit_code < 0 else None)
        self.exit_code = -signal if exit_code is None and signal else exit_code
        self.reason = reason
        return Event("exit", exit_code=self.exit_code, signal=self.signal, reason=reason)

    def result(self, stdout: Kept, stderr: Kept) -> CommandResult:
        """What is known at the end, together with the output that the reader kept."""
        code = -1 if self.exit_code is None else self.exit_code
        truncated = self.truncated or stdout.cut or stderr.cut
        return CommandResult(code, stdout.data(), stderr.data(), self.signal, truncated, self.held, self.reason)


class Kept:
    """The last `limit` bytes of a stream, so that endless output costs bounded memory."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self.cut = False

    def add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        while self._limit is not None and self._size > self._limit:
            self.cut = True
            first = self._pieces.popleft()
            beyond = self._size - self._limit
            self._size -= min(beyond, len(first))
            if len(first) > beyond:
                self._pieces.appendleft(first[beyond:])

    def data(self) -> bytes:
        return b"".join(self._pieces)


class FramedCourse:
    """Reads multiplexed frames."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._frames = FrameDecoder()

    def feed(self, data: bytes) -> Iterator[Event]:
        for frame in self._frames.feed(data):
            if frame.stream in _NAMES:
                yield self.course.output(_NAMES[frame.stream], frame.payload)
            else:
                event = self._record(record(frame.payload))
                if event is not None:
                    yield event

    def _record(self, facts: Json) -> Event | None:
        course = self.course
        kind = wire.text(facts, "kind")
        if kind == "start":
            course.pid = wire.whole_or_none(facts, "pid")
            course.id = wire.text(facts, "id")
        elif kind == "gap":
            stream = wire.text(facts, "stream")
            if stream in course.offsets:
                return course.gap(stream, wire.whole(facts, "from"), wire.whole(facts, "to"))
        elif kind == "held":
            return course.hold()
        elif kind == "end":
            course.truncated = course.truncated or wire.flag(facts, "truncated")
            exit_code, signal = wire.whole_or_none(facts, "exit_code"), wire.whole_or_none(facts, "signal")
            return course.end(exit_code, signal, wire.text(facts, "reason"))
        return None


class EventCourse:
    """Reads the server-sent events of a server that has no frames: text by the line."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._events = SSEDecoder()
        self._reason = ""

    def feed(self, data: bytes) -> Iterator[Event]:
        for event, facts in self._events.feed(data):
            if event in self.course.offsets:
                yield self.course.output(event, (wire.text(facts, "data") + "\n").encode("utf-8", "replace"))
            elif event == "error":
                self._reason = wire.text(facts, "error", "unknown")
                if self._reason not in ("timeout", "output_limit"):  # it could not be started; no exit will follow
                    yield self.course.end(None, None, self._reason)
            elif event == "exit" and not self.course.ended:
                yield self.course.end(wire.whole_or_none(facts, "exit_code"), None, self._reason)
