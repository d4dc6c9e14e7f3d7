"""``find`` and ``grep``: files by their names, lines by what they say."""

from __future__ import annotations

import posixpath
import re
from operator import attrgetter
from typing import TYPE_CHECKING

from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table
from ..results import Rows
from ..session import Entry
from ..text import count
from .listing import DEEPEST

if TYPE_CHECKING:
    from sandbox_sdk import SearchHit, SearchResult

_MOST_FILES, _MOST_LINES = 1000, 200
_REASONS = {"binary": "no text", "large": "too large", "unreadable": "not readable"}


def find(call: Invocation) -> Outcome:
    entry, parsed = call.entry(), call.parsed
    most = parsed.count("most", _MOST_FILES)
    found = entry.sandbox.files.search(
        parsed.text("path", "."), parsed.text("name"), max_depth=parsed.count("depth", DEEPEST), max_results=most
    )
    found.sort(key=attrgetter("path"))
    rows, notes = call.clipped([[entry.relative(hit.path)] for hit in found])
    shown = Rows(found, Table(rows, notes=[*notes, *_notes(found, most, count(len(found), "file"))]))
    return Outcome(shown, shown)


def grep(call: Invocation) -> Outcome:
    entry, parsed = call.entry(), call.parsed
    text, path, most = parsed.text("text"), parsed.text("path", "."), parsed.count("most", _MOST_LINES)
    name, context, depth = parsed.text("name") or None, parsed.count("context", 0), DEEPEST
    if path != "." and _is_file(entry, path):
        directory, only = posixpath.split(path)
        path, name, depth = directory or ".", re.sub(r"([*?[])", r"[\1]", only), 1
    found = entry.sandbox.files.search(
        path, name, contents=text, regex=parsed.flag("regex"), ignore_case=parsed.flag("ignore_case"),
        context=context, max_depth=depth, max_results=most,
    )  # fmt: skip
    found.sort(key=attrgetter("path"))  # and the lines of a file in their order
    length = 0 if parsed.flag("regex") else len(text)
    rows, notes = call.clipped([row for hit in found for row in _rows(entry, hit, length, bool(context))])
    files = len({hit.path for hit in found})
    total = f"{count(len(found), 'line')} in {count(files, 'file')}"
    shown = Rows(found, Table(rows, notes=[*notes, *_notes(found, most, total)]))
    return Outcome(shown, shown)


def _is_file(entry: Entry, path: str) -> bool:
    from sandbox_sdk import EndpointNotAvailableError, PolicyDeniedError

    try:
        return not entry.sandbox.files.stat(path).is_dir
    except (EndpointNotAvailableError, PolicyDeniedError):  # nobody may look, so the search will tell
        return False


def _rows(entry: Entry, hit: SearchHit, length: int, context: bool) -> list[Row]:
    """The line with the hit, and the lines around it."""
    path, line = entry.relative(hit.path), hit.line or 0
    cut = int(hit.start > 1)
    at = (hit.column or 1) - hit.start + cut
    text = "…" * cut + hit.text + "…" * hit.cut
    head, middle, tail = (_plain(part) for part in (text[:at], text[at : at + length], text[at + length :]))
    marked = Cell(head + middle + tail, mark=(len(head), len(head + middle)) if middle else None)
    before: list[Row] = [
        [Cell(f"{path}-{line - len(hit.before) + index}", "dim"), Cell(_plain(near), "dim")]
        for index, near in enumerate(hit.before)
    ]
    after: list[Row] = [
        [Cell(f"{path}-{line + 1 + index}", "dim"), Cell(_plain(near), "dim")] for index, near in enumerate(hit.after)
    ]
    gap: list[Row] = [["", ""]] if context else []
    return [*before, [Cell(f"{path}:{line}", "dim"), marked], *after, *gap]


def _plain(line: str) -> str:
    """Tabs as blanks: escapes would hide how deep code is indented."""
    return line.replace("\t", "    ")


def _notes(found: SearchResult, most: int, total: str) -> list[str]:
    notes = [total if found else "nothing found"]
    if found.truncated:
        notes.append(f"there is more: --most {most * 5} shows it")
    if found.timed_out:
        notes.append("the time was up before everything was looked at: begin further below")
    left = [f"{number:,} {_REASONS.get(why, why)}" for why, number in sorted(found.skipped.items()) if number]
    return [*notes, f"left out: {', '.join(left)}"] if left else notes
