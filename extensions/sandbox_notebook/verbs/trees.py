"""``tree``: a directory and what is below it, drawn."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table
from ..results import Rows
from .listing import DEEPEST, named, total

if TYPE_CHECKING:
    from sandbox_sdk import FileEntry

_MOST = 2000


def tree(call: Invocation) -> Outcome:
    path = call.parsed.text("path", ".")
    level = call.parsed.count("level", DEEPEST)
    entries = call.entry().sandbox.files.list(path, recursive=level > 1, max_depth=level, max_entries=_MOST)
    notes = [total(entries)]
    if len(entries) == _MOST:
        notes.append(f"there may be more than these {_MOST:,}: look at fewer levels (-L 1), or further below")
    rows: list[Row] = [[Cell(path, "strong")], *drawn(entries)]
    shown = Rows(entries, Table(rows, notes=notes))
    return Outcome(shown, shown)


def drawn(entries: list[FileEntry]) -> Iterator[Row]:
    """One row per entry, each below its directory."""
    below: dict[str, list[FileEntry]] = {}
    paths = {entry.path for entry in entries}
    for entry in sorted(entries, key=lambda entry: entry.name):
        parent = posixpath.dirname(entry.path)
        below.setdefault(parent if parent in paths else "", []).append(entry)

    def branch(parent: str, indent: str) -> Iterator[Row]:
        members = below.get(parent, [])
        for entry in members:
            last = entry is members[-1]
            cell = named(entry, entry.name)
            yield [Cell(f"{indent}{'└── ' if last else '├── '}{cell.text}", cell.tone)]
            yield from branch(entry.path, indent + ("    " if last else "│   "))

    return branch("", "")
