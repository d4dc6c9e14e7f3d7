"""What one may do in a sandbox, endpoint by endpoint: why not, within which bounds, and what has just been refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from traitlets import Dict, List

from sandbox_sdk._display.forms import bounds, table_of, why_not

from ..render import Table
from .base import STATIC, Message, Widget

if TYPE_CHECKING:
    from sandbox_sdk import Capabilities, Decision, EndpointInfo, Sandbox, ServerAPIError

_OPS = ("read", "write", "delete", "exec")
_LONGEST = 4096


class CapabilityTable(Widget):
    """What this client may do, as the server says; `refresh` asks again. A refusal makes its line light up.

    Tries a path with the server's own answer, and does nothing with it.
    """

    _esm = STATIC / "caps.js"
    _css = STATIC / "rules.css"

    about = Dict().tag(sync=True)
    rows: Any = List().tag(sync=True)

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._found = _discovered(sandbox)
        super().__init__(
            {"try": self._try, "refresh": self._refresh}, about=_about(self._found), rows=_rows(self._found)
        )
        self._end_listening = sandbox.server.on_refusal(self._heard)

    def refresh(self) -> None:
        """Ask the server again."""
        self._found = _discovered(self._sandbox)
        self.context.copy().run(self._show)

    @property
    def identity(self) -> str:
        """Whom the server takes us for."""
        return self._found.identity_id

    def flash(self, endpoint: str, message: str) -> None:
        """Light a line up: that call has just been refused."""
        self.context.copy().run(self.tell, "denied", endpoint=endpoint, message=message)

    def close(self) -> None:
        self._end_listening()
        super().close()

    def face(self) -> Table:
        return table_of(self._found)

    def _show(self) -> None:
        self.about, self.rows = _about(self._found), _rows(self._found)

    def _heard(self, refusal: ServerAPIError) -> None:
        if refusal.endpoint and refusal.status_code in (0, 403, 404):
            info = self._found.info(refusal.endpoint)
            if info is not None and refusal.code != "not_found":
                self.flash(refusal.endpoint, refusal.message)

    def _refresh(self, _: Message, __: Sequence[memoryview]) -> None:
        self.refresh()

    def _try(self, message: Message, _: Sequence[memoryview]) -> None:
        endpoint, path, op = message.get("endpoint"), message.get("path"), message.get("op")
        if not isinstance(endpoint, str) or not isinstance(path, str) or len(path) > _LONGEST:
            return
        decision = self._sandbox.check(endpoint, path=path, op=op if op in _OPS else None)
        self.tell("answer", endpoint=endpoint, **answered(decision))


def answered(decision: Decision) -> dict[str, Any]:
    return {
        "path": decision.path,
        "verdict": "allowed" if decision.allowed else "denied",
        "why": " · ".join(filter(None, (decision.reason, decision.code, decision.rule))),
    }


def _discovered(sandbox: Sandbox) -> Capabilities:
    """A fresh look; no other call shall behave differently because of it."""
    found = sandbox.discover()
    sandbox.forget_discovery()
    return found


def _about(found: Capabilities) -> dict[str, Any]:
    allowed = sum(info.allowed for info in found.endpoints.values())
    facts = [f"policy {found.preset or 'custom'}", f"isolation {found.isolation}"]
    facts += ["only observed: nothing is refused"] if found.mode == "observe" else []
    return {
        "head": f'{allowed} of {len(found.endpoints)} endpoints are allowed to "{found.identity_id}"',
        "facts": facts,
        "ops": list(_OPS),
    }


def _rows(found: Capabilities) -> list[dict[str, Any]]:
    return [_row(info, found.base_dir) for info in sorted(found.endpoints.values(), key=lambda one: one.id)]


def _row(info: EndpointInfo, base_dir: str) -> dict[str, Any]:
    paths = info.paths
    narrowed = paths is not None and (
        list(paths.roots) != [base_dir] or bool(paths.allow) or paths.read_only or paths.deny_count > 0
    )
    limited = bool(info.limits or info.params or narrowed)
    facts = [("what it does", info.summary), ("call", f"{info.method} {info.path}"), ("scopes", ", ".join(info.scopes))]
    facts += [("rule", info.rule)] if info.rule else []
    return {
        "id": info.id,
        "group": info.group or "other",
        "verdict": "denied" if not info.allowed else "limited" if limited else "allowed",
        "why": info.summary if info.allowed else why_not(info),
        "enforcement": paths.enforcement.get("allow", "") if paths else "",
        "facts": [fact for fact in facts if fact[1]] + (bounds(info) if info.allowed else []),
        "paths": paths is not None,
    }
