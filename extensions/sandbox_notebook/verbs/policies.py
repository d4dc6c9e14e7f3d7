"""``policy``: what is in force, what is wrong with a file, where two differ."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from ..args import quote
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table, pairs
from ..results import Rows, Shown
from ..text import count
from ..vocabulary import PRESETS
from .rules import fresh

_SECONDS = 60.0
# Who may write the file matters where a server reads it; a sandbox here gets a copy that nobody in it reaches.
_ELSEWHERE = "L5"


@dataclass(frozen=True)
class Finding:
    """What a policy file is warned about."""

    policy: str
    code: str
    message: str


@dataclass(frozen=True)
class Difference:
    """One fact about an endpoint that two policies see differently."""

    endpoint: str
    fact: str
    first: str
    second: str


def policy(call: Invocation) -> Outcome:
    action, files = call.parsed.text("action", "show"), call.parsed.many("policy")
    if action == "lint":
        return _lint(files)
    if action == "diff":
        return _diff(files)
    if files:
        raise Mistake("show asks the sandbox and reads no file", f"%sandbox policy lint {quote(files[0])}")
    return _show(call)


def _show(call: Invocation) -> Outcome:
    found = fresh(call)
    document = found.as_dict()
    facts = [("policy", found.preset or "custom"), ("revision", found.revision), ("identity", found.identity_id)]
    facts += [("scopes", ", ".join(sorted(found.scopes)) or "none")]
    facts += [("isolation", found.isolation), ("files below", found.base_dir)]
    facts += [("mode", "observe: what would be refused is only noted")] if found.mode == "observe" else []
    facts += [(name, _group(found, name)) for name in found.groups]
    roots = {root for info in found.endpoints.values() if info.allowed and info.paths for root in info.paths.roots}
    facts += [("paths", ", ".join(sorted(roots)) or "none")]
    notes = [Cell(warning, "bad") for warning in found.warnings]
    table = Table(
        pairs(facts),
        headline=Cell(f'the policy of sandbox "{call.entry().name}", as you see it'),
        notes=[*notes, "%sandbox caps lists the endpoints, %sandbox explain ENDPOINT tells about one"],
    )
    return Outcome(document, Shown(table))


def _group(found: Any, name: str) -> str:
    members = [info for info in found.endpoints.values() if info.group == name]
    allowed = sum(info.allowed for info in members)
    if not allowed:
        return "off"
    return "all" if allowed == len(members) else f"{allowed} of {len(members)}"


def _lint(files: list[str]) -> Outcome:
    if not files:
        raise Mistake("which policy?", "%sandbox policy lint policy.json")
    found = [
        Finding(name, warning.get("code", ""), warning.get("message", ""))
        for name in files
        for warning in _checked(name)["warnings"]
        if warning.get("code") != _ELSEWHERE
    ]
    rows: list[Row] = [[Cell(one.policy, "strong"), one.code, one.message] for one in found]
    good = f"{count(len(files), 'policy', 'policies')} without a warning"
    head = Cell(count(len(found), "warning")) if found else Cell(good, "good")
    shown = Rows(found, Table(rows, headline=head))
    return Outcome(shown, shown)


def _diff(files: list[str]) -> Outcome:
    if len(files) != 2:
        raise Mistake("diff compares two policies", "%sandbox policy diff workspace policy.json")
    first, second = ({one["endpoint"]: _flat(one) for one in _checked(name)["endpoints"]} for name in files)
    found = [
        Difference(endpoint, fact, one.get(fact, ""), other.get(fact, ""))
        for endpoint in dict.fromkeys([*first, *second])
        for one, other in [(first.get(endpoint, {}), second.get(endpoint, {}))]
        for fact in (dict.fromkeys([*one, *other]) if one.get("") == other.get("") else [""])
        if one.get(fact, "") != other.get(fact, "")
    ]
    rows: list[Row] = []
    for one in found:
        repeated = bool(rows) and found[len(rows) - 1].endpoint == one.endpoint
        rows.append(["" if repeated else Cell(one.endpoint, "strong"), one.fact, one.first, one.second])
    endpoints = len({one.endpoint for one in found})
    head = f"{count(endpoints, 'endpoint')} differ" if endpoints != 1 else "1 endpoint differs"
    notes = [] if found else ["both mean the same"]
    shown = Rows(found, Table(rows, ("endpoint", "", *files) if found else (), headline=Cell(head), notes=notes))
    return Outcome(shown, shown)


def _flat(endpoint: dict[str, Any]) -> dict[str, str]:
    """What the policy says about an endpoint, fact by fact; the rule that says so is not compared."""
    paths = endpoint.get("paths") or {}
    facts = {"": "on" if endpoint.get("enabled") else "off"}
    if not endpoint.get("enabled"):
        return facts
    facts |= {"scopes": _list(endpoint.get("scopes"))}
    facts |= {f"paths {name}": _list(value) for name, value in paths.items()}
    return facts | {name.replace("_", " "): _list(value) for name, value in (endpoint.get("limits") or {}).items()}


def _list(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _checked(name: str) -> dict[str, Any]:
    """What the server's own program says about a policy: this process never reads it as a policy."""
    from sandbox_sdk.sandbox.interpreter import find_server

    find_server()  # says what to install where there is none
    which = ["--preset", name] if name in PRESETS else ["--policy", name]
    done = subprocess.run(
        [sys.executable, "-I", "-m", "sandbox_server", "check-config", "--json", *which],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.strip().rsplit("\n", 1)[-1].removeprefix("agent-sandbox-server: ")
        raise Mistake(f'"{name}" is no policy: {said}', f"a preset ({', '.join(PRESETS)}) or a policy file (JSON)")
    document: dict[str, Any] = json.loads(done.stdout)
    return document
