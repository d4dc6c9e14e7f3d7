"""Run a command and answer its output: at the end, by the line, or byte for byte as it comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import streams
from ..call import Call
from ..guards.commands import Command
from ..guards.paths import Location
from ..messages import FRAMES_TYPE, SSE_TYPE, Refusal, Response, Wait, json_response
from ..process.ring import NAMES, STDERR, STDOUT
from ..process.run import Run
from .digests import Digests
from .starting import launching, overdue, seconds_allowed
from .text import Budget, Captured, LineEvents

#: Seconds of silence after which a stream says that it is alive.
HEARTBEAT = 15.0
#: A server-sent comment: readers skip it, and whatever sits between lets the head pass at once.
_COMMENT = b":\n\n"


def shell(
    call: Call,
    *,
    command: Command,
    cwd: Location | None,
    env: Mapping[str, str] | None,
    timeout: float | None,
    stdin: str | None,
) -> Response:
    """Its whole output and exit code. A command that takes too long is killed; what it said comes with the refusal."""
    seconds = seconds_allowed(call, timeout)
    captured = {stream: Captured(call.grant.size("max_output_bytes")) for stream in NAMES}
    with launching(call, command, cwd, env, feed=stdin) as launch:
        run = call.services.processes.run(launch, call.request.peer, timeout=seconds)
    try:
        for stream, data in run.pieces():
            captured[stream].add(data)
    finally:
        run.close()
    output, flags = told(captured, run)
    if run.child.cause == "timeout":
        raise Refusal(
            "timeout",
            f"the command was killed {overdue(call, seconds, 'start it in the background')}",
            **output,
            **{"truncated": False, **flags},
        )
    return json_response({**output, **_ending(run), **flags})


def shell_stream(
    call: Call,
    *,
    command: Command,
    cwd: Location | None,
    env: Mapping[str, str] | None,
    timeout: float | None,
    stdin: str | None,
    digest: bool,
) -> Response:
    """Its output as it comes. The command waits for a slow reader, and is stopped when the reader goes away."""
    framed = call.accepts(FRAMES_TYPE)
    try:
        with launching(call, command, cwd, env, feed=stdin) as launch:
            run = call.services.processes.run(launch, call.request.peer, timeout=seconds_allowed(call, timeout))
    except Refusal as refusal:
        if framed or "program" not in refusal.facts:
            raise
        return stream_response(
            SSE_TYPE, iter([streams.event("error", {"error": refusal.message, "code": refusal.code})])
        )
    call.defer(run.close)
    limit = call.grant.size("max_output_bytes")
    if framed:
        return stream_response(FRAMES_TYPE, output_frames(run, limit, Digests(wanted=digest)))
    return stream_response(SSE_TYPE, _events(run, Budget(limit)))


def stream_response(media_type: str, body: Iterator[bytes | Wait]) -> Response:
    """An answer that nobody on the way shall store."""
    return Response(200, body, [("Content-Type", media_type), ("Cache-Control", "no-store")])


def told(captured: Mapping[int, Captured], run: Run) -> tuple[dict[str, Any], dict[str, bool]]:
    """The output as text, and what must be said about it."""
    output, flags = {}, {}
    for stream, part in captured.items():
        output[NAMES[stream]], damaged = part.text()
        if damaged:
            flags["encoding_errors"] = True
        if part.truncated:
            flags["truncated"] = True
    if run.held:
        flags["held"] = True
    return output, flags


def _ending(run: Run) -> dict[str, int | None]:
    assert run.exit is not None
    return {"exit_code": run.exit.code, "signal": run.exit.signal}


def output_frames(run: Run, limit: int | None, digests: Digests) -> Iterator[bytes | Wait]:
    counts = {STDOUT: 0, STDERR: 0}
    try:
        yield streams.record("start", id=run.child.id, pid=run.child.pid, stdout=0, stderr=0)
        for step in run.steps(HEARTBEAT):
            if isinstance(step, Wait):
                yield step
                continue
            stream, data = step
            if not stream:
                yield streams.record("heartbeat")
                continue
            over = limit is not None and sum(counts.values()) + len(data) > limit
            if over:
                data = data[: (limit or 0) - sum(counts.values())]
            counts[stream] += len(data)
            digests.add(stream, data)
            yield streams.frame(stream, data)
            if over:
                run.kill("output_limit")
                break
        held = streams.record("held") if run.held else b""
        yield held + streams.record(
            "end", **_ending(run), reason=run.child.cause, truncated=run.child.cause == "output_limit",
            stdout=counts[STDOUT], stderr=counts[STDERR], sha256=digests.told(),
        )  # fmt: skip
    finally:
        run.close()


def _events(run: Run, budget: Budget) -> Iterator[bytes | Wait]:
    lines = {stream: LineEvents(name, budget) for stream, name in NAMES.items()}
    try:
        yield _COMMENT
        for step in run.steps(HEARTBEAT):
            if isinstance(step, Wait):
                yield step
                continue
            stream, data = step
            block = lines[stream].feed(data) if stream else _COMMENT
            if block:
                yield block
            if budget.spent:
                run.kill("output_limit")
                break
        last = [part.end() for part in lines.values()]
        if budget.spent and run.child.cause == "exit":
            run.child.cause = "output_limit"
        if run.child.cause != "exit":
            last.append(streams.event("error", {"error": run.child.cause}))
        yield b"".join([*last, streams.event("exit", _ending(run))])
    finally:
        run.close()
