"""``edit``: other text or other lines in a file, shown as a diff."""

from __future__ import annotations

import re
from typing import Any

from ..args import quote
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table, Tone
from ..results import Shown
from ..text import count

_LINES = re.compile(r"(\d+)(?::(\d+))?")
_TONES: dict[str, Tone] = {"+": "added", "-": "removed", "@": "dim"}


def edit(call: Invocation) -> Outcome:
    from sandbox_sdk import ConflictError

    path = call.parsed.text("path")
    try:
        result = call.entry().sandbox.files.edit(path, _edit(call), dry_run=call.parsed.flag("dry_run"))
    except ConflictError as error:
        if error.code != "edit_mismatch":
            raise
        raise Mistake(*_explained(path, error.facts)) from error
    shown = Diff(path, result.diff, result.diff_truncated, result.dry_run)
    return Outcome(result, shown)


def _edit(call: Invocation) -> dict[str, Any]:
    parsed = call.parsed
    old, new, lines = (parsed.values.get(name) for name in ("old", "new", "lines"))
    if (old is None) == (lines is None):
        raise Mistake("give the old text, or the lines", "%sandbox edit app.py --old DEBUG=1 --new DEBUG=0")
    if (new is None) == (call.body is None):
        raise Mistake("give the new text by --new, or as the body of a cell", "%%sandbox edit app.py --lines 3:5")
    text = call.body if new is None else new
    if lines is None:
        return {"old": old, "new": text, **({"all": True} if parsed.flag("all") else {})}
    match = _LINES.fullmatch(str(lines))
    if match is None:
        raise Mistake(f'"{lines}" names no lines', "%sandbox edit app.py --lines 3:5 --new TEXT")
    first = int(match[1])
    return {"start_line": first, "end_line": int(match[2]) if match[2] else first, "new": text}


def _explained(path: str, facts: Any) -> tuple[str, str]:
    found = facts.get("count") if isinstance(facts, dict) else None
    lines = facts.get("lines") if isinstance(facts, dict) else None
    if found == 0:
        return f'the old text is not in "{path}"', f"%sandbox cat {quote(path)} shows it; copy it exactly"
    if isinstance(found, int):
        where = ", ".join(map(str, [*dict.fromkeys(lines)][:5])) if isinstance(lines, list) else ""
        lines_of = f", in {'lines' if ',' in where else 'line'} {where}" if where else ""
        places = f"{count(found, 'place')}{lines_of}"
        return f'the old text stands in "{path}" in {places}', "--all replaces all of them; more text tells one"
    return f'the lines are not in "{path}"', f"%sandbox cat {quote(path)} shows it"


class Diff(Shown):
    """Which lines went and which came."""

    quotes = True

    def __init__(self, path: str, diff: str, cut: bool, dry: bool) -> None:
        lines = [
            line for line in diff.replace("\t", "    ").split("\n") if line and not line.startswith(("---", "+++"))
        ]
        rows: list[Row] = [[Cell(line, _TONES.get(line[0], "code"))] for line in lines]
        added, removed = (sum(line[0] == sign for line in lines) for sign in "+-")
        head = f"{path}: {count(added, 'line')} added, {removed} removed" if lines else f"{path} is as it was"
        notes = ["the rest of the differences is left out"] if cut else []
        notes += ["nothing was written: --dry-run"] if dry else []
        super().__init__(Table(rows, headline=Cell(head, "" if dry or not lines else "good"), notes=notes))
