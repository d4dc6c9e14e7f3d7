"""The tables of what the server says about its machine, its commands, repositories, terminals, code and browser."""

from __future__ import annotations

from typing import Any

from .._browser_calls import BrowserContent, BrowserPage, ConsoleList, ConsoleLog
from .._changes import FileChange
from .._code_models import ContextInfo, ContextList, ErrorInfo
from .._pty_models import TerminalInfo, TerminalList
from .._reports import (
    CodeResult,
    CommandArgument,
    CommandInfo,
    CommandList,
    GitDiff,
    GitFile,
    GitStatus,
    ListeningPort,
    Package,
    PackageList,
    PortList,
    SystemInfo,
    SystemMetrics,
)
from .forms import clipped, ended, output, table_of
from .table import Cell, Row, Table, Tone, pairs
from .text import count, shortened, signal_name

__all__ = ["table_of"]

_LONGEST = 300
_MOST_LINES = 200


@table_of.register
def _code(value: CodeResult) -> Table:
    return ended(value, f"{value.language}: exit code {value.exit_code}")


@table_of.register
def _status(value: GitStatus) -> Table:
    rows, notes = clipped([_changed(file) for file in value.files], "file")
    changed = count(len(value.files), "changed file")
    head = f"{value.branch}: " + ("nothing has changed" if value.clean else changed)
    return Table(rows, headline=Cell(head, "good" if value.clean else "strong"), notes=notes)


@table_of.register
def _file(value: GitFile) -> Table:
    return Table([_changed(value)])


def _changed(file: GitFile) -> Row:
    return [f"{file.old_path} → {file.path}" if file.old_path else file.path, file.status]


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
def _package(value: Package) -> Table:
    return _packages(PackageList([value]))


@table_of.register
def _packages(value: PackageList) -> Table:
    rows, notes = clipped([[one.name, one.version] for one in value], "package")
    return Table(rows, notes=[*notes, count(len(value), "package")] if value else ["no package"])


@table_of.register
def _port(value: ListeningPort) -> Table:
    return _ports(PortList([value]))


@table_of.register
def _ports(value: PortList) -> Table:
    """Whose they are is told by a process id, so the attribute has it."""
    rows, notes = clipped([[str(one.port), one.protocol, one.address] for one in value], "port")
    if not value:
        return Table(notes=["nothing listens"])
    return Table(rows, ("port", "protocol", "address"), frozenset({0}), notes=notes)


@table_of.register
def _argument(value: CommandArgument) -> Table:
    return Table([_wanted(value)])


def _wanted(one: CommandArgument) -> Row:
    return [one.name, one.type if one.required else f"{one.type} = {one.default}", one.description]


@table_of.register
def _command(value: CommandInfo) -> Table:
    rows, notes = clipped([_wanted(one) for one in value.args], "argument")
    notes += [value.description] if value.description else []
    return Table(rows, headline=Cell(value.name, "strong"), notes=notes)


@table_of.register
def _commands(value: CommandList) -> Table:
    whole: list[Row] = [[Cell(one.name, "strong"), _call(one), shortened(one.description, _LONGEST)] for one in value]
    rows, notes = clipped(whole, "command")
    return Table(rows, ("name", "arguments", "what it does") if rows else (), notes=notes if value else ["no command"])


def _call(command: CommandInfo) -> Cell:
    wanted = [one.name if one.required else f"{one.name}={one.default}" for one in command.args]
    return Cell(shortened(", ".join(wanted), _LONGEST), "code")


@table_of.register
def _terminal(value: TerminalInfo) -> Table:
    return Table(pairs([("state", _state(value)), ("size", _size(value))]), headline=Cell("terminal", "strong"))


@table_of.register
def _terminals(value: TerminalList) -> Table:
    rows, notes = clipped([[_state(one), _size(one)] for one in value], "terminal")
    return Table(rows, ("state", "size") if rows else (), notes=notes if value else ["no open terminal"])


def _state(terminal: TerminalInfo) -> str:
    if terminal.alive:
        return "open"
    return f"ended by {signal_name(terminal.signal)}" if terminal.signal else f"exit code {terminal.exit_code}"


def _size(terminal: TerminalInfo) -> str:
    return f"{terminal.cols} × {terminal.rows}"


@table_of.register
def _context(value: ContextInfo) -> Table:
    facts = [("state", value.state), ("runs", str(value.execution_count))]
    return Table(
        pairs(facts), headline=Cell(f"{value.language} context" + (f" {value.name}" if value.name else ""), "strong")
    )


@table_of.register(ContextList)
def _contexts(value: ContextList[Any]) -> Table:
    whole: list[Row] = [
        [info.name, info.language, info.state, str(info.execution_count)] for info in (one.info for one in value)
    ]
    rows, notes = clipped(whole, "context")
    if not value:
        return Table(notes=["no open context"])
    return Table(rows, ("name", "language", "state", "runs"), frozenset({3}), notes=notes)


@table_of.register
def _exception(value: ErrorInfo) -> Table:
    head = f"{value.name}: {value.value}" if value.value else value.name
    return Table(headline=Cell(shortened(head, _LONGEST), "bad"), notes=output("traceback", "\n".join(value.traceback)))


@table_of.register
def _change(value: FileChange) -> Table:
    end = "/" if value.is_dir else ""
    where = f"{value.old_path}{end} → {value.path}{end}" if value.old_path else value.path + end
    return Table([[Cell(value.type, "bad" if value.type == "overflow" else "strong"), where]])


@table_of.register
def _page(value: BrowserPage) -> Table:
    tone: Tone = "bad" if value.status >= 400 else "good" if value.status else "strong"
    facts = [("URL", shortened(value.url, _LONGEST)), ("status", str(value.status) if value.status else "no answer")]
    return Table(pairs(facts), headline=Cell(shortened(value.title or "a page without a title", _LONGEST), tone))


@table_of.register
def _content(value: BrowserContent) -> Table:
    """Of a long page the beginning."""
    lines = value.content.rstrip("\n").split("\n")
    more = len(lines) - _MOST_LINES
    shown = "\n".join(shortened(line.rstrip("\r"), _LONGEST) for line in lines[:_MOST_LINES])
    notes: list[str | Cell] = [Cell(shown, "block")] if value.content else ["nothing in it"]
    notes += [f"{more:,} more lines: .content has them"] if more > 0 else []
    title = shortened(value.title or "a page without a title", _LONGEST)
    return Table(pairs([("URL", shortened(value.url, _LONGEST))]), headline=Cell(title, "strong"), notes=notes)


@table_of.register
def _message(value: ConsoleLog) -> Table:
    return _console(ConsoleList([value]))


@table_of.register
def _console(value: ConsoleList) -> Table:
    whole: list[Row] = [
        [Cell(one.type, "bad" if one.type == "error" else "dim"), Cell(shortened(one.text, _LONGEST), "code")]
        for one in value
    ]
    rows, notes = clipped(whole, "message")
    return Table(rows, notes=notes if value else ["no message"])
