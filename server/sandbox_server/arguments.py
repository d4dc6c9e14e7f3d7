"""Request -> keyword arguments for the handler: parse every field by kind, then guard by kind.

All shapes are looked at before any guard is asked, and guards go in a fixed order (environment, command, paths), so
that the same bad request always gets the same refusal.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .access import Grant
from .call import Call
from .catalogue import Endpoint, Field
from .guards.commands import Command, split_command
from .guards.paths import Location
from .json_body import parse_object
from .messages import Refusal, Request, quoted
from .services import restricts_commands

_TRUE = frozenset({"true", "yes", "1"})
_FALSE = frozenset({"false", "no", "0", ""})
_NO_BODY: Mapping[str, Any] = {}


def bind(call: Call, in_path: Mapping[str, str]) -> dict[str, Any]:
    """The handler's arguments, every one parsed and guarded.

    Raises `Refusal`; locations made so far are closed by the call's deferred clean-up.
    """
    endpoint, request = call.grant.endpoint, call.request
    query = query_of(request)
    call.raw = bool(endpoint.raw_types) and request.media_type in endpoint.raw_types
    if call.raw:
        written = "max_request_bytes" in call.grant.configured_limits  # the default cap is for JSON forms only
        _check_length(request, call.grant.size("max_request_bytes") if written else None)
        body: Mapping[str, Any] = _NO_BODY
    else:
        body = _body_of(endpoint, call)
    bound: dict[str, Any] = {}
    for field in endpoint.fields:
        if field.place == "path":
            raw: Any = in_path[field.name]
        elif field.place == "whole":
            raw = body
        elif field.place == "query" or call.raw:
            raw = query.get(field.name)
        else:
            raw = body.get(field.name)
        in_query = field.place in ("path", "query") or call.raw
        bound[field.name] = _parse(field, raw, in_query)
    for field in endpoint.guarded:
        if (value := bound[field.name]) is not None:
            bound[field.name] = _GUARDS[field.kind](call, field, value, bound)
    return bound


def query_of(request: Request) -> dict[str, str]:
    """The query as a map: a repeated name is refused, also a blank one; blank values count as absent."""
    query: dict[str, str] = {}
    for name, value in request.query:
        if name in query:
            raise Refusal(
                "duplicate_parameter", f"query parameter {quoted(name, 64)} is given more than once; send it once"
            )
        query[name] = value
    return {name: value for name, value in query.items() if value}


def _check_length(request: Request, limit: int | None) -> None:
    if limit is not None and request.body.length > limit:
        raise Refusal(
            "payload_too_large", f"the body has {request.body.length} bytes, the limit is {limit}", limit=limit
        )


def _body_of(endpoint: Endpoint, call: Call) -> Mapping[str, Any]:
    """The JSON object of a request, `{}` when there is none."""
    request = call.request
    if request.method not in ("POST", "PUT"):
        return _NO_BODY
    _check_length(request, call.grant.size("max_request_bytes"))
    if not request.body.length:
        return _NO_BODY
    kind = request.media_type
    if kind and kind != "application/json":
        offered = " or ".join(("application/json", *endpoint.raw_types))
        raise Refusal("unsupported_media_type", f"content type {quoted(kind, 64)} is not accepted here; send {offered}")
    return parse_object(request.body.read())


def _invalid(field: Field, expected: str) -> Refusal:
    return Refusal("invalid_argument", f'"{field.name}" must be {expected}', field=field.name)


def _parse(field: Field, raw: Any, in_query: bool) -> Any:
    """The shape only: text is text, numbers are numbers. None stands for an absent optional value."""
    if raw is None:
        if field.required:
            raise Refusal("invalid_argument", f'"{field.name}" is required', field=field.name)
        return field.default
    return _PARSERS[field.kind](field, raw, in_query)


def _text(field: Field, raw: Any, in_query: bool) -> str:
    if not isinstance(raw, str):
        raise _invalid(field, {"path": "a path as text", "base64": "base64 text"}.get(field.kind, "text"))
    if not raw and field.required and field.kind in ("text", "url"):
        raise _invalid(field, "text that is not empty")
    return raw


def _truth(field: Field, raw: Any, in_query: bool) -> bool:
    if in_query:
        return raw.lower() in _TRUE
    return raw.lower() not in _FALSE if isinstance(raw, str) else bool(raw)  # nobody who writes "false" means yes


def _path_list(field: Field, raw: Any, in_query: bool) -> list[str]:
    if not isinstance(raw, list) or not raw or not all(isinstance(path, str) for path in raw):
        raise _invalid(field, "a list of paths that is not empty")
    return raw


def _variables(field: Field, raw: Any, in_query: bool) -> dict[str, Any]:
    if not isinstance(raw, dict):
        message = f'"{field.name}" must be an object of variable names and text values'
        raise Refusal("env_invalid", message, field=field.name)
    return raw


def _command(field: Field, raw: Any, in_query: bool) -> tuple[tuple[str, ...], str]:
    return split_command(raw), raw


def _anything(field: Field, raw: Any, in_query: bool) -> Any:
    return raw


def _number(field: Field, raw: Any, in_query: bool) -> Any:
    try:
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise ValueError
        value = float(raw)
        if not math.isfinite(value):
            raise ValueError
        return value if field.kind == "number" else _whole(raw, value)
    except (ValueError, OverflowError):
        if field.lenient:
            return field.default
        raise _invalid(field, "a whole number" if field.kind == "int" else "a number") from None


def _whole(raw: int | float | str, value: float) -> int:
    try:
        return int(raw)  # exact where a float would not be
    except ValueError:  # text such as "1.5"
        return int(value)


_PARSERS: Mapping[str, Callable[[Field, Any, bool], Any]] = {
    "text": _text,
    "url": _text,
    "path": _text,
    "base64": _text,
    "int": _number,
    "number": _number,
    "bool": _truth,
    "paths": _path_list,
    "env": _variables,
    "command": _command,
    "object": _anything,
}


def _by_rule(call: Call, judge: Callable[[Grant], Any]) -> Any:
    """What `judge` lets through. Under `mode: observe` what the real rule refuses is noted; a mild one decides."""
    if call.grant.strict is not None:
        try:
            return judge(call.grant.strict)
        except Refusal as refusal:
            call.deny(refusal)
    return judge(call.grant)


def _admit_variables(call: Call, field: Field, value: object, bound: Mapping[str, Any]) -> Any:
    return _by_rule(call, lambda grant: call.services.environment.admit(value, restricted=restricts_commands(grant)))


def _admit_command(call: Call, field: Field, value: tuple[Sequence[str], str], bound: Mapping[str, Any]) -> Any:
    argv, text = value
    call.program = argv[0] if argv else ""

    def judge(grant: Grant) -> Command:
        guard, paths = call.services.command_guard(grant), call.services.path_guard(grant)
        return guard.admit(argv, text, paths, cwd=bound.get("cwd") or "")

    command: Command = _by_rule(call, judge)
    call.program = command.program or command.argv[0]
    return command


def _admit_url(call: Call, field: Field, value: str, bound: Mapping[str, Any]) -> Any:
    return value and _by_rule(call, lambda grant: call.services.url_guard(grant).admit(value))


def _locate(call: Call, field: Field, value: str, bound: Mapping[str, Any]) -> Location:
    assert field.op is not None
    return call.guard(value, field.op, follow=bound[field.follow] if isinstance(field.follow, str) else field.follow)


def _locate_each(call: Call, field: Field, value: Sequence[str], bound: Mapping[str, Any]) -> tuple[Location, ...]:
    """All of a list, holding nothing open until it is used: thousands would be held at once."""
    locations = []
    for path in value:
        locations.append(_locate(call, field, path, bound))
        locations[-1].close()
    return tuple(locations)


def _decode(call: Call, field: Field, value: str, bound: Mapping[str, Any]) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise _invalid(field, "base64 text (RFC 4648, section 4)") from None


_GUARDS: Mapping[str, Callable[[Call, Field, Any, Mapping[str, Any]], Any]] = {
    "env": _admit_variables,
    "command": _admit_command,
    "url": _admit_url,
    "path": _locate,
    "paths": _locate_each,
    "base64": _decode,
}
