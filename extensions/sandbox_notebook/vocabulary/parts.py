"""What several declarations share."""

from __future__ import annotations

from ..grammar import Argument, Option

OPS = ("read", "write", "delete", "exec")

IN = Option("--in", "which sandbox, when there are several", "NAME", offers="sandbox")
OVERWRITE = Option("--overwrite", "replace a file that is in the way")
VERIFY = Option("--verify", "compare SHA-256 on both sides")
FILL = Option("--fill", "replace {name} by that variable; {{ and }} stand for braces")
OP = Option("--op", "judge the path for this operation", "OP", choices=OPS)
PROCESS = Argument("process", "its number in ps; default: the latest", True, offers="process")


def directory(help: str) -> Argument:
    """A directory of the sandbox that need not be named."""
    return Argument("path", help, True, offers="remote")
