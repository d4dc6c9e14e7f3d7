"""``nbsandbox``: the words of ``%sandbox`` in a terminal. Needs no IPython.

Between two calls only kept sandboxes go on, so those are the ones that it knows. Exit codes: 0, 1 for a failure or a
"no", 2 for a line that cannot be read, and of ``run`` the command's own.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from .args import Word, quote
from .config import Settings
from .dispatch import perform, read
from .errors import SandboxMagicError, explained
from .grammar import Mistake, Parsed
from .invocation import Front, Invocation, Outcome
from .results import Answer, Rows
from .session import Entry, Session

PROGRAM = "nbsandbox"
VARIABLE = "NBSANDBOX"
_ALL_LINES = 1 << 40
_FOUND, _WRONG, _USAGE, _INTERRUPTED = 0, 1, 2, 130
_OPTIONS = ("--url", "--uds", "--token-env")
_STARTED = f"{PROGRAM} start --keep --name NAME"


class Kept(Session):
    """The sandboxes that outlive a command. The current one is that of NBSANDBOX, or the only one."""

    def find(self, name: str, namespace: Mapping[str, object]) -> Entry:
        return super().find(name or self.current or self._only(), namespace)

    def all(self) -> None:
        """Know every one of them."""
        for name in self._names():
            self.find(name, {})

    def _only(self) -> str:
        if chosen := os.environ.get(VARIABLE):
            return chosen
        names = self._names()
        if not names:
            raise Mistake("no sandbox is kept", _STARTED)
        if len(names) > 1:
            raise Mistake(
                f"several sandboxes are kept: {', '.join(names)}", f"--in {names[0]}, or export {VARIABLE}={names[0]}"
            )
        return names[0]

    def _names(self) -> list[str]:
        from sandbox_sdk import Sandbox

        return [one.name for one in Sandbox.list_local() if one.kept and one.running]


def main(argv: Sequence[str] | None = None) -> int:
    """Do what the arguments say; answers the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except KeyboardInterrupt as error:
        _complain(str(error) or "stopped")
        return _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains at its end
        return _WRONG
    except Exception as error:
        shown = error if isinstance(error, SandboxMagicError) else explained(error, PROGRAM, arguments)
        if shown is None:
            raise
        _complain(*shown._render_traceback_())
        return _WRONG


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        from sandbox_sdk import __version__

        print(f"{PROGRAM} {__version__}")
        return _FOUND
    try:
        server, arguments = _server(arguments)
        parsed, as_json = _read(arguments)
        if as_json and parsed.text("local") == "-":
            raise Mistake("--json and - both write to standard output", f"{PROGRAM} {parsed.line}, without --json")
    except Mistake as error:
        _complain(*SandboxMagicError(error.message, error.hint, line=error.line, column=error.column,
                                     magic=PROGRAM)._render_traceback_())  # fmt: skip
        return _USAGE
    session = Kept(label=PROGRAM)
    if server:
        from .connected import Connected

        token = os.environ.get(server.get("--token-env", "ABX_SERVER_TOKEN"))
        session.add(Entry("server", Connected.to("server", server.get("--url"), server.get("--uds"), token)))
    call = Invocation(parsed, session, _settings(), _front(), {}, _body(parsed), _unchangeable)
    if parsed.flag("fill"):
        raise Mistake(
            "a terminal has no variables to fill in", f'{PROGRAM} {parsed.command.name} "$name", as its shell does'
        )
    special = _SPECIAL.get(parsed.command.name)
    if special is not None and (code := special(call)) is not None:
        return code
    outcome = perform(call)
    if as_json:
        print(json.dumps(_plain(outcome), indent=2, default=_json))
    elif outcome.shown is not None:
        shown = outcome.shown.words()
        print(shown if outcome.shown.quotes else _spoken(shown))
    return _code(parsed, outcome.value)


def _server(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """What stands before the subcommand: a server that is there already."""
    server: dict[str, str] = {}
    while arguments and arguments[0].partition("=")[0] in _OPTIONS:
        name, equals, value = arguments[0].partition("=")
        if not equals and len(arguments) < 2:
            raise Mistake(f'option "{name}" needs a value', f"{PROGRAM} --url https://sandbox.example:9000 ls")
        server[name], arguments = (value, arguments[1:]) if equals else (arguments[1], arguments[2:])
    if server and ("--url" in server) == ("--uds" in server):
        raise Mistake("give a URL or a socket", f"{PROGRAM} --url https://sandbox.example:9000 ls")
    return server, arguments


def _read(arguments: list[str]) -> tuple[Parsed, bool]:
    as_json = arguments[:1] == ["--json"]
    arguments = arguments[1:] if as_json else arguments
    words, line = [], ""
    for argument in arguments:
        start = len(line)
        line += quote(argument) + " "
        option = argument.startswith("-") and argument != "-"
        words.append(Word(argument, start, len(line) - 1, quoted=not option))
    if words and words[0].text in ("--help", "-h"):
        words = []
    for index, word in enumerate(words):
        if word.text == "--" or words[0].text in ("run", "code"):
            break
        if word.text == "--json":
            as_json = True
            del words[index]
            break
    return read(line.strip(), words=words), as_json


def _settings() -> Settings:
    return Settings(ui="text", max_lines=_ALL_LINES)


def _front() -> Front:
    stdin, stdout = (getattr(stream, "buffer", None) for stream in (sys.stdin, sys.stdout))
    terminal = sys.stdout.isatty()
    return Front(sys.stdout, sys.stderr, terminal, quiet=not terminal, stdin=stdin, stdout=stdout)


def _body(parsed: Parsed) -> str | None:
    """What a cell would hold, from standard input."""
    name, values = parsed.command.name, parsed.values
    wanted = {"run": True, "code": not parsed.rest, "edit": "new" not in values,
              "stdin": "text" not in values and "eof" not in values}.get(name, False)  # fmt: skip
    if name == "code" and parsed.rest:
        return " ".join(word.text for word in parsed.rest)
    if not wanted or not _is_fed():
        return None
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError:
        raise Mistake("standard input is no text (UTF-8)", "%sandbox upload brings files of any kind") from None


def _is_fed() -> bool:
    """Does standard input come from a file or another program?"""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _unchangeable(name: str, value: object) -> None:
    raise Mistake("settings are of a kernel", "%config SandboxMagics, in a notebook")


def _started(call: Invocation) -> int | None:
    if not call.parsed.flag("keep"):
        raise Mistake("a sandbox that is not kept would end with this command", _STARTED)
    return None


def _used(call: Invocation) -> int:
    name = call.named(call.parsed.text("name")).name
    print(f"export {VARIABLE}={name}")
    return _FOUND


def _all_known(call: Invocation) -> None:
    if call.parsed.command.name == "list" or call.parsed.flag("all"):
        assert isinstance(call.session, Kept)
        call.session.all()


def _ran(call: Invocation) -> None:
    call.parsed.values["ok"] = True  # its exit code is ours


def _code_given(call: Invocation) -> None:
    if call.parsed.many("push") or call.parsed.many("pull"):
        raise Mistake("a terminal has no variables to take along", f"{PROGRAM} upload and download move files")
    call.parsed.rest.clear()  # it is the body


def _connected(call: Invocation) -> int:
    raise Mistake("a connection does not last from one command to the next", f"{PROGRAM} --url URL, then what to do")


def _uploaded(call: Invocation) -> None:
    if not call.parsed.many("path") or call.parsed.flag("pick"):
        raise Mistake("a terminal has no picker: name the files", call.parsed.command.example)


def _term(call: Invocation) -> int:
    from .tty import attach

    return attach(call)


_SPECIAL: dict[str, Callable[[Invocation], int | None]] = {
    "start": _started, "use": _used, "list": _all_known, "stop": _all_known, "run": _ran, "code": _code_given,
    "connect": _connected, "term": _term, "upload": _uploaded,
}  # fmt: skip


def _code(parsed: Parsed, value: object) -> int:
    name = parsed.command.name
    if name == "run":
        code = getattr(value, "exit_code", 0)
        return (128 - code if code < 0 else code) if isinstance(code, int) else _FOUND
    if isinstance(value, Answer):
        return _FOUND if value else _WRONG
    if name in ("find", "grep"):
        return _FOUND if value else _WRONG
    return _WRONG if name == "policy" and isinstance(value, Rows) and len(value) else _FOUND


def _plain(outcome: Outcome) -> object:
    """What an outcome comes to, as JSON has it."""
    value = outcome.value
    if isinstance(value, Rows):
        return value.records()
    if isinstance(value, Answer):
        value = value.decision
    if hasattr(value, "as_dict"):
        return value.as_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return value.info() if hasattr(value, "info") and callable(value.info) else value


def _json(value: object) -> object:
    """Times as everybody writes them; what JSON has no form for, as text."""
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _spoken(text: str) -> str:
    """Hints are written for a notebook; here the same words stand behind another name, and give no variable a value."""
    return re.sub(r"(?:\b\w+ = )?%%?sandbox\b", PROGRAM, text)


def _complain(*lines: Any) -> None:
    for line in lines:
        text = _spoken(str(line))
        if not sys.stderr.isatty():
            text = re.sub(r"\x1b\[\d*m", "", text)
        print(text, file=sys.stderr)


if __name__ == "__main__":
    raise SystemExit(main())
