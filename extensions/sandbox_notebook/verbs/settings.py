"""``config``: the settings, as ``%config SandboxMagics`` has them."""

from __future__ import annotations

from typing import Any

from ..config import SETTINGS, UI
from ..grammar import Mistake, nearest
from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table
from ..results import Notice, Shown

_TRUE, _FALSE = {"true", "on", "yes", "1"}, {"false", "off", "no", "0"}


def config(call: Invocation) -> Outcome:
    name, value = call.parsed.text("setting"), call.parsed.text("value")
    if not name:
        rows: list[Row] = [[Cell(one, "strong"), _shown(getattr(call.settings, one))] for one in SETTINGS]
        shown = Shown(Table(rows, ("setting", "value"), notes=["%config SandboxMagics explains each"]))
        return Outcome(call.settings, shown)
    if name not in SETTINGS:
        near = nearest(name, SETTINGS)
        raise Mistake(f'"{name}" is no setting', f"did you mean {near}?" if near else "%sandbox config")
    if "value" in call.parsed.values:
        call.change(name, _read(name, getattr(call.settings, name), value))
        return Outcome(None, Notice(f"{name} is {value} now"))
    current = getattr(call.settings, name)
    return Outcome(current, Notice(f"{name} is {_shown(current)}", good=False))


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(name: str, current: object, text: str) -> Any:
    """The text as the kind of value that the setting has."""
    kind: type[bool] | type[int] | type[float] | type[str] = type(current)  # type: ignore[assignment]
    if kind is bool and text.lower() in _TRUE | _FALSE:
        return text.lower() in _TRUE
    if name == "ui" and text not in UI:
        raise Mistake(f'"{text}" is no value for ui, expected one of {", ".join(UI)}', f"%sandbox config ui {UI[0]}")
    try:
        if kind is not bool:
            return kind(text)
    except ValueError:
        pass
    expected = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
    raise Mistake(f'"{text}" is no value for {name}, expected {expected}', f"%sandbox config {name} {_shown(current)}")
