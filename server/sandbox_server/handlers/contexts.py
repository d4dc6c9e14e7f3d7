"""Code contexts: Python that keeps its variables from run to run."""

from __future__ import annotations

import codecs
import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from .. import streams
from ..call import Call
from ..contexts.context import Context
from ..contexts.execution import Event, Finish, Silence, Started
from ..contexts.showing import Output, Raised, Shown
from ..guards.commands import Command
from ..guards.paths import Location
from ..messages import FRAMES_TYPE, SSE_TYPE, Refusal, Response, Wait, json_response, quoted
from ..process.caller import attended
from ..process.ring import NAMES
from .programs import interpreter
from .shell import stream_response
from .starting import launching
from .text import Captured

_LONGEST_NAME = 100
#: What a plain answer holds at most of everything shown; each thing counts at least what it takes to hold it.
_MOST_SHOWN, _EACH = 64 << 20, 2 << 10
_COMMENT = b":\n\n"


def code_contexts_create(
    call: Call, *, language: str, name: str, cwd: Location | None, env: Mapping[str, str] | None
) -> Response:
    """It starts with nothing, and closes by itself once it has not been used for long."""
    if language.lower() != "python":
        raise Refusal(
            "invalid_argument", f'language {quoted(language, 64)} has no contexts; use "python"', field="language"
        )
    if len(name) > _LONGEST_NAME:
        raise Refusal("invalid_argument", f'"name" must have at most {_LONGEST_NAME} characters', field="name")
    place, file = interpreter(call, "python3")
    grant = call.grant
    with launching(call, Command((place,), file, "python"), cwd, env) as launch:
        context = call.services.contexts.open(
            launch,
            owner=grant.identity.id,
            name=name,
            limit=grant.size("max_sessions"),
            idle_seconds=grant.seconds("idle_seconds"),
        )
    return json_response(_described(context))


def code_contexts_list(call: Call) -> Response:
    return json_response({"contexts": [_described(each) for each in call.services.contexts.of(call.grant.identity.id)]})


def code_contexts_delete(call: Call, *, id: str) -> Response:
    """The program and everything it started end; a run that goes on is told."""
    context = _own(call, id)
    call.services.contexts.close(context)
    return json_response({"id": context.id, "closed": True})


def code_contexts_run(call: Call, *, id: str, code: str, timeout: float | None) -> Response:
    """As a stream, each thing when it comes, and the code is interrupted when the reader leaves; or all at the end."""
    grant = call.grant
    context = _own(call, id)
    scope = call.services.scope(grant)
    if scope is not None and scope != context.scope:
        message = "the program was not started under the path rule that holds for running code in it; "
        raise Refusal("forbidden", f"{message}give both endpoints one rule")
    framed, evented = call.accepts(FRAMES_TYPE), call.accepts(SSE_TYPE)
    execution, events = context.run(code, timeout=_seconds(call, timeout), limit=grant.written_size("max_output_bytes"))
    call.defer(execution.close)
    if framed:
        return stream_response(FRAMES_TYPE, _frames(id, events))
    if evented:
        return stream_response(SSE_TYPE, _server_sent(id, events))
    try:
        return json_response(_collected(attended(events, call.request.peer), grant.size("max_output_bytes")))
    finally:
        execution.close()


def code_contexts_interrupt(call: Call, *, id: str) -> Response:
    context = _own(call, id)
    return json_response({"id": context.id, "interrupted": context.interrupt()})


def code_contexts_restart(call: Call, *, id: str) -> Response:
    """The same context with a new program: nothing of the old one is left."""
    context = _own(call, id)
    context.restart()
    return json_response(_described(context))


def _own(call: Call, id: str) -> Context:
    return call.services.contexts.find(id, call.grant.identity.id)


def _seconds(call: Call, timeout: float | None) -> float | None:
    """None is no bound: a context is there for work that takes long."""
    bounds = [call.grant.seconds("timeout_seconds")]
    if timeout is not None and math.isfinite(timeout) and timeout > 0:
        bounds.append(timeout)
    return min((bound for bound in bounds if bound is not None), default=None)


def _described(context: Context) -> dict[str, Any]:
    return {
        "id": context.id,
        "name": context.name,
        "language": "python",
        "state": context.state,
        "pid": context.pid,
        "cwd": context.cwd,
        "created_at": _moment(context.created_at),
        "last_used_at": _moment(context.last_used_at),
        "execution_count": context.execution_count,
    }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat().replace("+00:00", "Z")


def _facts(id: str, event: Event) -> tuple[str, dict[str, Any]]:
    """The name of an event, and what it tells."""
    match event:
        case Started(pid, count, dropped):
            return "start", {"id": id, "pid": pid, "execution_count": count, "dropped": dropped}
        case Shown("result", _, data, metadata, _, count):
            return "result", {"data": data, "metadata": metadata, "execution_count": count}
        case Shown(kind, _, data, metadata):
            return kind, {"data": data, "metadata": metadata}
        case Raised(name, value, traceback):
            return "error", {"name": name, "value": value, "traceback": traceback}
        case Finish():
            return "end", _ending(event)
    return "heartbeat", {}


def _ending(finish: Finish) -> dict[str, Any]:
    told: dict[str, Any] = {
        "status": finish.status,
        "execution_count": finish.count,
        "execution_time_ms": round(finish.milliseconds, 2),
    }
    if finish.reason is not None:  # the program is gone
        told |= {"exit_code": finish.exit_code, "reason": finish.reason}
    return told


def _frames(id: str, events: Iterator[Event | Wait]) -> Iterator[bytes | Wait]:
    for event in events:
        if isinstance(event, Wait):
            yield event
        elif isinstance(event, Output):
            if event.data:
                yield streams.frame(event.stream, event.data)
        else:
            kind, facts = _facts(id, event)
            yield streams.record(kind, **facts)


def _server_sent(id: str, events: Iterator[Event | Wait]) -> Iterator[bytes | Wait]:
    decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in NAMES}
    for event in events:
        if isinstance(event, Wait):
            yield event
        elif isinstance(event, Silence):
            yield _COMMENT
        elif isinstance(event, Output):
            if text := decoders[event.stream].decode(event.data):
                yield streams.event(NAMES[event.stream], {"data": text})
        else:
            if isinstance(event, Finish):
                for stream, decoder in decoders.items():
                    if text := decoder.decode(b"", True):
                        yield streams.event(NAMES[stream], {"data": text})
            yield streams.event(*_facts(id, event))


def _collected(events: Iterator[Event], most: int | None) -> dict[str, Any]:
    captured = {stream: Captured(most) for stream in NAMES}
    results: list[dict[str, Any]] = []
    left, cut = _MOST_SHOWN, False
    error: dict[str, Any] | None = None
    ending: dict[str, Any] = {}
    for event in events:
        match event:
            case Output(stream, data):
                captured[stream].add(data)
            case Shown(kind, size=size):
                left -= size + _EACH
                cut = cut or left < 0
                if left >= 0:
                    results.append({"type": kind, **_facts("", event)[1]})
            case Raised():
                error = _facts("", event)[1]
            case Finish():
                ending = _ending(event)
    output = {NAMES[stream]: part.text()[0] for stream, part in captured.items()}
    truncated = cut or ending.get("status") == "output_limit" or any(part.truncated for part in captured.values())
    return {**output, "results": results, "error": error, **ending, "truncated": truncated}
