"""Shapes: functions that check one part of a document and answer its normal form.

Every shape takes the value and its JSON path, and raises `PolicyConfigError` for anything it does not know.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .scopes import is_scope
from .sizes import LARGEST, parse_size
from .wording import PolicyConfigError, below, shown, suggestion

Shape = Callable[[Any, str], Any]

LONGEST_TEXT = 4096
LONGEST_LIST = 10_000


def flag(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise PolicyConfigError(path, f"must be true or false, not {shown(value)}")
    return value


def text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise PolicyConfigError(path, f"must be text, not {shown(value)}")
    if "\0" in value or len(value) > LONGEST_TEXT:
        raise PolicyConfigError(path, f"must have no NUL and at most {LONGEST_TEXT} characters, not {shown(value)}")
    return str(value)


def name(value: Any, path: str) -> str:
    if not text(value, path):
        raise PolicyConfigError(path, "must not be empty")
    return str(value)


def one_of(*choices: str) -> Shape:
    """One word of a fixed list, with a suggestion for a near miss."""

    def shape(value: Any, path: str) -> str:
        if not isinstance(value, str) or value not in choices:
            near = suggestion(value, choices) if isinstance(value, str) else ""
            expected = ", ".join(f'"{choice}"' for choice in choices)
            raise PolicyConfigError(path, f"must be one of {expected}, not {shown(value)}{near}")
        return str(value)

    return shape


def size(value: Any, path: str) -> int:
    try:
        return parse_size(value)
    except ValueError as error:
        raise PolicyConfigError(path, str(error)) from None


def positive_int(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < LARGEST:
        raise PolicyConfigError(path, f"must be an integer above 0, not {shown(value)}")
    return int(value)


def positive_number(value: Any, path: str) -> int | float:
    if isinstance(value, float) and math.isfinite(value) and value > 0:
        return float(value)
    if isinstance(value, float):
        raise PolicyConfigError(path, f"must be a number above 0, not {shown(value)}")
    return positive_int(value, path)


def integer(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -LARGEST < value < LARGEST:
        raise PolicyConfigError(path, f"must hold integers, not {shown(value)}")
    return int(value)


def scope(value: Any, path: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or not is_scope(value):
        raise PolicyConfigError(path, f'{shown(value)} is no scope; use "*", "files:*" or "files:read", lower case')
    return str(value)


def directory(value: Any, path: str) -> str:
    """An absolute directory. Patterns are no directories; the common slip of writing one is refused."""
    place = text(value, path)
    if not place.startswith("/"):
        raise PolicyConfigError(path, f"{shown(place)} is no absolute path; start it with /")
    trimmed = place.rstrip("/")
    if trimmed.endswith(("/*", "/**")):
        plain = trimmed.rstrip("*").rstrip("/") or "/"
        raise PolicyConfigError(
            path, f"{shown(place)} is a pattern; a directory covers all below it, so write {shown(plain)}"
        )
    try:
        os.fsencode(place)
    except UnicodeEncodeError:
        raise PolicyConfigError(path, f"{shown(place)} cannot name a file") from None
    return place


def items(value: Any, path: str) -> Sequence[Any]:
    """A list, as it is."""
    if not isinstance(value, (list, tuple)):
        raise PolicyConfigError(path, f"must be a list, not {shown(value)}")
    if len(value) > LONGEST_LIST:
        raise PolicyConfigError(path, f"must have at most {LONGEST_LIST} entries, not {len(value)}")
    return value


def list_of(entry: Shape) -> Shape:
    """A list whose entries all have one shape; they are reported at the list's own path."""

    def shape(value: Any, path: str) -> list[Any]:
        return [entry(item, path) for item in items(value, path)]

    return shape


def optional(inner: Shape) -> Shape:
    """``null`` as well."""

    def shape(value: Any, path: str) -> Any:
        return None if value is None else inner(value, path)

    return shape


def entries(value: Any, path: str) -> Mapping[str, Any]:
    """An object with text keys, as it is."""
    if not isinstance(value, Mapping):
        raise PolicyConfigError(path, f"must be an object, not {shown(value)}")
    for key in value:
        if not isinstance(key, str):
            raise PolicyConfigError(path, f"keys must be text, not {shown(key)}")
    return value


def fields(shapes: Mapping[str, Shape]) -> Shape:
    """An object with no other keys than these. All of them are optional; none is filled in."""

    def shape(value: Any, path: str) -> dict[str, Any]:
        given = entries(value, path)
        for key in given:
            if key not in shapes:
                expected = ", ".join(shapes)
                problem = f"unknown key{suggestion(key, shapes) or f'; known ones are {expected}'}"
                raise PolicyConfigError(below(path, key), problem)
        return {str(key): shapes[key](item, below(path, key)) for key, item in given.items()}

    return shape
