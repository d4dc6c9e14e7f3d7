"""Text to a plain value: JSON, and YAML where PyYAML is importable. Repeated keys are refused in both."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from typing import Any

from .wording import PolicyConfigError, below, shown

LARGEST_FILE = 1 << 20
INLINE, FILE = "ABX_SERVER_POLICY", "ABX_SERVER_POLICY_FILE"
WELL_KNOWN = "/etc/agent-sandbox/server-policy.json"
_ROOT = "policy"


def read_file(path: str) -> Any:
    """The value in a policy file; ``.yaml`` and ``.yml`` are YAML, everything else is JSON."""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "not a path"
        raise PolicyConfigError(_ROOT, f"file {shown(path)} cannot be read: {why.lower()}") from None
    is_yaml = path.lower().endswith((".yaml", ".yml"))
    return read_yaml(_decode(data)) if is_yaml else read_json(data)


def locate(environ: Mapping[str, str], well_known: str = WELL_KNOWN) -> tuple[str | None, str | None]:
    """What the environment names: inline text, else a file. Both None when there is no policy."""
    if inline := environ.get(INLINE):
        return inline, None
    if path := environ.get(FILE):
        return None, path
    try:
        os.stat(well_known)
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except OSError:  # there is one that we may not see: reading it says so
        pass
    return None, well_known


def read_json(source: str | bytes) -> Any:
    """The value of JSON text. A key given twice in one object, and numbers that are none, are refused."""
    source = _bounded(_decode(source) if isinstance(source, bytes) else source)
    repeats: list[_Object] = []

    def collect(pairs: list[tuple[str, Any]]) -> _Object:
        made = _Object(pairs)
        if len(made) < len(pairs):
            made.repeated = _first_repeat([key for key, _ in pairs])
            repeats.append(made)
        return made

    try:
        value = json.loads(source, object_pairs_hook=collect, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise PolicyConfigError(_ROOT, f"is not JSON, see line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError):
        raise PolicyConfigError(_ROOT, "is not JSON: a number is out of range, or it is nested too deeply") from None
    if repeats:  # the last one to close is part of the value: an object around it would have closed later
        raise PolicyConfigError(_path_of(value, repeats[-1]), "is given twice")
    return value


class _Object(dict[str, Any]):
    """A JSON object that remembers a key which was given twice."""

    repeated = ""


def _first_repeat(keys: list[str]) -> str:
    return next(key for index, key in enumerate(keys) if key in keys[:index])


def _no_number(constant: str) -> Any:
    raise ValueError(constant)


def _path_of(root: Any, wanted: _Object) -> str:
    """The JSON path of the repeated key of `wanted`, which lies somewhere inside `root`."""
    waiting: list[tuple[Any, str]] = [(root, _ROOT)]
    while waiting[-1][0] is not wanted:
        value, path = waiting.pop()
        if isinstance(value, dict):
            waiting += [(item, below(path, key)) for key, item in value.items()]
        elif isinstance(value, list):
            waiting += [(item, f"{path}[{index}]") for index, item in enumerate(value)]
    return below(waiting[-1][1], wanted.repeated)


def read_yaml(source: str) -> Any:
    """The value of YAML text."""
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        raise PolicyConfigError(_ROOT, "YAML needs PyYAML, which is not installed; write JSON instead") from None
    _bounded(source)
    try:
        loader = yaml.SafeLoader(source)
        node = loader.get_single_node()
        line = _repeated_line(node) if node is not None else 0
        value = loader.construct_document(node) if node is not None and not line else None
    except Exception as error:  # a third-party parser raises more than it documents, for dates and numbers for instance
        mark = getattr(error, "problem_mark", None)
        where = f", see line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise PolicyConfigError(_ROOT, f"is not YAML{where}") from None
    if line:
        raise PolicyConfigError(_ROOT, f"a key is given twice, see line {line}")
    return value


def _repeated_line(root: Any) -> int:
    """The line of the first key that an object of the YAML tree has twice; 0 when there is none."""
    waiting, done = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in done or not isinstance(node.value, list):
            continue
        done.add(id(node))  # an alias may lead back
        keys: set[str] = set()
        for child in node.value:
            if not isinstance(child, tuple):
                waiting.append(child)
                continue
            key, item = child
            waiting += [key, item]
            if isinstance(key.value, str):
                if key.value in keys:
                    return int(key.start_mark.line) + 1
                keys.add(key.value)
    return 0


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PolicyConfigError(_ROOT, "is not UTF-8 text") from None


def _bounded(source: str) -> str:
    if len(source) > LARGEST_FILE:
        raise PolicyConfigError(_ROOT, f"is larger than {LARGEST_FILE} bytes")
    return source
