"""The table of each kind of value. Only what is the same in every run: no times, no process ids."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import singledispatch
from typing import Any

from .._archive_calls import Unpacked
from .._capabilities import EndpointInfo, PathsInfo, Snapshot
from .._errors import SandboxError, ServerAPIError
from .._listings import FileList, ProcessList
from .._matrix import MatrixCell, PolicyMatrixData
from .._models import CommandResult, Decision, FileEntry, FileInfo, FileOutcome, ProcessInfo, Receipt
from .._reports import CodeResult
from .._search import SearchHit, SearchResult
from .._writing import EditResult
from .table import Cell, Row, Table, pairs
from .text import count, shortened, signal_name, size

_MOST_ROWS = 200
_MOST_LINES = 200
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
REASONS = {
    "endpoint_disabled": "switched off",
    "missing_scope": "this identity lacks the scope",
    "not_implemented": "not offered by this server",
    "unknown_endpoint": "not offered by this server",
}
VERDICTS = {"allowed": Cell("allowed", "good"), "limited": Cell("◐ limited"), "denied": Cell("denied", "bad")}
HOLDERS = {"api": "the server", "kernel": "the kernel"}


@singledispatch
def table_of(value: object) -> Table:
    """How a value is shown."""
    return Table(headline=Cell(repr(value)))


@table_of.register
def _receipt(value: Receipt) -> Table:
    facts = [("size", size(value.bytes))]
    facts += [("mode", value.mode)] if value.mode else []
    facts += [("SHA-256", value.sha256)] if value.sha256 else []
    if not value.files:
        return Table(pairs(facts), headline=Cell(value.path, "good"))
    wrong = sum(not one.ok for one in value.files)
    facts += [("files", str(len(value.files)))] + ([("failed", str(wrong))] if wrong else [])
    rows, notes = clipped([row for one in value.files for row in _outcome(one).rows], "file")
    return Table([*pairs(facts), *rows], headline=Cell(value.path, "bad" if wrong else "good"), notes=notes)


@table_of.register
def _outcome(value: FileOutcome) -> Table:
    if value.error is not None:
        row: Row = [Cell(value.source, "bad"), value.error.message]
    elif value.skipped:
        row = [Cell(value.source, "dim"), f"left out: {value.skipped}"]
    else:
        row = [Cell(value.source, "good"), value.target]
    return Table([row])


@table_of.register
def _entry(value: FileEntry) -> Table:
    return _files(FileList([value]))


@table_of.register
def _files(value: FileList) -> Table:
    whole: list[Row] = [[_name(one), size(one.size) if one.kind == "file" else "", one.mode] for one in value]
    rows, notes = clipped(whole, "entry", "entries")
    total = size(sum(one.size for one in value if one.kind == "file"))
    notes.append(f"{count(len(value), 'entry', 'entries')}, {total}" if value else "nothing there")
    return Table(rows, ("name", "size", "mode") if rows else (), frozenset({1}), notes=notes)


def _name(entry: FileEntry) -> str | Cell:
    if entry.is_dir:
        return Cell(entry.path + "/", "strong")
    return entry.path if entry.link_target is None else f"{entry.path} → {entry.link_target}"


@table_of.register
def _info(value: FileInfo) -> Table:
    facts = [("type", value.type)]
    facts += [("size", size(value.size))] if not value.is_dir else []
    facts += [("mode", value.permissions)] if value.permissions else []
    facts += [("link to", value.link_target)] if value.link_target else []
    return Table(pairs(facts), headline=Cell(value.path, "strong"))


@table_of.register
def _found(value: SearchResult) -> Table:
    rows, notes = clipped([_hit(one) for one in value], "hit")
    head = count(len(value), "hit") if value.complete else f"{count(len(value), 'hit')}, and there may be more"
    if left_out := [f"{number} {why}" for why, number in sorted(value.skipped.items()) if number]:
        notes.append("left out: " + ", ".join(left_out))
    return Table(rows, headline=Cell(head, "strong"), notes=notes)


@table_of.register
def _one_hit(value: SearchHit) -> Table:
    return Table([_hit(value)])


def _hit(hit: SearchHit) -> Row:
    where = hit.path if hit.line is None else f"{hit.path}:{hit.line}"
    return [where, Cell(shortened(hit.text, 160), "code")]


@table_of.register
def _result(value: CommandResult) -> Table:
    how = f"ended by {signal_name(value.signal)}" if value.signal else f"exit code {value.exit_code}"
    return ended(value, how)


def ended(value: CommandResult | CodeResult, how: str) -> Table:
    """What a command or a piece of code has written, below how it ended."""
    notes: list[str | Cell] = []
    for name, text in (("stdout", value.stdout), ("stderr", value.stderr)):
        notes += output(name, text)
    notes += ["the output is not complete"] if value.truncated else []
    return Table(headline=Cell(how, "good" if value.success else "bad"), notes=notes)


def output(name: str, text: str) -> list[str | Cell]:
    """One stream: what a terminal would be left with, without its colours; of a long one the end."""
    if not text:
        return []
    lines = [line.rstrip("\r").rpartition("\r")[2] for line in _ESCAPES.sub("", text).rstrip("\n").split("\n")]
    skipped = len(lines) - _MOST_LINES
    note = [f"{skipped:,} earlier lines of {name}: .{name} has them"] if skipped > 0 else []
    label: list[str | Cell] = ["stderr"] if name == "stderr" else []
    return [*label, *note, Cell("\n".join(lines[-_MOST_LINES:]), "block")]


@table_of.register
def _process(value: ProcessInfo) -> Table:
    return Table(pairs([("state", _state(value))]), headline=Cell(value.command, "strong"))


@table_of.register
def _processes(value: ProcessList) -> Table:
    rows, notes = clipped([[_sign(one), Cell(shortened(one.command, 100), "code")] for one in value], "process")
    return Table(rows, notes=notes if value else ["no background process"])


def _state(info: ProcessInfo) -> str:
    if info.running:
        return "running"
    return f"ended by {signal_name(info.signal)}" if info.signal else f"exit code {info.exit_code}"


def _sign(info: ProcessInfo) -> Cell:
    return Cell(_state(info), "" if info.running else "good" if info.exit_code == 0 else "bad")


@table_of.register
def _decision(value: Decision) -> Table:
    what = value.endpoint + (f' of "{value.path}"' if value.path else "")
    if value.allowed:
        return Table(headline=Cell(f"allowed: {what}", "good"))
    facts = [(name, text) for name in ("reason", "code", "rule") if (text := getattr(value, name))]
    return Table(pairs(facts), headline=Cell(f"denied: {what}", "bad"))


@table_of.register
def _error(value: SandboxError) -> Table:
    facts = [("hint", value.hint)] if value.hint else []
    return Table(pairs(facts), headline=Cell(value.message, "bad"))


@table_of.register
def _refusal(value: ServerAPIError) -> Table:
    facts = [(name, text) for name in ("code", "endpoint", "rule", "hint") if (text := getattr(value, name))]
    return Table(pairs(facts), headline=Cell(value.message, "bad"))


@table_of.register
def _capabilities(value: Snapshot) -> Table:
    allowed: list[Row] = [[Cell(i.id, "good"), i.summary] for i in value.endpoints.values() if i.allowed]
    denied = defaultdict[str, list[str]](list)
    for info in value.endpoints.values():
        if not info.allowed:
            denied[why_not(info)].append(info.id)
    observing = " (only observed)" if value.mode == "observe" else ""
    head = f'{len(allowed)} of {len(value.endpoints)} endpoints are allowed to "{value.identity_id}"{observing}'
    return Table(
        allowed,
        headline=Cell(head, "strong"),
        notes=[*(Cell(f"{why}: {', '.join(names)}", "bad") for why, names in sorted(denied.items()))],
    )


def why_not(info: EndpointInfo) -> str:
    """Why an endpoint is denied, and by which rule."""
    reason = REASONS.get(info.reason or "", info.reason or "")
    return reason + (f" by {info.rule}" if info.rule else "")


@table_of.register
def _endpoint(value: EndpointInfo) -> Table:
    facts = [("what it does", value.summary), ("group", value.group), ("scopes", ", ".join(value.scopes))]
    facts = [fact for fact in facts if fact[1]] + bounds(value)
    if value.allowed:
        return Table(pairs(facts), headline=Cell(f"{value.id} is allowed", "good"))
    return Table(pairs(facts), headline=Cell(f"{value.id} is denied: {why_not(value)}", "bad"))


def bounds(info: EndpointInfo) -> list[tuple[str, str]]:
    """What holds for a call that is allowed, in words."""
    facts = _reach(info.paths) if info.paths is not None else []
    return facts + amounts({**info.defaults, **info.limits}) + amounts(info.params)


@table_of.register
def _paths(value: PathsInfo) -> Table:
    return Table(pairs(_reach(value)))


def _reach(paths: PathsInfo) -> list[tuple[str, str]]:
    facts = [("paths", ", ".join(paths.roots) or "none")]
    facts += [("read only", "yes")] if paths.read_only else []
    facts += [("denied names", count(paths.deny_count, "pattern"))] if paths.deny_count else []
    return facts + [(f"{part} is enforced by", HOLDERS[level]) for part, level in paths.enforcement.items()]


def amounts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Limits and parameters, in words."""
    return [(name.replace("_", " "), _amount(name, value)) for name, value in values.items()]


def _amount(name: str, value: object) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        return size(value)
    return ", ".join(map(str, value)) or "none" if isinstance(value, (list, tuple)) else str(value)


@table_of.register
def _edited(value: EditResult) -> Table:
    what = "unchanged" if not value.changed else "would be changed" if value.dry_run else "changed"
    notes: list[str | Cell] = [Cell(value.diff.rstrip("\n"), "block")] if value.diff else []
    notes += ["the diff is cut"] if value.diff_truncated else []
    return Table(headline=Cell(f"{value.path}: {what}", "good" if value.changed else ""), notes=notes)


@table_of.register
def _unpacked(value: Unpacked) -> Table:
    parts = [count(value.files, "file"), count(value.directories, "directory", "directories")]
    parts += [count(value.links, "link")] if value.links else []
    return Table(pairs([("size", size(value.bytes))]), headline=Cell(f"{value.path}: {', '.join(parts)}", "good"))


@table_of.register
def _matrix_cell(value: MatrixCell) -> Table:
    facts = [("reason", value.reason or ""), ("code", value.code or ""), ("rule", value.rule or "")]
    return Table(
        pairs([fact for fact in facts if fact[1]] + cell_bounds(value)),
        headline=Cell(f"{value.endpoint}: {VERDICTS[value.verdict].text}", VERDICTS[value.verdict].tone),
    )


def cell_bounds(cell: MatrixCell) -> list[tuple[str, str]]:
    """Within which bounds a call is allowed, in words."""
    facts = [("paths", ", ".join(cell.roots))] if cell.roots else []
    facts += [("and within", ", ".join(directories) or "none") for directories in cell.within]
    facts += [("read only", "yes")] if cell.read_only else []
    facts += [("denied names", ", ".join(cell.deny))] if cell.deny else []
    facts += [("enforced by", HOLDERS[cell.enforcement])] if cell.enforcement else []
    facts += amounts(cell.limits) + amounts(cell.params)
    return facts + [(one.path or "", "allowed" if one.allowed else f"denied: {one.reason}") for one in cell.asked]


@table_of.register
def _matrix(value: PolicyMatrixData) -> Table:
    rows: list[Row] = [[row.endpoint, *(VERDICTS[cell.verdict] for cell in row.cells)] for row in value.rows]
    return Table(rows, ("endpoint", *(column.title for column in value.columns)))


def clipped(rows: Iterable[Row], noun: str, plural: str = "") -> tuple[Sequence[Row], list[str | Cell]]:
    """The first rows, and how many more there are."""
    shown = list(rows)
    more = len(shown) - _MOST_ROWS
    return shown[:_MOST_ROWS], [f"and {count(more, noun, plural)} more"] if more > 0 else []
