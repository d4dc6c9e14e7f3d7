"""Commands: run to the end, stream, or start in the background."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .. import _calls as calls
from .._call import Call, command_line
from .._errors import CommandTimeoutError, EndpointNotAvailableError, PayloadTooLargeError, ServerAPIError
from .._listings import ProcessList
from .._models import CommandResult, ProcessInfo
from .._output import KEEP, Course, Kept
from .._parts import Part
from .._public import public
from .._sync.process import Processes  # async only
from ._twins import AsyncProcessesTwins  # async only
from .connection import AsyncConnection
from .handle import AsyncProcess
from .streams import AsyncFollowedOutput, AsyncOutputStream

_GRACE = 10.0  # seconds beyond a command's timeout after which we stop believing in the server


@public
class AsyncProcesses(AsyncProcessesTwins, Part[AsyncConnection]):
    """Runs commands in the sandbox."""

    @property
    def _twin(self) -> Processes:  # async only
        return self._connection.twin.process

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        check: bool = False,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        keep: int = KEEP,
    ) -> CommandResult:
        """Run a command to its end. Whatever stops this call stops the command.

        `command` is a list of arguments, passed on as they are, or text that is split as a POSIX shell would split it;
        no shell runs it. `cwd` is a directory of the sandbox, `env` adds variables. After `timeout` seconds (300 when
        nobody says) it is killed: `CommandTimeoutError`, with the output so far. `check` turns an exit code other than
        0 into `CommandFailedError`. The callbacks get text as it comes; the result holds the last `keep` bytes
        (64 MiB) of each stream. Raises `NotFoundError` for a program that is not there, `PolicyDeniedError` for one
        that the policy forbids.
        """
        call = calls.shell_stream(command, cwd=cwd, env=env, timeout=timeout, stdin=stdin)
        quiet = on_stdout is None and on_stderr is None
        result = None
        if await self._connection.ours() or not quiet:
            try:
                result = await self._streamed(call, timeout, on_stdout, on_stderr, keep)
            except EndpointNotAvailableError:
                if not quiet:
                    raise
        if result is None:
            result = await self.shell(command, cwd=cwd, env=env, timeout=timeout, stdin=stdin)
        return result.check(command_line(command)) if check else result

    async def _streamed(
        self,
        call: Call[None],
        timeout: float | None,
        on_stdout: Callable[[str], object] | None,
        on_stderr: Callable[[str], object] | None,
        keep: int,
    ) -> CommandResult:
        """Run a command by its stream, and keep the last of it."""
        course = Course()
        kept = {"stdout": Kept(keep), "stderr": Kept(keep)}
        callbacks = {"stdout": on_stdout, "stderr": on_stderr}
        seconds = (calls.DEFAULT_COMMAND_SECONDS if timeout is None or timeout <= 0 else timeout) + _GRACE
        async with AsyncOutputStream(self._connection, call, course, seconds=seconds) as events:
            async for event in events:
                if event.kind != "output":
                    continue
                kept[event.stream].add(event.data)
                callback = callbacks[event.stream]
                if callback is not None and event.text:
                    callback(event.text)
        result = course.result(kept["stdout"], kept["stderr"])
        _judge_end(course, result)
        return result

    async def shell(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
    ) -> CommandResult:
        """Run a command and get all its output as text in one answer; `run` is exact to the byte."""
        if stdin is not None and not await self._connection.ours():
            raise EndpointNotAvailableError("this server cannot feed a standard input to a command", endpoint="shell")
        return await self._connection.send(calls.shell(command, cwd=cwd, env=env, timeout=timeout, stdin=stdin))

    def stream(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
    ) -> AsyncOutputStream:
        """Run a command and iterate its output; use it as a context manager. Leaving it stops the command."""
        call = calls.shell_stream(command, cwd=cwd, env=env, timeout=timeout, stdin=stdin)
        return AsyncOutputStream(self._connection, call, Course())

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
        capture: bool = True,
    ) -> AsyncProcess:
        """Start a command in the background; it runs on by itself. `capture` keeps the last of its output."""
        call = calls.start(command, cwd=cwd, env=env, capture=capture, stdin=stdin)
        return AsyncProcess(self._connection, await self._connection.send(call))

    async def attach(self, pid: int | str) -> AsyncProcess:
        """The handle of a process that was started before, by its pid or by the server's own id."""
        return AsyncProcess(self._connection, await self.get(pid))

    async def get(self, pid: int | str) -> ProcessInfo:
        """How a background process is."""
        return await self._connection.send(calls.process(pid))

    async def signal(self, pid: int | str, number: int) -> None:
        """Send a signal, by its number, to a background process and its group; `NotFoundError` once it has ended."""
        await self._connection.send(calls.signal(pid, int(number)))

    def follow(self, pid: int | str, *, stdout_from: int = 0, stderr_from: int = 0) -> AsyncOutputStream:
        """The captured output of a background process from given byte offsets on, until it ends."""
        course = Course.at({"stdout": stdout_from, "stderr": stderr_from})
        return AsyncFollowedOutput(self._connection, pid, course)

    async def list(self, *, finished: bool = False) -> ProcessList:
        """The background processes of this identity; with `finished` also those that have ended."""
        found = await self._connection.send(calls.processes(finished))
        return ProcessList(found)


def _judge_end(course: Course, result: CommandResult) -> None:
    """Raise when the server ended the command, or could not tell how it ended."""
    if course.reason == "timeout":
        raise CommandTimeoutError(
            "the command took longer than allowed and was stopped",
            stdout_bytes=result.stdout_bytes,
            stderr_bytes=result.stderr_bytes,
            error_type="TimeoutError",
            error_code="timeout",
            endpoint="shell_stream",
            hint="pass a larger timeout=, or start() it in the background",
        )
    if course.reason == "output_limit":
        raise PayloadTooLargeError(
            "the command wrote more than the limit and was stopped",
            error_code="payload_too_large",
            endpoint="shell_stream",
            hint="discover().limit('shell_stream', 'max_output_bytes') tells the limit",
        )
    if course.exit_code is None:
        raise ServerAPIError(f"the command gave no exit status: {course.reason or 'unknown'}", endpoint="shell_stream")
