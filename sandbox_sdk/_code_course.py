"""The course of code in a context: frames in, `Event`s out, and how it ended. Sans I/O."""

from __future__ import annotations

from . import _wire as wire
from ._code_models import ErrorInfo, Execution, Result
from ._events import FrameDecoder
from ._models import Event
from ._output import Course, FramedCourse, Kept
from ._wire import Json

_MOST_RECORD_BYTES = 64 << 20  # what is displayed may be a picture


class CodeCourse(Course):
    """Counts the output like any course, and remembers how the code ended."""

    def __init__(self) -> None:
        super().__init__()
        self.status = ""
        self.execution_count = 0
        self.milliseconds = 0.0
        self.error: ErrorInfo | None = None

    def finish(self, facts: Json) -> Event:
        self.ended = True
        self.status = wire.text(facts, "status", "unknown")
        self.milliseconds = wire.number(facts, "execution_time_ms")
        self.exit_code = wire.whole_or_none(facts, "exit_code")
        self.reason = wire.text(facts, "reason")
        return Event("end", exit_code=self.exit_code, reason=self.reason, status=self.status)

    def execution(self, stdout: Kept, stderr: Kept, results: list[Result]) -> Execution:
        """What is known at the end, together with what the reader kept."""
        truncated = stdout.cut or stderr.cut or self.truncated or self.status == "output_limit"
        return Execution(
            stdout.data(), stderr.data(), tuple(results), self.error, self.status, self.execution_count,
            self.milliseconds, self.exit_code, truncated,
        )  # fmt: skip


class CodeFrames(FramedCourse):
    """Reads multiplexed frames."""

    def __init__(self, course: CodeCourse) -> None:
        super().__init__(course)
        self._code = course
        self._frames = FrameDecoder(_MOST_RECORD_BYTES)

    def _record(self, facts: Json) -> Event | None:
        kind = wire.text(facts, "kind")
        if kind == "start":
            self._code.pid = wire.whole_or_none(facts, "pid")
            self._code.execution_count = wire.whole(facts, "execution_count")
            self._code.truncated = wire.whole(facts, "dropped") > 0
            return Event("start")
        if kind == "display":
            return Event("display", result=Result.from_wire(facts, "display"))
        if kind == "result":
            return Event("result", result=Result.from_wire(facts, "result"))
        if kind == "error":
            self._code.error = ErrorInfo.from_wire(facts)
            return Event("error", error=self._code.error)
        return self._code.finish(facts) if kind == "end" else None
