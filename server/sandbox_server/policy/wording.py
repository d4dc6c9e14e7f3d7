"""How a bad value and its likely meaning are named in a message."""

from __future__ import annotations

import json
from collections.abc import Iterable

LONGEST_SHOWN = 80
LONGEST_COMPARED = 64  # similarity costs time quadratic in length


class PolicyConfigError(ValueError):
    """A policy that cannot be used. The text starts with the JSON path (or variable) that is wrong."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


def shown(value: object) -> str:
    """The value as a message may quote it: short, printable, never an arbitrary object's own text."""
    if isinstance(value, str):
        text = value if len(value) <= LONGEST_SHOWN else value[:LONGEST_SHOWN] + "…"
        return f'"{text}"' if text.isprintable() else json.dumps(text)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 64 else "a number beyond 64 bits"
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return f"a value of type {type(value).__name__}"


def part(key: str) -> str:
    """A key as a part of a JSON path, quoted when it would tear the line apart."""
    return key if key.isprintable() and len(key) <= LONGEST_SHOWN else shown(key)


def below(path: str, key: str) -> str:
    """The JSON path of `key` inside the object at `path`."""
    return f"{path}.{part(key)}"


def suggestion(word: str, choices: Iterable[str]) -> str:
    """``; did you mean "x"?`` for the closest choice, nothing when none is close."""
    import difflib

    if len(word) > LONGEST_COMPARED:
        return ""
    closest = difflib.get_close_matches(word, list(choices), n=1)
    return f'; did you mean "{closest[0]}"?' if closest else ""
