"""Output as it comes: an iterator of events that is a context manager and can be closed at any time."""

from __future__ import annotations

import time

from .. import _wire as wire
from .._acompat import asleep
from .._call import Call
from .._calls import EVENTS, FRAMES, frames
from .._calls import output as polled
from .._errors import CommandTimeoutError, StreamInterruptedError
from .._http import expect_within
from .._models import Event
from .._output import Course, EventCourse, FramedCourse
from .._public import public
from .._refusals import protocol_error
from .arriving import HEARTBEAT_PATIENCE, REATTACHMENTS, STABLE_SECONDS, AsyncArriving
from .connection import AsyncConnection

_POLL_SECONDS = 5.0


@public
class AsyncOutputStream(AsyncArriving[Event]):
    """The output of a command, event by event.

    Leave the ``with`` block, or close it, and the server knows that nobody listens any more: a command that was
    started by `stream` ends then, a background process runs on.
    """

    def __init__(
        self, connection: AsyncConnection, call: Call[None], course: Course, *, seconds: float | None = None
    ) -> None:
        super().__init__(connection)
        self._call = call
        self._course = course
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._reader: FramedCourse | EventCourse | None = None

    @property
    def pid(self) -> int | None:
        """The process id, once the server has told it."""
        return self._course.pid

    @property
    def offset(self) -> int:
        """How many bytes of output have come, of both streams together."""
        return self._course.offset

    @property
    def exit_code(self) -> int | None:
        """None until the end has been seen."""
        return self._course.exit_code

    @property
    def signal(self) -> int | None:
        """The signal that ended the command, if one did."""
        return self._course.signal

    async def __aenter__(self) -> AsyncOutputStream:
        await self._open()
        return self

    def __aiter__(self) -> AsyncOutputStream:
        return self

    def _over(self) -> bool:
        return self._course.ended

    def _deliver(self, item: Event) -> None:
        self._course.deliver(item)

    async def _open(self) -> None:
        if self._closed or self._response is not None:
            return
        response = self._response = await self._connection.open(self._call)
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        self._reader = self._reader_of(kind)
        if kind == FRAMES:
            expect_within(response, max(self._connection.binding.timeout, HEARTBEAT_PATIENCE))
        elif self._reader is not None:
            expect_within(response, self._connection.binding.timeout + self._call.silence)
        else:
            await self.aclose()
            raise protocol_error(f'the server streams "{kind}"', response.status_code, self._call.endpoint)
        self._body = response.aiter_raw()

    def _reader_of(self, kind: str) -> FramedCourse | EventCourse | None:
        """What reads a body of this media type."""
        if kind == FRAMES:
            return FramedCourse(self._course)
        return EventCourse(self._course) if kind == EVENTS else None

    async def _receive(self) -> None:
        """Take the next bytes from the network and sort them into events."""
        await self._open()
        if self._body is None or self._reader is None:
            return  # closed meanwhile
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise CommandTimeoutError("the command did not end in time", endpoint=self._call.endpoint)
        reader = self._reader
        broken = await self._feed(lambda data: self._pending.extend(reader.feed(data)), self._call.endpoint)
        if broken and not self._closed:  # nobody has had enough
            raise await self._interrupted(broken)

    async def _interrupted(self, what: str) -> StreamInterruptedError:
        gone = not await self._connection.alive()
        state = "is gone" if gone else "is up"
        course = self._course
        return StreamInterruptedError(
            f"the output broke off after {course.offset} bytes ({what}); the sandbox at "
            f"{self._connection.binding.address} {state}",
            offset=course.offset,
            stdout_offset=course.offsets["stdout"],
            stderr_offset=course.offsets["stderr"],
            endpoint=self._call.endpoint,
            gone=gone,
        )


@public
class AsyncFollowedOutput(AsyncOutputStream):
    """The captured output of a background process. A broken connection is taken up again where it was lost."""

    def __init__(self, connection: AsyncConnection, pid: int | str, course: Course) -> None:
        super().__init__(connection, self._call_from(pid, course), course)
        self._pid = pid
        self._failures = 0
        self._next = 0  # sequence number, for a server without frames

    @staticmethod
    def _call_from(pid: int | str, course: Course) -> Call[None]:
        return frames(pid, stdout_from=course.offsets["stdout"], stderr_from=course.offsets["stderr"], follow=True)

    async def _open(self) -> None:
        if await self._connection.ours():
            await super()._open()

    async def _receive(self) -> None:
        if not await self._connection.ours():
            await self._poll()
            return
        before, since = self._course.offset, time.monotonic()
        try:
            await super()._receive()
            if self._course.offset > before or time.monotonic() - since > STABLE_SECONDS:
                self._failures = 0
        except StreamInterruptedError as error:
            self._failures += 1
            if error.gone or self._failures > REATTACHMENTS:
                raise
            await self._release()
            self._call = self._call_from(self._pid, self._course)
            await asleep(0.1 * self._failures)

    async def _poll(self) -> None:
        """Ask for what has come since, as text; offsets count its UTF-8 bytes."""
        facts = await self._connection.send(polled(self._pid, since=self._next, wait=_POLL_SECONDS))
        for event in wire.objects(facts, "events"):
            stream = wire.text(event, "stream")
            if stream not in self._course.offsets:
                continue
            if wire.whole(event, "seq") > self._next:
                self._pending.append(self._course.gap(stream, 0, 0))
            self._pending.append(self._course.output(stream, wire.text(event, "data").encode("utf-8", "replace")))
            self._next = wire.whole(event, "seq") + 1
        if wire.text(facts, "state") == "exited" and not wire.objects(facts, "events"):
            self._pending.append(self._course.end(wire.whole_or_none(facts, "exit_code"), None))
