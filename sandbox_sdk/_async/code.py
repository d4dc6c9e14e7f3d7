"""Code: once, or in a context that keeps its variables and shows rich results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType

from .. import _code_calls as calls
from .._call import Call
from .._calls import DEFAULT_CODE_SECONDS, FRAMES
from .._code_course import CodeCourse, CodeFrames
from .._code_models import ContextInfo, ContextList, Execution, Result
from .._display.shown import Shown
from .._display.table import Table
from .._errors import CommandTimeoutError
from .._output import KEEP, Course, EventCourse, FramedCourse, Kept
from .._parts import Part
from .._public import public
from .._reports import CodeResult
from .._sync.code import Code, CodeContext  # async only
from ._twins import AsyncCodeContextTwins, AsyncCodeTwins  # async only
from .connection import AsyncConnection
from .streams import AsyncOutputStream

_GRACE = 10.0  # seconds beyond the timeout after which we stop believing in the server


@public
class AsyncCode(AsyncCodeTwins, Part[AsyncConnection]):
    """Runs pieces of code."""

    @property
    def _twin(self) -> Code:  # async only
        return self._connection.twin.code

    async def run(
        self,
        code: str,
        language: str = "python",
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        timeout: float | None = None,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
    ) -> CodeResult:
        """Run a piece of code to its end, in a process of its own: ``python``, ``bash`` or ``node``.

        After `timeout` whole seconds (30 when nobody says) it is stopped: `CommandTimeoutError`, with the output so
        far. The callbacks get text as it comes.
        """
        call = calls.run(code, language, cwd=cwd, env=env, stdin=stdin, timeout=timeout)
        streamed = (on_stdout is not None or on_stderr is not None) and await self._connection.ours()
        if not streamed:
            result = await self._connection.send(call)
            for callback, text in ((on_stdout, result.stdout), (on_stderr, result.stderr)):
                if callback is not None and text:
                    callback(text)
            return result
        return await self._streamed(calls.framed(call), language, {"stdout": on_stdout, "stderr": on_stderr}, timeout)

    async def create_context(
        self, *, cwd: str | None = None, env: Mapping[str, str] | None = None, name: str = ""
    ) -> AsyncCodeContext:
        """Open a Python namespace that lasts; use it as a context manager, or `delete` it."""
        call = calls.create_context(cwd=cwd, env=env, name=name)
        return AsyncCodeContext(self._connection, await self._connection.send(call))

    async def contexts(self) -> ContextList[AsyncCodeContext]:
        """The open contexts of this identity, oldest first."""
        infos = await self._connection.send(calls.contexts())
        return ContextList(AsyncCodeContext(self._connection, info) for info in infos)

    async def _streamed(
        self,
        call: Call[None],
        language: str,
        callbacks: Mapping[str, Callable[[str], object] | None],
        timeout: float | None,
    ) -> CodeResult:
        course, kept = Course(), {"stdout": Kept(KEEP), "stderr": Kept(KEEP)}
        seconds = (DEFAULT_CODE_SECONDS if timeout is None or timeout < 1 else timeout) + _GRACE
        async with AsyncOutputStream(self._connection, call, course, seconds=seconds) as events:
            async for event in events:
                if event.kind == "output":
                    kept[event.stream].add(event.data)
                    callback = callbacks[event.stream]
                    if callback is not None and event.text:
                        callback(event.text)
        result = course.result(kept["stdout"], kept["stderr"])
        if course.reason == "timeout":
            raise CommandTimeoutError(
                "the code took longer than allowed and was stopped",
                stdout_bytes=result.stdout_bytes,
                stderr_bytes=result.stderr_bytes,
                error_type="TimeoutError",
                error_code="timeout",
                endpoint="code_run",
                hint="pass a larger timeout=, or run it in a context",
            )
        return CodeResult(result.stdout, result.stderr, result.exit_code, language.lower(), truncated=result.truncated)


@public
class AsyncCodeStream(AsyncOutputStream):
    """What comes of one run in a context, event by event. Leave the block, or close it, and the code is interrupted."""

    _course: CodeCourse

    def __init__(self, connection: AsyncConnection, call: Call[None]) -> None:
        super().__init__(connection, call, CodeCourse())

    @property
    def status(self) -> str:
        """How it ended; empty until the end has been seen."""
        return self._course.status

    @property
    def execution_count(self) -> int:
        return self._course.execution_count

    async def __aenter__(self) -> AsyncCodeStream:
        await self._open()
        return self

    def _reader_of(self, kind: str) -> FramedCourse | EventCourse | None:
        return CodeFrames(self._course) if kind == FRAMES else None


@public
class AsyncCodeContext(AsyncCodeContextTwins, Shown):
    """A Python namespace in the sandbox that lasts from run to run; one run at a time."""

    def __init__(self, connection: AsyncConnection, info: ContextInfo) -> None:
        self._connection = connection
        self._info = info

    @property
    def _twin(self) -> CodeContext:  # async only
        return CodeContext(self._connection.twin._connection, self._info)

    @property
    def info(self) -> ContextInfo:
        """What was last heard about it; `refresh` asks again."""
        return self._info

    @property
    def id(self) -> str:
        return self._info.id

    @property
    def name(self) -> str:
        return self._info.name

    async def run(
        self,
        code: str,
        *,
        timeout: float | None = None,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        on_display: Callable[[Result], object] | None = None,
        raise_on_error: bool = False,
        keep: int = KEEP,
    ) -> Execution:
        """Run code to its end. Whatever stops this call interrupts the code; the variables stay.

        The value of the last expression is a result, as is everything that the code gives to ``display``; the figures
        that pyplot holds open are shown at the end. An exception of the code is data, unless `raise_on_error`:
        `CodeFailedError`. There is no time limit unless `timeout` seconds, or the policy, set one. The callbacks get
        text and results as they come; the execution holds the last `keep` bytes (64 MiB) of each stream.
        """
        course, kept = CodeCourse(), {"stdout": Kept(keep), "stderr": Kept(keep)}
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}
        results = []
        async with self.stream(code, timeout=timeout) as events:
            course = events._course
            async for event in events:
                if event.kind == "output":
                    kept[event.stream].add(event.data)
                    callback = callbacks[event.stream]
                    if callback is not None and event.text:
                        callback(event.text)
                elif event.result is not None:
                    results.append(event.result)
                    if on_display is not None:
                        on_display(event.result)
        execution = course.execution(kept["stdout"], kept["stderr"], results)
        return execution.check() if raise_on_error else execution

    def stream(self, code: str, *, timeout: float | None = None) -> AsyncCodeStream:
        """Run code and iterate what comes of it; use it as a context manager. Leaving it interrupts the code."""
        return AsyncCodeStream(self._connection, calls.run_in_context(self.id, code, timeout))

    async def interrupt(self) -> bool:
        """Interrupt what runs, as Ctrl-C would; False when nothing does."""
        return await self._connection.send(calls.interrupt_context(self.id))

    async def restart(self) -> ContextInfo:
        """End the program and everything it started, and begin again with nothing."""
        self._info = await self._connection.send(calls.restart_context(self.id))
        return self._info

    async def refresh(self) -> ContextInfo:
        """Ask how it is; `info` stays as it was once the context is gone."""
        for info in await self._connection.send(calls.contexts()):
            if info.id == self.id:
                self._info = info
        return self._info

    async def delete(self) -> None:
        """Close it; the program and everything it started end."""
        await self._connection.send(calls.delete_context(self.id))

    async def __aenter__(self) -> AsyncCodeContext:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.delete()

    def _table(self) -> Table:
        return self._info._table()

    def __repr__(self) -> str:
        name = f' "{self.name}"' if self.name else ""
        return f"<{type(self).__name__} {self.id[:8]}{name}, {self._info.state}>"
