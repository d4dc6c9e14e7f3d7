"""The settings of the magics, as plain values: the verbs read these and do not know where they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

Ui = Literal["auto", "widget", "html", "text"]
UI: tuple[Ui, ...] = ("auto", "widget", "html", "text")


@dataclass(frozen=True, slots=True)
class Settings:
    ui: Ui = "auto"
    """How results show. All but ``text`` carry HTML beside the text; ``auto`` and ``widget`` show live widgets where
    there is a page for them; ``html`` writes nothing that depends on time, for notebooks whose outputs are compared."""
    default_policy: str = "workspace"
    timeout: float = 0.0
    max_lines: int = 2000
    tracebacks: bool = False
    confirm_overwrite: bool = True
    nested_asyncio: bool = False


SETTINGS = tuple(one.name for one in fields(Settings))


def ui_of(environ: Mapping[str, str]) -> Ui:
    """``SANDBOX_SDK_UI``, where it is set to something we know."""
    value = environ.get("SANDBOX_SDK_UI", "")
    return next((ui for ui in UI if ui == value), "auto")
