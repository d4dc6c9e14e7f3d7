"""Every subcommand of ``%sandbox``, declared once: parser, help, completion and the console script read these."""

from __future__ import annotations

from ..grammar import Command
from .files import changing, moving, reading
from .general import general
from .programs import LANGUAGES, processes, programs
from .rules import rules
from .sandboxes import ISOLATIONS, PRESETS, sandboxes

__all__ = ["ISOLATIONS", "LANGUAGES", "PRESETS", "commands"]


def commands() -> dict[str, Command]:
    """By name, in the order in which one meets them."""
    declared = (
        *sandboxes(), *moving(), *reading(), *changing(), *programs(), *processes(), *rules(), *general(),
    )  # fmt: skip
    return {command.name: command for command in declared}
