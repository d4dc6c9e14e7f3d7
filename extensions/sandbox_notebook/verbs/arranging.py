"""``rm``, ``mv``, ``mkdir``: what lies where in the sandbox."""

from __future__ import annotations

from ..args import quote
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..results import Notice


def rm(call: Invocation) -> Outcome:
    files, paths = call.entry().sandbox.files, call.parsed.many("path")
    for path in [] if call.parsed.flag("recursive") else paths:  # all of them before one of them is gone
        info = files.stat(path, follow=False)
        if info.is_dir and not info.is_symlink:
            raise Mistake(f'"{path}" is a directory', f"%sandbox rm -r {quote(path)} removes it and all that is in it")
    for path in paths:
        files.delete(path)
    return Outcome(None, Notice(f"removed {', '.join(paths)}"))


def mv(call: Invocation) -> Outcome:
    entry, source = call.entry(), call.parsed.text("source")
    path = entry.sandbox.files.move(source, call.parsed.text("target"))
    return Outcome(path, Notice(f"{source}  →  {entry.relative(path)}"))


def mkdir(call: Invocation) -> Outcome:
    entry = call.entry()
    made = [entry.sandbox.files.mkdir(path) for path in call.parsed.many("path")]
    names = ", ".join(entry.relative(path) + "/" for path in made)
    return Outcome(
        made[0] if len(made) == 1 else made, Notice(f"{names} is there" if len(made) == 1 else f"{names} are there")
    )
