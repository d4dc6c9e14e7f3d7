"""What the program in a context says, as values that are safe to pass on; what has another shape is not understood."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MIME = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}")
_MOST_TYPES = 64
_MOST_LINES = 10_000
#: How a run can end by itself; what the server ends it for comes on top.
STATUSES = frozenset({"ok", "error", "interrupted"})


@dataclass(frozen=True, slots=True)
class Output:
    """Bytes of stdout or stderr, by the numbers of `process.ring`."""

    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Shown:
    """One value in all its representations: of a `display`, or the `result` of the last expression."""

    kind: str
    number: int  # by which its sender knows that it was taken
    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    size: int  # in bytes, as it was sent
    count: int = 0  # of the run, for a result


@dataclass(frozen=True, slots=True)
class Raised:
    """The exception that ended the code."""

    name: str
    value: str
    traceback: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Begun:
    """From here on an interrupt reaches the code."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The code has ended."""

    status: str


@dataclass(frozen=True, slots=True)
class Died:
    """The program is gone, and its variables with it."""


Piece = Output | Begun | Shown | Raised | Ended | Died


def understood(message: Mapping[str, Any], size: int) -> Begun | Shown | Raised | Ended | None:
    """What a message says; None when it is not of a known kind and shape."""
    match message:
        case {
            "op": "display" | "result" as kind,
            "number": int(number),
            "data": dict(data),
            "metadata": dict(metadata),
        }:
            return Shown(kind, number, _representations(data), metadata, size)
        case {"op": "error", "name": str(name), "value": str(value), "traceback": list(lines)}:
            return Raised(name, value, [line for line in lines[:_MOST_LINES] if isinstance(line, str)])
        case {"op": "begin"}:
            return Begun()
        case {"op": "end", "status": str(status)} if status in STATUSES:
            return Ended(status)
    return None


def _representations(data: Mapping[str, Any]) -> dict[str, Any]:
    """Text for every type but JSON ones, which have any value."""
    found = {}
    for mime, value in list(data.items())[:_MOST_TYPES]:
        if _MIME.fullmatch(mime) and (isinstance(value, str) or mime == "application/json" or mime.endswith("+json")):
            found[mime] = value
    return found
