"""``caps``, ``check``, ``explain``: what the policy allows, and why not the rest."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sandbox_sdk._display.forms import HOLDERS, REASONS

from ..grammar import Mistake, nearest
from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table, pairs
from ..results import Answer, Shown
from ..text import size

if TYPE_CHECKING:
    from sandbox_sdk import Capabilities, EndpointInfo


def caps(call: Invocation) -> Outcome:
    found = fresh(call)
    endpoint = call.parsed.text("endpoint")
    return Outcome(found, Shown(_one(_known(found, endpoint)) if endpoint else _overview(found)))


def check(call: Invocation) -> Outcome:
    parsed = call.parsed
    decision = call.entry().sandbox.check(
        parsed.text("endpoint"), path=parsed.text("path") or None, op=parsed.text("op") or None
    )
    if decision.code == "unknown_endpoint":
        raise _unknown(decision.endpoint)
    answer = Answer(decision, decision.allowed, _decided(decision))
    return Outcome(answer, answer)


def explain(call: Invocation) -> Outcome:
    """`check`, and what else the rules say: who asks, what the endpoint needs, which paths it takes, who holds that."""
    outcome = check(call)
    found = fresh(call)
    info = found.info(call.parsed.text("endpoint"))
    if not isinstance(outcome.value, Answer) or info is None:
        return outcome
    decided = _decided(outcome.value.decision)
    facts = [("identity", found.identity_id), ("its scopes", ", ".join(sorted(found.scopes)) or "none")]
    facts += [("policy", f"{found.preset or 'custom'}, revision {found.revision}")]
    facts += [("mode", "observe: what would be refused is only noted")] if found.mode == "observe" else []
    known = {cell.text if isinstance(cell, Cell) else cell for cell, _ in decided.rows}
    facts += [fact for fact in _facts(info) if fact[0] not in known]
    answer = Answer(
        outcome.value.decision,
        outcome.value.allowed,
        Table([*decided.rows, *pairs(facts)], headline=decided.headline),
    )
    return Outcome(answer, answer)


def fresh(call: Invocation) -> Capabilities:
    """A fresh look each time, and no other call shall behave differently because of it."""
    sandbox = call.entry().sandbox
    found = sandbox.discover()
    sandbox.forget_discovery()
    return found


def _known(found: Capabilities, endpoint: str) -> EndpointInfo:
    info = found.info(endpoint)
    if info is None:
        raise _unknown(endpoint, found.endpoints)
    return info


def _unknown(endpoint: str, known: Any = None) -> Mistake:
    if known is None:
        from sandbox_sdk._contract import ENDPOINTS as known
    near = nearest(endpoint, known)
    return Mistake(f'"{endpoint}" is no endpoint', f"did you mean {near}?" if near else "%sandbox caps lists them")


def _overview(found: Capabilities) -> Table:
    allowed: list[Row] = [[Cell(i.id, "good"), i.summary] for i in found.endpoints.values() if i.allowed]
    denied = defaultdict[str, list[str]](list)
    for info in found.endpoints.values():
        if not info.allowed:
            by = f" by {info.rule}" if info.rule else ""
            denied[REASONS.get(info.reason or "", info.reason or "") + by].append(info.id)
    return Table(
        allowed,
        headline=Cell(f"{len(allowed)} of {len(found.endpoints)} endpoints are allowed to you"),
        notes=[
            *(Cell(f"{why}: {', '.join(names)}", "bad") for why, names in sorted(denied.items())),
            "%sandbox caps ENDPOINT shows its limits and paths",
        ],
    )


def _one(info: EndpointInfo) -> Table:
    if info.allowed:
        head = Cell(f"{info.id} is allowed", "good")
    else:
        head = Cell(f"{info.id} is denied: {REASONS.get(info.reason or '', info.reason or '')}", "bad")
    return Table(pairs(_facts(info)), headline=head)


def _facts(info: EndpointInfo) -> list[tuple[str, str]]:
    facts: list[tuple[str, str]] = [("what it does", info.summary), ("group", info.group)]
    facts += [("rule", info.rule)] if info.rule else []
    facts += [("scopes", ", ".join(info.scopes))] if info.scopes else []
    if info.paths is not None:
        facts.append(("paths", ", ".join(info.paths.roots) or "none"))
        facts += [("read only", "yes")] if info.paths.read_only else []
        facts += [("denied names", f"{info.paths.deny_count} patterns")] if info.paths.deny_count else []
        facts += [(f"{part} is enforced by", HOLDERS[level]) for part, level in info.paths.enforcement.items()]
    facts += [(_worded(name), _amount(name, value)) for name, value in {**info.defaults, **info.limits}.items()]
    facts += [(_worded(name), str(value)) for name, value in info.params.items()]
    return facts


def _worded(name: str) -> str:
    return name.replace("_", " ")


def _amount(name: str, value: object) -> str:
    return size(value) if name.endswith("_bytes") and isinstance(value, int) else str(value)


def _decided(decision: Any) -> Table:
    what = decision.endpoint + (f' of "{decision.path}"' if decision.path else "")
    if decision.allowed:
        return Table(headline=Cell(f"allowed: {what}", "good"))
    facts = [("reason", decision.reason or ""), ("code", decision.code or ""), ("rule", decision.rule or "")]
    return Table(
        pairs([fact for fact in facts if fact[1]]),
        headline=Cell(f"denied: {what}", "bad"),
        notes=[f"%sandbox caps {decision.endpoint} tells what is allowed"],
    )
