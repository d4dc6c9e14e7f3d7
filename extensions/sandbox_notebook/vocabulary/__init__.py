"""Every subcommand of ``%sandbox``, declared once: parser, help, completion and the console script read these."""

from __future__ import annotations

from dataclasses import replace

from ..grammar import Command
from .files import changing, moving, reading
from .general import general
from .parts import FILL
from .programs import LANGUAGES, processes, programs
from .rules import rules
from .sandboxes import ISOLATIONS, PRESETS, sandboxes

__all__ = ["ISOLATIONS", "LANGUAGES", "PRESETS", "commands"]

_OF_NO_VARIABLES = ("config", "help")


def commands() -> dict[str, Command]:
    """By name, in the order in which one meets them."""
    declared = (
        *sandboxes(), *moving(), *reading(), *changing(), *programs(), *processes(), *rules(), *general(),
    )  # fmt: skip
    return {command.name: _filling(command) for command in declared}


def _filling(command: Command) -> Command:
    """With ``--fill``, wherever a line names something and is no code; ``run`` has it in its own place."""
    names = command.arguments or any(option.value for option in command.options)
    if command.verbatim or command.name in _OF_NO_VARIABLES or not names:
        return command
    return replace(command, options=(*command.options, FILL))
