"""The policy document: its closed vocabulary and its normal form.

The normal form has ``version``, sizes as integers, groups as a map and digests in lower case. Nothing that was not
written is filled in, so equal policies have equal revisions whatever words are added later.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from ..catalogue import GROUPS, LIMITS, PARAMS
from .presets import PRESETS
from .shapes import (
    LONGEST_TEXT,
    Shape,
    directory,
    entries,
    fields,
    flag,
    integer,
    items,
    list_of,
    name,
    one_of,
    optional,
    positive_int,
    positive_number,
    scope,
    size,
    text,
)
from .wording import PolicyConfigError, below, shown, suggestion

VERSION = 1
LONGEST_SELECTOR = 256
MOST_SELECTORS = 2000
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")

_LIMIT_SHAPES: Mapping[str, Shape] = {"size": size, "int": positive_int, "number": positive_number}


def _command_pattern(value: Any, path: str) -> str:
    """One that can be compiled: at call time a broken pattern would look like the caller's mistake."""
    from ..guards.patterns import CommandPattern
    from ..guards.programs import SearchPath

    pattern = text(value, path)
    try:
        CommandPattern(pattern, SearchPath(()))
    except ValueError:
        problem = 'is no command pattern; name a program, close quotations, use "..." at most three times'
        raise PolicyConfigError(path, f"{shown(pattern)} {problem}") from None
    return pattern


_PARAM_SHAPES: Mapping[str, Shape] = {"bool": flag, "strings": list_of(text), "ints": list_of(integer)}
_COMMANDS = list_of(_command_pattern)

#: `allow`: absent inherits, null returns to the base directory, an empty list allows nothing.
PATH_KEYS: Mapping[str, Shape] = {
    "allow": optional(list_of(directory)),
    "deny": list_of(text),
    "read_only": flag,
    "symlinks": one_of("within", "never"),
    "hardlinks": one_of("allow", "deny"),
}
_PATHS = fields(PATH_KEYS)
RULE_KEYS: Mapping[str, Shape] = {
    "enabled": flag,
    "scopes": list_of(scope),
    "paths": _PATHS,
    "limits": fields({key: _LIMIT_SHAPES[kind] for key, (kind, _) in LIMITS.items()}),
    "params": fields(
        {
            **{key: _PARAM_SHAPES[param.kind] for key, param in PARAMS.items()},
            "allow_commands": _COMMANDS,
            "deny_commands": _COMMANDS,
        }
    ),
    "audit": one_of("off", "deny", "all"),
}
_RULE = fields(RULE_KEYS)


def _rule(value: Any, path: str) -> dict[str, Any]:
    """The mistake of a bare true or false, as groups have, is told what to write."""
    if isinstance(value, bool):
        written = shown(value)
        raise PolicyConfigError(path, f'must be an object, not {written}; write {{"enabled": {written}}}')
    rule: dict[str, Any] = _RULE(value, path)
    return rule


def normalise(document: object) -> dict[str, Any]:
    """The normal form of a document. Raises `PolicyConfigError`, and nothing else, whatever is passed."""
    return {"version": VERSION, **_DOCUMENT(document, "policy")}


def revision(document: Mapping[str, Any]) -> str:
    """The first 16 hex digits of the SHA-256 of a normalised document."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()[:16]


def _version(value: Any, path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value != VERSION:
        raise PolicyConfigError(path, f"must be {VERSION}, not {shown(value)}")
    return VERSION


def _description(value: Any, path: str) -> str:
    """Any JSON becomes text. It is measured while it is written, so a cyclic or huge value ends early."""
    if isinstance(value, str):
        return text(value, path)
    written = ""
    try:
        for piece in json.JSONEncoder(ensure_ascii=False).iterencode(value):
            written += piece
            if len(written) > LONGEST_TEXT:
                break
    except (TypeError, ValueError, RecursionError):
        raise PolicyConfigError(path, f"must be text, not {shown(value)}") from None
    return text(written, path)


def _groups(value: Any, path: str) -> dict[str, bool]:
    if isinstance(value, (list, tuple)):
        value = {one: True for one in list_of(text)(value, path)}
    if not isinstance(value, Mapping):
        raise PolicyConfigError(path, f"must be an object or a list of names, not {shown(value)}")
    switched = {}
    for group, state in entries(value, path).items():
        here = below(path, group)
        if group not in GROUPS:
            near = suggestion(group, GROUPS) or f"; known ones are {', '.join(GROUPS)}"
            raise PolicyConfigError(here, f"unknown group{near}")
        if group == "core" and flag(state, here) is False:
            raise PolicyConfigError(here, "core endpoints are always on; leave the group out")
        switched[str(group)] = flag(state, here)
    return switched


def _endpoints(value: Any, path: str) -> dict[str, Any]:
    rules = entries(value, path)
    if len(rules) > MOST_SELECTORS:
        raise PolicyConfigError(path, f"must have at most {MOST_SELECTORS} selectors, not {len(rules)}")
    for selector in rules:
        if len(selector) > LONGEST_SELECTOR:
            raise PolicyConfigError(below(path, selector), f"must have at most {LONGEST_SELECTOR} characters")
    return {str(selector): _rule(rule, below(path, selector)) for selector, rule in rules.items()}


def _digest(value: Any, path: str) -> str:
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise PolicyConfigError(path, "must be the 64 hex digits of the token's SHA-256")
    return value.lower()


_TOKEN = fields(
    {"id": name, "scopes": list_of(scope), "token_env": name, "token_sha256": _digest, "paths": _PATHS},
)


def _token(value: Any, path: str) -> dict[str, Any]:
    token: dict[str, Any] = _TOKEN(value, path)
    for key in ("id", "scopes"):
        if key not in token:
            raise PolicyConfigError(f"{path}.{key}", "is required")
    if ("token_env" in token) == ("token_sha256" in token):
        raise PolicyConfigError(path, 'needs either "token_env" or "token_sha256"')
    return token


def _tokens(value: Any, path: str) -> list[dict[str, Any]]:
    tokens: list[dict[str, Any]] = []
    known: set[str] = set()
    for index, item in enumerate(items(value, path)):
        token = _token(item, f"{path}[{index}]")
        if token["id"] in known:
            raise PolicyConfigError(f"{path}[{index}].id", f"{shown(token['id'])} is taken by an earlier token")
        known.add(token["id"])
        tokens.append(token)
    return tokens


TOP_KEYS: Mapping[str, Shape] = {
    "version": _version,
    "description": _description,
    "preset": one_of(*PRESETS),
    "base_dir": directory,
    "groups": _groups,
    "defaults": _rule,
    "auth": fields({"tokens": _tokens, "allow_anonymous": flag, "anonymous_scopes": list_of(scope)}),
    "endpoints": _endpoints,
    "mode": one_of("enforce", "observe"),
    "require_landlock": flag,
}
_DOCUMENT = fields(TOP_KEYS)
