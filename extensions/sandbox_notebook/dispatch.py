"""From a line to the function that does it. A console script can stand on this as the magics do."""

from __future__ import annotations

import importlib
from collections.abc import Callable, MutableMapping

from .args import Word
from .config import Settings
from .fill import filled
from .grammar import Command, Mistake, Parsed, nearest, parse, words_of
from .invocation import Front, Invocation, Outcome
from .progress import Line, Status, Waiting
from .session import Session
from .vocabulary import LANGUAGES, commands

# Where each subcommand is done; its module is imported when it is first used.
_VERBS = {
    "start": "lifecycle.start", "connect": "connecting.connect", "stop": "lifecycle.stop", "use": "lifecycle.use",
    "list": "lifecycle.overview", "info": "lifecycle.info", "upload": "upload.upload", "download": "download.download",
    "archive": "archives.archive", "unpack": "archives.unpack", "ls": "listing.ls", "tree": "trees.tree",
    "cat": "reading.cat", "head": "reading.head", "find": "searching.find", "grep": "searching.grep",
    "watch": "watching.watch", "browse": "live.browse", "edit": "editing.edit", "rm": "arranging.rm",
    "mv": "arranging.mv", "mkdir": "arranging.mkdir", "run": "run.run", "code": "code.code", "ps": "processes.ps",
    "logs": "processes.logs", "attach": "processes.attach", "stdin": "processes.stdin", "kill": "processes.kill",
    "term": "live.term", "caps": "rules.caps", "check": "rules.check", "explain": "rules.explain",
    "policy": "policies.policy", "audit": "auditing.audit", "config": "settings.config", "help": "manual.help_on",
}  # fmt: skip
# Those that write, measure or ask before they are done. Whoever waits for another sees nothing meanwhile.
_SPEAKING = {
    "upload", "download", "archive", "unpack", "cat", "head", "watch", "browse", "run", "code", "logs", "attach",
    "stdin", "term", "audit",
}  # fmt: skip


def dispatch(
    line: str,
    body: str | None,
    *,
    session: Session,
    settings: Settings,
    front: Front,
    namespace: MutableMapping[str, object],
    change: Callable[[str, object], None],
) -> Outcome:
    return perform(Invocation(read(line, body is not None), session, settings, front, namespace, body, change))


def perform(call: Invocation) -> Outcome:
    """Do what has been read."""
    if call.parsed.flag("fill"):
        call = filled(call)
    module, _, function = _VERBS[call.parsed.command.name].partition(".")
    verb: Callable[[Invocation], Outcome] = getattr(importlib.import_module(f".verbs.{module}", __package__), function)
    with Waiting(_status(call), call.parsed.command.name):
        outcome = verb(call)
    if outcome.shown is not None:
        outcome.shown.terminal = call.front.terminal
    return outcome


def _status(call: Invocation) -> Status | None:
    front = call.front
    if front.quiet or call.settings.ui == "html" or call.parsed.command.name in _SPEAKING:
        return None
    return Line(front.out) if front.terminal else front.status


def read(line: str, cell: bool = False, words: list[Word] | None = None) -> Parsed:
    """The subcommand and its values; no subcommand, or ``--help`` after one, means help.

    ``words`` are those of the line, where somebody else has split it.
    """
    words = words_of(line) if words is None else words
    known = commands()
    if not words:
        if cell:
            raise Mistake("a cell needs a subcommand", "%%sandbox run --lang python")
        return Parsed(known["help"], line)
    command = known.get(words[0].text)
    if command is None:
        raise _unknown(line, words[0], known, cell)
    if _asks_for_help(command, words[1:]):
        return Parsed(known["help"], line, {"command": command.name})
    if cell and not command.cell:
        raise Mistake(f'"{command.name}" takes no cell', f"%sandbox {line}, on a line of its own")
    return parse(command, line, words[1:])


def _asks_for_help(command: Command, words: list[Word]) -> bool:
    for word in words:
        if word.text == "--" or (command.verbatim and not word.text.startswith("-")):
            return False
        if word.text in ("--help", "-h"):
            return True
    return False


def _unknown(line: str, word: Word, known: dict[str, Command], cell: bool) -> Mistake:
    if word.text in ("--help", "-h"):
        return Mistake("help is a subcommand", "%sandbox help")
    if word.text.startswith("-"):
        knowing = [command for command in known.values() if command.option(word.text.partition("=")[0])]
        if knowing:
            named = next((other for other in words_of(line) if other.text in known), None)
            name = named.text if named is not None else "run" if cell else knowing[0].name
            rest = line if named is None else f"{line[: named.start]}{line[named.end :].lstrip()}"
            hint = f"%{'%' * cell}sandbox {name} {rest.strip()}"
            return Mistake(f'option "{word.text}" comes after a subcommand', hint)
    cells = [command.name for command in known.values() if command.cell]
    near = (nearest(word.text, cells) if cell else "") or nearest(word.text, known)
    if cell and word.text in LANGUAGES:
        hint = f"%%sandbox run --lang {word.text}"
    elif near:
        hint = f"did you mean %sandbox {near}?"
    else:
        program = not cell and not word.text.startswith("-")
        hint = "%sandbox help" + program * f"; a program runs by %sandbox run {line[word.start :]}"
    return Mistake(f'"{word.text}" is no subcommand', hint, line=line, column=word.start)
