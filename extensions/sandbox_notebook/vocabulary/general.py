"""Settings and help."""

from __future__ import annotations

from ..config import UI
from ..grammar import Argument, Command


def general() -> tuple[Command, ...]:
    return (
        Command(
            "config", "see or change settings", "%sandbox config tracebacks true", (),
            (
                Argument("setting", "which one", True, offers="setting"),
                Argument("value", "its new value", True, suggestions=(*UI, "true", "false")),
            ),
            details="The same as %config SandboxMagics.SETTING = VALUE.",
        ),
        Command("help", "this table, or one subcommand in full", "%sandbox help run", (),
                (Argument("command", "which one", True, offers="command"),)),
    )  # fmt: skip
