"""Commands of the operator's own: which there are, and one of them run."""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Mapping
from typing import Any

from ..call import Call
from ..custom.calls import CommandCall
from ..custom.coercion import CommandArg, coerce
from ..custom.commands import CALL_PARAMETER, RegisteredCommand
from ..messages import JSON_TYPE, Refusal, Response, json_response, quoted

log = logging.getLogger("sandbox_server")

#: Commands that go on although their time is over. A thread cannot be killed, so there must not be many of them.
MOST_ABANDONED = 16
_MOST_LEVELS = 100


def list_commands(call: Call) -> Response:
    """Those that are not hidden and whose scopes the caller holds."""
    identity = call.grant.identity
    return json_response(
        {
            "commands": [
                {
                    "name": command.name,
                    "args": [_described(argument) for argument in command.args],
                    "description": command.description,
                }
                for command in call.services.commands
                if not command.hidden and all(identity.can(scope) for scope in command.scopes)
            ]
        }
    )


def run_command(call: Call, *, name: str, arguments: Mapping[str, Any]) -> Response:
    """What the function returns, as JSON. One that takes too long is left to itself and answered with 408."""
    from urllib.parse import unquote  # a server that nobody asks starts without

    command = call.services.commands.get(unquote(name))
    if command is None:
        raise Refusal("command_not_found", f"no command {quoted(name, 64)}; GET /commands lists them")
    call.program = command.name
    for scope in command.scopes:
        call.require_scope(scope)
    values = coerce(command.args, arguments)
    seconds = call.grant.seconds("timeout_seconds")
    deadline = None if seconds is None else time.monotonic() + seconds
    context = CommandCall(
        identity=call.grant.identity.id, guard=call.guard, gone=call.request.peer.gone, deadline=deadline
    )
    call.defer(context.end)
    if command.takes_call:
        values[CALL_PARAMETER] = context
    run = _Run(command, values)
    if seconds is None:
        run()
    else:
        _within(call, run, seconds)
    return _answer(command, run.result(), call.grant.size("max_output_bytes"))


class _Run:
    """One call of a command's function; how it ended is kept."""

    def __init__(self, command: RegisteredCommand, values: Mapping[str, Any]) -> None:
        self.ended = threading.Event()
        self._command = command
        self._values = values
        self._result: Any = None
        self._failure: Exception | None = None

    def __call__(self) -> None:
        try:
            self._result = self._command.function(**self._values)
        except Refusal as refusal:
            self._failure = refusal
        except (Exception, SystemExit) as error:
            log.exception("command %s failed", self._command.name)
            self._failure = _failed(self._command, error)
        finally:
            self.ended.set()

    def result(self) -> Any:
        if self._failure is not None:
            raise self._failure
        return self._result


def _within(call: Call, run: _Run, seconds: float) -> None:
    """Run it on a thread of its own, and stop waiting when the time is over."""
    abandoned = call.services.abandoned
    if len(abandoned) >= MOST_ABANDONED:
        raise Refusal("busy", f"{MOST_ABANDONED} commands go on although their time is over; try again later")
    try:
        threading.Thread(target=run, name="command", daemon=True).start()
    except RuntimeError:
        raise Refusal("busy", "out of threads; try again") from None
    if not run.ended.wait(seconds):
        abandoned.add(run.ended)
        raise Refusal(
            "timeout", f"the command took longer than {seconds:g} seconds; it may go on, but its result is dropped"
        )


def _failed(command: RegisteredCommand, error: BaseException) -> Refusal:
    """The class of the exception is told, its text is not: it may hold anything."""
    kind = type(error).__name__[:64]
    return Refusal("command_failed", f'"{command.name}" failed; the log of the server has the details', type=kind)


def _answer(command: RegisteredCommand, result: Any, limit: int | None) -> Response:
    try:
        payload = json.dumps({"result": _plain(result, 0)}, separators=(",", ":")).encode()
    except Exception as error:  # the `str` of their objects may do anything
        log.exception("the result of command %s cannot be told", command.name)
        raise _failed(command, error) from None
    if limit is not None and len(payload) > limit:
        raise Refusal(
            "command_failed",
            f'the result of "{command.name}" has {len(payload)} bytes, the limit is {limit}',
            limit=limit,
        )
    return Response(200, payload, [("Content-Type", JSON_TYPE)])


def _plain(value: Any, level: int) -> Any:
    """The value in terms of JSON; what JSON has no word for becomes text."""
    if level > _MOST_LEVELS:
        raise ValueError("the result is nested too deeply")
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): _plain(item, level + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, level + 1) for item in value]
    return str(value)


def _described(argument: CommandArg) -> dict[str, Any]:
    return {
        "name": argument.name,
        "type": argument.type,
        "required": argument.required,
        "default": argument.default,
        "description": argument.description,
    }
