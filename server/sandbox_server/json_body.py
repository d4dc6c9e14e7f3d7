"""JSON as the body of a request: RFC 8259 to the letter, one object, no two ways to read it."""

from __future__ import annotations

import json
import re
from typing import Any

from .messages import JSON_TYPE, Refusal

_MOST_LEVELS = 100  # of objects and arrays in each other
_MOST_VALUES = 100_000  # of small ones each takes thirty times its text
_BOM = "\ufeff"
_SURROGATE = re.compile("[\ud800-\udfff]")


def parse_object(data: bytes) -> dict[str, Any]:
    """Strict JSON (RFC 8259) holding one object; repeated names, NaN and lone surrogates are refused."""
    if _holds_more(data, _MOST_VALUES):
        raise Refusal("bad_body", f"the JSON body holds too many values; use at most {_MOST_VALUES}")
    try:
        text = data.decode()  # left to itself, json would guess the encoding, and take encoded surrogates
        value = _decode(text.removeprefix(_BOM))
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError:
        raise Refusal("bad_body", f"the body is not UTF-8 text; send {JSON_TYPE}") from None
    except json.JSONDecodeError as error:
        raise Refusal("bad_body", f"the body is not JSON (line {error.lineno}, column {error.colno})") from None
    except ValueError as error:  # from the hooks below, or a number with thousands of digits
        message = str(error) if isinstance(error, _Strict) else "the body holds an unusable number"
        raise Refusal("bad_body", message) from None
    if not isinstance(value, dict):
        raise Refusal("bad_body", "the body must be a JSON object")
    if data.count(b"[") + data.count(b"{") > _MOST_LEVELS and _is_deeper(value, _MOST_LEVELS):
        raise _too_deep()
    if b"\\u" in data and _has_surrogate(value):
        raise Refusal("bad_body", "the body holds a lone surrogate escape, which is no character")
    return value


def _too_deep() -> Refusal:
    return Refusal("bad_body", f"the JSON body is nested too deeply; use at most {_MOST_LEVELS} levels")


def _holds_more(data: bytes, most: int) -> bool:
    """Whether there are more values or names than that, told before anything is made of them.

    All but the first follow a bracket or a comma. These stand in texts, too, which are left out where it matters.
    """
    if _separators(data) <= most:
        return False
    bare = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    return bare.count(b'"') > 2 * most or _separators(b"".join(bare.split(b'"')[::2])) > most


def _separators(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _is_deeper(value: Any, levels: int) -> bool:
    """Whether objects and arrays stand in each other more often than that; how deep the parser goes varies."""
    inside = [value]  # those that hold something, level by level
    for _ in range(levels):
        held = (item.values() if isinstance(item, dict) else item for item in inside)
        inside = [each for items in held for each in items if each and isinstance(each, (dict, list))]
    return bool(inside)


class _Strict(ValueError):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _Strict("the body repeats a name within one object")
    return value


def _no_constant(name: str) -> Any:
    raise _Strict(f"the body holds {name}, which is not JSON")


_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant).decode


def _has_surrogate(value: Any) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += item.keys()
            stack += item.values()
        elif isinstance(item, list):
            stack += item
        elif isinstance(item, str) and _SURROGATE.search(item):
            return True
    return False
