"""The page of all subcommands of ``%sandbox`` and ``nbsandbox``, from their declarations."""

from __future__ import annotations

from sandbox_notebook.grammar import Command
from sandbox_notebook.vocabulary import commands

_HEAD = """\
# Subcommands

`%sandbox` heads a line, `%%sandbox` a cell whose body goes along, and `nbsandbox` says the same in a terminal, where
the body comes from standard input. `%sandbox help NAME` and `nbsandbox NAME --help` show what stands here.

In a terminal only kept sandboxes go on from one command to the next (`nbsandbox start --keep --name work`). The one
that is meant is the only one, or that of the variable `NBSANDBOX`, or that of `--in NAME`. `nbsandbox --url URL …`
(or `--uds PATH`, with `--token-env VAR`) talks to a server that is there already. `--json` prints lists as JSON. Exit
codes: 0; 1 for a failure, a refusal, or nothing found; 2 for a line that cannot be read; of `run`, the command's own.
"""


def page(mark: str) -> str:
    known = commands().values()
    lines = [f"<!-- {mark} -->", _HEAD, "| subcommand | what it does | example |", "| --- | --- | --- |"]
    lines += [_row(f"[{c.name}](#{c.name})", c.summary, f"`{c.example}`") for c in known]
    for command in known:
        lines += ["", *_section(command)]
    return "\n".join(lines) + "\n"


def _section(command: Command) -> list[str]:
    cell = " Also as a cell, `%%sandbox`." if command.cell else ""
    lines = [f"## {command.name}", "", f"{_sentence(command.summary)}{cell}", "", f"`{command.example}`"]
    rows = [(one.usage, _text(one.help, one.choices)) for one in command.arguments]
    for option in command.options:
        names = f"{option.short}, {option.usage}" if option.short else option.usage
        repeated = " May be repeated." if option.many else ""
        rows.append((names, _text(option.help, option.choices) + repeated))
    if rows:
        lines += ["", "| | |", "| --- | --- |", *(_row(f"`{name}`", text) for name, text in rows)]
    if command.details:
        lines += ["", command.details]
    return lines


def _text(help: str, choices: tuple[str, ...]) -> str:
    return _sentence(help) + (f" One of {', '.join(f'`{choice}`' for choice in choices)}." if choices else "")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:].rstrip(".") + "."


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
