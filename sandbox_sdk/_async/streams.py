"""Output as it comes: a context manager and an iterator of events that can be closed at any time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType

import httpx

from .._calls import EVENTS, FRAMES, Call
from .._errors import CommandTimeoutError, StreamInterruptedError
from .._events import MalformedStreamError
from .._http import close_socket, expect_within
from .._models import Event
from .._output import Course, EventCourse, FramedCourse
from .._public import public
from .._refusals import protocol_error
from .connection import AsyncConnection

_HEARTBEAT_PATIENCE = 60.0  # seconds without a byte, where the server sends heartbeats


@public
class AsyncOutputStream:
    """The output of a command, event by event. Closing it tells the server that nobody listens any more."""

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

    @property
    def pid(self) -> int | None:
        """The process id, once the server has told it."""
        return self._course.pid

    @property
    def offset(self) -> int:
        """How many bytes of output have come."""
        return self._course.offset

    @property
    def exit_code(self) -> int | None:
        """None until the end has been seen."""
        return self._course.exit_code

    @property
    def signal(self) -> int | None:
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
        return self._pending.popleft()

    async def aclose(self) -> None:
        """Stop listening. A command that only this stream belongs to is stopped by the server."""
        self._closed = True
        response, self._response = self._response, None
        if response is not None:
            close_socket(response)
            await response.aclose()

    async def _open(self) -> None:
        if self._closed or self._response is not None:
            return
        response = self._response = await self._connection.open(self._call)
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        if kind == FRAMES:
            self._reader = FramedCourse(self._course)
            expect_within(response, max(self._connection.binding.timeout, _HEARTBEAT_PATIENCE))
        elif kind == EVENTS:
            self._reader = EventCourse(self._course)
            expect_within(response, self._connection.binding.timeout + self._call.silence)
        else:
            await self.aclose()
            raise protocol_error(f"the server streams '{kind}'", response.status_code, self._call.endpoint)
        self._body = response.aiter_raw()

    async def _receive(self) -> None:
        """Take the next bytes from the network and sort them into events."""
        await self._open()
        assert self._body is not None and self._reader is not None
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise CommandTimeoutError("the command did not end in time", endpoint=self._call.endpoint)
        try:
            self._pending.extend(self._reader.feed(await anext(self._body)))
        except StopAsyncIteration:
            raise await self._interrupted("the body ended") from None
        except httpx.TransportError as error:
            raise await self._interrupted(str(error) or type(error).__name__) from None
        except MalformedStreamError as error:
            raise protocol_error(f"the stream is malformed: {error}", 200, self._call.endpoint) from None

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
