"""A background process, as a handle: listen, wait, signal, feed. It may outlive the connection it was started from."""

from __future__ import annotations

import signal as signals
import time
from typing import Literal

from .. import _calls as calls
from .. import _wire as wire
from .._acompat import asleep
from .._display.shown import Shown
from .._display.table import Table
from .._errors import CommandTimeoutError, ServerAPIError
from .._models import OutputPart, ProcessInfo
from .._output import Course, FramedCourse, Kept
from .._public import public
from .._sync.handle import Process, Stdin  # async only
from ._twins import AsyncProcessTwins, AsyncStdinTwins  # async only
from .connection import AsyncConnection
from .streams import AsyncFollowedOutput, AsyncOutputStream

_STDIN_PIECE = 1 << 20
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25


@public
class AsyncStdin(AsyncStdinTwins):
    """The standard input of a background process that was started with ``stdin=True``."""

    def __init__(self, connection: AsyncConnection, pid: int | str) -> None:
        self._connection = connection
        self._pid = pid

    @property
    def _twin(self) -> Stdin:  # async only
        return Stdin(self._connection.twin._connection, self._pid)

    async def write(self, data: str | bytes) -> int:
        """Write text (as UTF-8) or bytes; answers how many bytes that were."""
        raw = data.encode("utf-8") if isinstance(data, str) else bytes(data)
        written = 0
        for start in range(0, len(raw), _STDIN_PIECE):
            written += await self._connection.send(calls.stdin(self._pid, raw[start : start + _STDIN_PIECE], eof=False))
        return written

    async def aclose(self) -> None:
        """End of file: the process will read no more."""
        await self._connection.send(calls.stdin(self._pid, None, eof=True))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of process {self._pid}>"


@public
class AsyncProcess(AsyncProcessTwins, Shown):
    """A background process. Iterate it for its output; breaking off and iterating again goes on where it stopped."""

    def __init__(self, connection: AsyncConnection, info: ProcessInfo) -> None:
        self._connection = connection
        self._info = info
        self._key: int | str = info.id or info.pid
        self._position = {"stdout": 0, "stderr": 0}
        self.stdin = AsyncStdin(connection, self._key)

    @property
    def _twin(self) -> Process:  # async only
        return Process(self._connection.twin._connection, self._info)

    @property
    def info(self) -> ProcessInfo:
        """What was last heard about it; `refresh` asks again."""
        return self._info

    @property
    def pid(self) -> int:
        return self._info.pid

    @property
    def id(self) -> str:
        """The server's own id, which is never used again; empty where a server has none."""
        return self._info.id

    @property
    def command(self) -> str:
        return self._info.command

    @property
    def exit_code(self) -> int | None:
        """None while it runs, as far as we have heard."""
        return self._info.exit_code

    @property
    def signal(self) -> int | None:
        """The signal that ended it, if one did."""
        return self._info.signal

    def __aiter__(self) -> AsyncOutputStream:
        return AsyncFollowedOutput(self._connection, self._key, Course.at(self._position))

    def follow(self, *, stdout_from: int = 0, stderr_from: int = 0) -> AsyncOutputStream:
        """The captured output from given byte offsets on, until the process ends."""
        course = Course.at({"stdout": stdout_from, "stderr": stderr_from})
        return AsyncFollowedOutput(self._connection, self._key, course)

    async def refresh(self) -> ProcessInfo:
        """Ask how it is."""
        self._info = await self._connection.send(calls.process(self._key))
        return self._info

    async def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; answers the exit code. `timeout` seconds bound the waiting, not the process."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while (await self.refresh()).running:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise CommandTimeoutError(
                        f"process {self.pid} still runs after {timeout:g} s",
                        endpoint="process_detail",
                        hint="it goes on; wait() again, or kill() it",
                    )
                pause = min(pause, left)
            await asleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)
        if self._info.exit_code is None:
            raise ServerAPIError(
                f"process {self.pid} ended, but its exit status is not known", endpoint="process_detail"
            )
        return self._info.exit_code

    async def output(self, offset: int = 0, *, stream: Literal["stdout", "stderr"] = "stdout") -> OutputPart:
        """What is kept of one stream from a byte offset on, now."""
        if not await self._connection.ours():
            return await self._polled_output(offset, stream)
        first = {"stdout": _BEYOND, "stderr": _BEYOND, stream: offset}
        course, kept = Course.at(first), Kept(None)
        reader, lost = FramedCourse(course), 0
        call = calls.frames(self._key, stdout_from=first["stdout"], stderr_from=first["stderr"], follow=False)
        async with self._connection.stream(call) as response:
            body = await self._connection.read(response, call.endpoint)
        for event in reader.feed(body):
            if event.stream == stream and event.kind == "output":
                kept.add(event.data)
            elif event.stream == stream and event.kind == "gap":
                lost += event.lost
        data = kept.data()
        end = course.offsets[stream]
        return OutputPart(stream, data, end - len(data), end, lost, course.exit_code)

    async def _polled_output(self, offset: int, stream: str) -> OutputPart:
        facts = await self._connection.send(calls.output(self._key, since=0, wait=0))
        chunks = (e for e in wire.objects(facts, "events") if wire.text(e, "stream") == stream)
        data = "".join(wire.text(event, "data") for event in chunks).encode("utf-8", "replace")[offset:]
        return OutputPart(stream, data, offset, offset + len(data), 0, wire.whole_or_none(facts, "exit_code"))

    async def send_signal(self, number: int) -> None:
        """Send a signal to the process and its group. Raises `NotFoundError`, which tells how it ended, once it has."""
        await self._connection.send(calls.signal(self._key, int(number)))

    async def terminate(self) -> None:
        """Ask it to end (SIGTERM). Raises `NotFoundError` once it has."""
        await self.send_signal(signals.SIGTERM)

    async def kill(self) -> None:
        """End it, and everything it started (SIGKILL). Raises `NotFoundError` once nothing of it is left."""
        await self.send_signal(signals.SIGKILL)

    async def interrupt(self) -> None:
        """What Ctrl-C in a terminal would do (SIGINT)."""
        await self.send_signal(signals.SIGINT)

    def _table(self) -> Table:
        return self._info._table()

    def __repr__(self) -> str:
        state = "running" if self._info.running else f"exited with {self._info.exit_code}"
        return f'<{type(self).__name__} {self.pid} "{self.command[:60]}", {state}>'


_BEYOND = 1 << 60  # an offset that nothing has reached: leaves a stream out
