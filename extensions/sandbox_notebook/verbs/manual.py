"""``help``: the table of subcommands, or one of them in full; from the declarations alone."""

from __future__ import annotations

from ..grammar import Command, Mistake, nearest
from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table, as_text
from ..results import Shown
from ..vocabulary import commands


def help_on(call: Invocation) -> Outcome:
    name = call.parsed.text("command")
    known = commands()
    if name and name not in known:
        near = nearest(name, known)
        raise Mistake(f'"{name}" is no subcommand', f"%sandbox help {near}" if near else "%sandbox help")
    shown = Shown(manual(known[name]) if name else summary())
    return Outcome(shown, shown)


def summary() -> Table:
    rows: list[Row] = [[Cell(c.name, "strong"), c.summary, Cell(c.example, "code")] for c in commands().values()]
    return Table(
        rows, ("subcommand", "what it does", "example"),
        headline=Cell("%sandbox: drive a sandbox from here"),
        notes=["%sandbox help run tells all about one of them. %%sandbox run heads a cell that runs in the sandbox."],
    )  # fmt: skip


def manual(command: Command) -> Table:
    rows: list[Row] = [
        [Cell(argument.usage, "code"), argument.help + _choices(argument.choices)] for argument in command.arguments
    ]
    for option in command.options:
        names = f"{option.short}, {option.usage}" if option.short else option.usage
        repeated = " (may be repeated)" if option.many else ""
        rows.append([Cell(names, "code"), option.help + _choices(option.choices) + repeated])
    head = f"%{'%' if command.cell else ''}sandbox {command.name}"
    notes = [note for note in (command.details, f"example: {command.example}") if note]
    return Table(rows, headline=Cell(f"{head}: {command.summary}"), notes=notes)


def _choices(choices: tuple[str, ...]) -> str:
    return f" ({', '.join(choices)})" if choices else ""


def docstring() -> str:
    """What ``%sandbox?`` shows."""
    return as_text(summary())
