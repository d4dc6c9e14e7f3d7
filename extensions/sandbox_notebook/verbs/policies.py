"""``policy``: what is in force, what is wrong with a file, where two differ."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..args import quote
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table, pairs
from ..results import Rows, Shown
from ..text import count
from ..vocabulary import PRESETS
from .rules import fresh

if TYPE_CHECKING:
    from sandbox_sdk import MatrixCell, PolicyMatrixData

_SECONDS = 60.0
# Who may write the file matters where a server reads it; a sandbox here gets a copy that nobody in it reaches.
_ELSEWHERE = "L5"
# Who calls where a policy lists no identities.
_NOBODY = "server"
_ABSENT = "not set"
_POLICIES = f"a preset ({', '.join(PRESETS)}) or a policy file (JSON or YAML)"


@dataclass(frozen=True)
class Finding:
    """What a policy file is warned about."""

    policy: str
    code: str
    message: str


@dataclass(frozen=True)
class Difference:
    """One thing about an endpoint that two policies tell an identity differently."""

    identity: str
    endpoint: str
    fact: str
    """Empty for the verdict itself."""
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
    matrix = _matrix(files)
    paired, notes = _paired(matrix)
    found, rows = list[Difference](), list[Row]()
    for identity, before, after in paired:
        for change in matrix.diff(before, after):
            several = False
            for fact, first, second in _differing(change.before, change.after):
                found.append(Difference(identity, change.endpoint, fact, _words(first), _words(second)))
                rows.append([identity, "" if several else Cell(change.endpoint, "strong"), fact, first, second])
                several = True
    named = len({identity for identity, _, _ in paired}) > 1
    rows = rows if named else [row[1:] for row in rows]
    endpoints = len({one.endpoint for one in found})
    head = f"{count(endpoints, 'endpoint')} differ" if endpoints != 1 else "1 endpoint differs"
    notes = notes if found or notes else ["both mean the same"]
    headers = (*(("identity",) if named else ()), "endpoint", "", *files) if found else ()
    shown = Rows(found, Table(rows, headers, headline=Cell(head), notes=notes))
    return Outcome(shown, shown)


def _matrix(files: list[str]) -> PolicyMatrixData:
    from sandbox_sdk import SandboxError, policy_matrix

    try:
        return policy_matrix([name if name in PRESETS else Path(name) for name in files])
    except SandboxError as error:
        raise Mistake(error.message, error.hint or _POLICIES) from error


def _paired(matrix: PolicyMatrixData) -> tuple[list[tuple[str, int, int]], list[str]]:
    """Who is compared: its name, and its column in either policy; and what there is to say beside that.

    A policy that names nobody means whoever calls, so it is compared with everybody of the other one.
    """
    sides: dict[str, dict[str, int]] = {}
    for number, column in enumerate(matrix.columns):
        sides.setdefault(column.policy, {})[column.identity] = number
    before, after = sides.values()
    notes = [
        f"{name} only observes: what it would deny is let through"
        for name, side in sides.items()
        if any(matrix.columns[number].mode == "observe" for number in side.values())
    ]
    if len(before) == len(after) == 1 or [_NOBODY] in ([*before], [*after]):
        names = before if [*after] == [_NOBODY] else after
        every = product(before.values(), after.values())
        return [(name, *columns) for name, columns in zip(names, every, strict=True)], notes
    for side, other, name in zip((before, after), (after, before), sides, strict=True):
        notes += [f"{identity} is known to {name} alone" for identity in side if identity not in other]
    return [(identity, number, after[identity]) for identity, number in before.items() if identity in after], notes


def _differing(before: MatrixCell, after: MatrixCell) -> Iterator[tuple[str, str | Cell, str | Cell]]:
    """The verdicts where they differ, with the reason of a denial; else the bounds that do."""
    if before.allowed != after.allowed or not before.allowed:
        yield "", _verdict(before), _verdict(after)
        return
    from sandbox_sdk._display.forms import cell_bounds

    first, second = dict(cell_bounds(before)), dict(cell_bounds(after))
    for fact in dict.fromkeys([*first, *second]):
        if first.get(fact) != second.get(fact):
            yield fact, first.get(fact, _ABSENT), second.get(fact, _ABSENT)


def _verdict(cell: MatrixCell) -> Cell:
    if cell.allowed:
        return Cell(cell.verdict, "good")
    reason = (cell.reason or "").removeprefix(f'"{cell.endpoint}" ').removeprefix("is ")
    return Cell(f"denied: {reason}" if reason else "denied", "bad")


def _words(cell: str | Cell) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _checked(name: str) -> dict[str, Any]:
    """What the server's own program says about a policy: this process never reads it as a policy."""
    from sandbox_sdk.sandbox.interpreter import find_server

    find_server()  # says what to install where there is none
    which = ["--preset", name] if name in PRESETS else ["--policy", name]
    done = subprocess.run(
        [sys.executable, "-I", "-m", "sandbox_server", "check-config", "--json", *which],
        env={**os.environ, **_stand_ins(name)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        said = done.stderr.strip().rsplit("\n", 1)[-1].removeprefix("agent-sandbox-server: ")
        raise Mistake(f'"{name}" is no policy: {said}', _POLICIES)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _stand_ins(name: str) -> dict[str, str]:
    """Values for the variables that a policy takes tokens from: it is judged without them, whoever holds them."""
    from sandbox_sdk import SandboxError
    from sandbox_sdk.sandbox.policies import TOKEN_VARIABLE, load_policy, token_variables

    if name in PRESETS:
        return {}
    try:
        document, _ = load_policy(Path(name))
    except SandboxError:
        return {}  # the server says what is wrong with it
    return {variable: secrets.token_hex(32) for variable in (TOKEN_VARIABLE, *token_variables(document))}
