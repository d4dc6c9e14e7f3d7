"""Output as it comes: an iterator of events that is a context manager and can be closed at any time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType

import httpx

from .. import _wire as wire
from .._acompat import asleep
from .._call import Call
from .._calls import EVENTS, FRAMES, frames
from .._calls import output as polled
from .._errors import CommandTimeoutError, StreamInterruptedError
from .._events import MalformedStreamError
from .._http import close_socket, expect_within
from .._models import Event
from .._output import Course, EventCourse, FramedCourse
from .._public import public
from .._refusals import protocol_error
from .connection import AsyncConnection

_HEARTBEAT_PATIENCE = 60.0  # seconds without a byte, where the server sends heartbeats
_REATTACHMENTS = 5
_STABLE_SECONDS = 1.0  # a connection that was quiet for so long has not failed at once
_POLL_SECONDS = 5.0


@public
class AsyncOutputStream:
    """The output of a command, event by event.

    Leave the ``with`` block, or close it, and the server knows that nobody listens any more: a command that was
    started by `stream` ends then, a background process runs on.
    """

    def __init__(
        self, connection: AsyncConnection, call: Call[None], course: Course, *, seconds: float | None = None
    ) -> None:
        self._connection = connection
        self._call = call
        self._course = course
        self._deadline = None if seconds is None else time.monotonic() + seconds
        self._response: httpx.Response | None = None
        self._body: AsyncIterator[bytes] | None = None
        self._reader: FramedCourse | EventCourse | None = None
        self._pending: deque[Event] = deque()
        self._closed = False
        self._receiving = False

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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncOutputStream:
        return self

    async def __anext__(self) -> Event:
        while not self._pending:
            if self._closed or self._course.ended:
                await self.aclose()
                raise StopAsyncIteration
            try:
                await self._receive()
            except BaseException:
                await self.aclose()
                raise
        event = self._pending.popleft()
        self._course.deliver(event)
        return event

    async def aclose(self) -> None:
        """Stop listening. Safe from another thread, and more than once."""
        self._closed = True
        await self._release()

    async def _release(self) -> None:
        response = self._response
        if response is None:
            return
        close_socket(response)
        if not self._receiving:  # else whoever is receiving wakes up now, and comes here again
            self._response = self._body = None
            await response.aclose()

    async def _open(self) -> None:
        if self._closed or self._response is not None:
            return
        response = self._response = await self._connection.open(self._call)
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        self._reader = self._reader_of(kind)
        if kind == FRAMES:
            expect_within(response, max(self._connection.binding.timeout, _HEARTBEAT_PATIENCE))
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
        self._receiving = True
        try:
            self._pending.extend(self._reader.feed(await anext(self._body)))
            return
        except StopAsyncIteration:
            what = "the body ended"
        except (httpx.TransportError, httpx.StreamError) as error:
            what = str(error) or type(error).__name__
        except MalformedStreamError as error:
            raise protocol_error(f"the stream is malformed: {error}", 200, self._call.endpoint) from None
        finally:
            self._receiving = False
        if not self._closed:  # nobody has had enough
            raise await self._interrupted(what)

    async def _interrupted(self, what: str) -> StreamInterruptedError:
        gone = not await self._connection.alive()
        state = "is gone" if gone else "is up"
        course = self._course
        return StreamInterruptedError(
            f"the output broke off after {course.offset} bytes ({what.rstrip('.')}); the sandbox at "
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
            if self._course.offset > before or time.monotonic() - since > _STABLE_SECONDS:
                self._failures = 0
        except StreamInterruptedError as error:
            self._failures += 1
            if error.gone or self._failures > _REATTACHMENTS:
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
