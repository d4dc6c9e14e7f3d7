"""A call as a value: what to send and how to read the answer. No I/O, so async and sync share it.

Methods, paths and the places of fields come from the generated contract, never from a literal.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from . import _wire as wire
from ._contract import ENDPOINTS, EndpointId
from ._wire import Json

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request, ready to send; `decode` reads the JSON object of the answer."""

    endpoint: str
    method: str
    target: str  # path and query, percent-encoded
    decode: Callable[[Json], T]
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    patience: float = 0.0  # seconds the server may take beyond the usual before it answers
    silence: float = 0.0  # seconds a streamed body may be silent where no heartbeats come


def call(
    endpoint: EndpointId,
    decode: Callable[[Json], T],
    /,
    *,
    raw: bool = False,
    headers: Mapping[str, str] | None = None,
    patience: float = 0.0,
    silence: float = 0.0,
    **fields: Any,
) -> Call[T]:
    """Put every field where the contract wants it; absent (None) ones are left out.

    With `raw` the body is the payload itself, so the body fields go into the query.
    """
    method, template, places = ENDPOINTS[endpoint]
    parts: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "body": {}}
    for name, value in fields.items():
        if value is not None:
            parts["query" if raw and places[name] == "body" else places[name]][name] = value
    path = template.format_map({name: encoded(value) for name, value in parts["path"].items()})
    query = "&".join(f"{name}={encoded(value)}" for name, value in parts["query"].items())
    sent = dict(headers or {})
    body = None
    if parts["body"] or (method == "POST" and not raw):
        body = json.dumps(parts["body"], separators=(",", ":")).encode("ascii")
        sent["Content-Type"] = "application/json"
    return Call(endpoint, method, f"{path}?{query}" if query else path, decode, body, sent, patience, silence)


def encoded(value: Any) -> str:
    """A value for a path or query, percent-encoded once. File names that are not UTF-8 keep their bytes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return quote(str(value), safe="", errors="surrogateescape")


def nothing(data: Json) -> None:
    """For answers whose facts the caller knows already."""


def document(data: Json) -> Json:
    return data


def each(name: str, decode: Callable[[Json], U]) -> Callable[[Json], list[U]]:
    """A decoder for the list of objects under one key."""
    return lambda data: [decode(item) for item in wire.objects(data, name)]


def command_line(command: str | Sequence[str]) -> str:
    """A command as one line; a list of arguments is quoted so that the server splits it into the same list."""
    if isinstance(command, str):
        return command
    if not isinstance(command, Sequence) or isinstance(command, (bytes, bytearray, memoryview)):
        raise TypeError(f"a command is text or a sequence of texts, not {type(command).__name__}")
    for part in command:
        if not isinstance(part, str):
            raise TypeError(f"the parts of a command are texts, not {type(part).__name__}; put str() round it")
    return shlex.join(command)


def stdin_text(stdin: str | bytes | None) -> str | None:
    """What goes into a command's standard input; it travels as text."""
    if not isinstance(stdin, bytes):
        return stdin
    try:
        return stdin.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"stdin is not UTF-8 at byte {error.start}; start() the command with stdin=True and write() the bytes"
        ) from None


def texts(data: Json, name: str) -> dict[str, str]:
    return {key: value for key, value in wire.mapping(data, name).items() if isinstance(value, str)}
