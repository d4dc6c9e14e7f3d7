"""Recorded exchanges: reading them, replaying one against a server, and comparing what came back."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.repositories import as_told
from tests.support.server import Reply, ServerProcess

VECTORS = Path(__file__).resolve().parent.parent / "vectors"
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")


@dataclass(frozen=True)
class Vector:
    """One line of a vector file. `facts` is the line itself, unchanged."""

    file: str
    facts: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"{self.file}:{self.facts['name']}"

    @property
    def policy(self) -> Mapping[str, Any] | None:
        return self.facts.get("policy")

    @property
    def environ(self) -> Mapping[str, str]:
        return self.facts.get("env", {})

    @property
    def code(self) -> str | None:
        """The refusal code that the answer is expected to carry."""
        body = self.facts.get("response_json")
        return body.get("code") if isinstance(body, dict) else None

    def expecting(self, other: Mapping[str, Any]) -> Vector:
        """The same exchange with another expected answer."""
        answer = ("status", "response", "response_json", "response_sse", "response_text", "response_headers",
                  "unordered", "content_type", "audit", "partial")  # fmt: skip
        return replace(self, facts={k: v for k, v in self.facts.items() if k not in answer} | dict(other))


def load(*files: str) -> list[Vector]:
    """The vectors of some files, without what they say about the group of agents, which is out of scope."""
    found = []
    for file in files:
        for line in (VECTORS / f"{file}.jsonl").read_text().splitlines():
            facts = json.loads(line)
            for key in ("groups", "group_summary"):
                facts.get("response_json", {}).get(key, {}).pop("agents", None)
            found.append(Vector(file, facts))
    return found


def filled(value: Any, tmp: Path) -> Any:
    """`value` with every ``<tmp>`` replaced by the run's directory."""
    return json.loads(json.dumps(value).replace("<tmp>", str(tmp)))


def lay_out(tmp: Path, setup: list[dict[str, Any]]) -> None:
    """Make ``<tmp>/base`` and ``<tmp>/home`` as they are at the start of a run. The directories themselves stay."""
    for folder in (tmp / "base", tmp / "home"):
        folder.mkdir(exist_ok=True)
    for found in tmp.iterdir():
        if found.name in ("base", "home"):
            for inner in found.iterdir():
                _remove(inner)
        else:
            _remove(found)
    for item in setup:
        path = tmp / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        if "symlink_to" in item:
            path.symlink_to(item["symlink_to"])
        elif item.get("kind") == "dir":
            path.mkdir(exist_ok=True)
        elif "base64" in item:
            path.write_bytes(base64.b64decode(item["base64"]))
        else:
            path.write_text(item["text"] * item.get("repeat", 1))
        if "mode" in item:
            os.chmod(path, int(item["mode"], 8))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def replay(vector: Vector, server: ServerProcess, tmp: Path, pause: float = 1.0) -> Reply:
    """Prepare the directory, send the prelude, then the request itself. Pauses last `pause` times as recorded."""
    facts = filled(dict(vector.facts), tmp)
    lay_out(tmp, facts.get("setup", []))
    if "setup_shell" in facts:
        as_told(tmp / "base" / "repo", facts["setup_shell"])
    saved: dict[str, str] = {}
    for step in facts.get("prelude", []):
        reply = _send(server, step, saved)
        for variable, path in step.get("save", {}).items():
            value = reply.json()
            for key in path.split("."):
                value = value[key]
            saved[variable] = str(value)
        time.sleep(step.get("sleep", 0) * pause)
    if "timeline" in facts:
        changing = threading.Thread(target=_change, args=(tmp, facts["timeline"]))
        changing.start()
        try:
            return _send(server, facts["request"], saved)
        finally:
            changing.join()
    if "background" not in facts:
        return _send(server, facts["request"], saved)
    background = threading.Thread(target=_send, args=(server, facts["background"], saved))
    background.start()
    try:
        time.sleep(0.3)  # the recorded exchange has no other sign that the first request is running
        return _send(server, facts["request"], saved)
    finally:
        background.join()


def _change(tmp: Path, timeline: list[dict[str, Any]]) -> None:
    """Make each change of a timeline so many seconds from now."""
    began = time.monotonic()
    for step in timeline:
        time.sleep(max(0.0, began + step["at_s"] - time.monotonic()))
        if "write" in step:
            (tmp / step["write"]).write_text(step["text"])
        elif "unlink" in step:
            (tmp / step["unlink"]).unlink()
        else:
            (tmp / step["mkdir"]).mkdir()


def _send(server: ServerProcess, request: Mapping[str, Any], saved: Mapping[str, str]) -> Reply:
    target = re.sub(r"\$\{(\w+)\}", lambda match: saved[match[1]], request["path"])
    body = request.get("raw_body", request.get("body"))
    query = request.get("query")
    pairs = [tuple(pair) for pair in query] if isinstance(query, list) else query
    return server.request(request["method"], target, body, request.get("headers"), pairs)


def differences(vector: Vector, reply: Reply, tmp: Path) -> list[str]:
    """What is missing or different; what the answer has beyond the expectation does not matter."""
    facts = filled(dict(vector.facts), tmp)
    found: list[str] = []
    wanted = facts.get("status") or 0
    if reply.status != wanted:
        return [f"status {reply.status} instead of {wanted}: {reply.body[:300]!r}"]
    if "response_json" in facts:
        try:
            actual = reply.json()
        except ValueError:
            return [f"no JSON: {reply.body[:300]!r}"]
        found += compare(facts["response_json"], actual, "", frozenset(facts.get("unordered", ())))
    if "response_sse" in facts:
        found += compare(facts["response_sse"], [list(event) for event in events(reply.body)], "", frozenset())
    if facts.get("response_text") == "<html>" and b"<html" not in reply.body.lower():
        found.append(f"no HTML: {reply.body[:100]!r}")
    if "content_type" in facts and not reply.headers.get("content-type", "").startswith(facts["content_type"]):
        found.append(f"content type {reply.headers.get('content-type')!r} instead of {facts['content_type']!r}")
    for name, value in facts.get("response_headers", {}).items():
        actual = reply.headers.get(name, "")
        if actual != value and not (value == "<int>" and actual.isdigit()):
            found.append(f"header {name} is {actual!r} instead of {value!r}")
    return found


def events(body: bytes) -> Iterator[tuple[str, Any]]:
    """The (name, data) pairs of a text/event-stream."""
    for frame in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line and line[0] != ":")
        if "event" in fields:
            yield fields["event"], json.loads(fields["data"])


def compare(expected: Any, actual: Any, where: str, unordered: frozenset[str]) -> list[str]:
    """Differences between an expectation, which may hold placeholders, and a value."""
    match expected:
        case str() if (
            expected.startswith("<") and expected.endswith(">") and " " not in re.split(":| of ", expected)[0]
        ):
            return [] if _is(expected, actual) else [f"{where}: {actual!r} is no {expected}"]
        case dict():
            if not isinstance(actual, dict):
                return [f"{where}: {actual!r} is no object"]
            return [
                difference
                for key, value in expected.items()
                for difference in (
                    compare(value, actual[key], f"{where}.{key}".lstrip("."), unordered)
                    if key in actual
                    else [f"{where}.{key} is missing"]
                )
            ]
        case list():
            if not isinstance(actual, list) or len(actual) != len(expected):
                return [f"{where}: {actual!r} instead of {expected!r}"]
            if where in unordered:
                return _compare_unordered(expected, actual, where)
            return [
                difference
                for position, (one, other) in enumerate(zip(expected, actual, strict=True))
                for difference in compare(one, other, f"{where}[{position}]", unordered)
            ]
        case _:
            same = type(expected) is type(actual) and expected == actual
            return [] if same else [f"{where}: {actual!r} instead of {expected!r}"]


def _compare_unordered(expected: list[Any], actual: list[Any], where: str) -> list[str]:
    left = list(actual)
    for item in expected:
        fits = next((other for other in left if not compare(item, other, where, frozenset())), None)
        if fits is None:
            return [f"{where}: nothing like {item!r} in {actual!r}"]
        left.remove(fits)
    return []


def _is(placeholder: str, value: Any) -> bool:
    kind = re.split(":| of ", placeholder.strip("<>"))[0].rstrip("…")
    match kind:
        case "str":
            return isinstance(value, str)
        case "int":
            return type(value) is int
        case "float":
            return type(value) in (int, float)
        case "iso8601":
            return isinstance(value, str) and _ISO.fullmatch(value) is not None
        case "hex12" | "hex16":
            return isinstance(value, str) and re.fullmatch(rf"[0-9a-f]{{{kind[3:]}}}", value) is not None
        case "base64":
            return isinstance(value, str) and base64.b64decode(value, validate=True) is not None
        case "bool":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    raise ValueError(f"unknown placeholder {placeholder!r}")
