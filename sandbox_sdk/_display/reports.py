"""The tables of what the server says about its machine, its commands, repositories, terminals and code."""

from __future__ import annotations

from .._code_models import ContextInfo
from .._pty_models import TerminalInfo
from .._reports import CodeResult, CommandInfo, GitDiff, GitStatus, SystemInfo, SystemMetrics
from .forms import ended, table_of
from .table import Cell, Row, Table, pairs
from .text import count, signal_name

__all__ = ["table_of"]


@table_of.register
def _code(value: CodeResult) -> Table:
    return ended(value, f"{value.language}: exit code {value.exit_code}")


@table_of.register
def _status(value: GitStatus) -> Table:
    rows: list[Row] = [
        [f"{file.old_path} → {file.path}" if file.old_path else file.path, file.status] for file in value.files
    ]
    head = f"{value.branch}: " + ("nothing has changed" if value.clean else f"{count(len(rows), 'changed file')}")
    return Table(rows, headline=Cell(head, "good" if value.clean else "strong"))


@table_of.register
def _diff(value: GitDiff) -> Table:
    added = count(value.insertions, "line")
    head = f"{count(value.files_changed, 'file')} changed, {added} added, {value.deletions} removed"
    return Table(headline=Cell(head, "strong"), notes=[Cell(value.diff.rstrip("\n"), "block")] if value.diff else [])


@table_of.register
def _machine(value: SystemInfo) -> Table:
    processors = str(value.cpu_count) + (f", of which {value.cpu_limit:g} may be used" if value.cpu_limit else "")
    facts = [("processors", processors), ("memory", f"{value.memory_total_mb:,} MiB")]
    facts += [("disk", f"{value.disk_total_gb:g} GiB"), ("Python", value.python_version)]
    return Table(pairs(facts), headline=Cell(f"{value.os} {value.arch}", "strong"))


@table_of.register
def _load(value: SystemMetrics) -> Table:
    """Measured, so it is another one each time."""
    memory = f"{value.memory_used_mb:,} of {value.memory_total_mb:,} MiB ({value.memory_percent:.0f} %)"
    disk = f"{value.disk_used_gb:g} of {value.disk_total_gb:g} GiB ({value.disk_percent:.0f} %)"
    load = f"{value.cpu_load_1m:.2f} {value.cpu_load_5m:.2f} {value.cpu_load_15m:.2f}"
    return Table(pairs([("load", load), ("memory", memory), ("disk", disk)]))


@table_of.register
def _command(value: CommandInfo) -> Table:
    rows: list[Row] = [
        [one.name, one.type if one.required else f"{one.type} = {one.default}", one.description] for one in value.args
    ]
    return Table(rows, headline=Cell(value.name, "strong"), notes=[value.description] if value.description else [])


@table_of.register
def _terminal(value: TerminalInfo) -> Table:
    how = f"ended by {signal_name(value.signal)}" if value.signal else f"exit code {value.exit_code}"
    facts = [("state", "open" if value.alive else how), ("size", f"{value.cols} × {value.rows}")]
    return Table(pairs(facts), headline=Cell("terminal", "strong"))


@table_of.register
def _context(value: ContextInfo) -> Table:
    facts = [("state", value.state), ("runs", str(value.execution_count))]
    return Table(
        pairs(facts), headline=Cell(f"{value.language} context" + (f" {value.name}" if value.name else ""), "strong")
    )
