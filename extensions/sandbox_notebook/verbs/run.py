"""``run``: a command, or the body of a cell, in the sandbox."""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import Stopped
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..programs import program
from ..results import Notice
from ..session import Entry
from ..text import signal_name
from .processes import key

if TYPE_CHECKING:
    from sandbox_sdk import CommandResult

# Only a shell knows these; as plain arguments they would do something else than their author thinks.
_OPERATOR = re.compile(r"\|\|?|&&?|;|\d?[<>]{1,2}(&\d)?|\d?[<>]{1,2}[^<>&=(].*|.*;")
# How libraries and tools put it that there is no network, in the last line that they write.
_NO_NETWORK = re.compile("name resolution|resolve host|[Nn]etwork is unreachable|[Nn]ame or service not known")
_FOREVER = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be run: the command, its standard input, what to call it, and where."""

    command: list[str]
    stdin: str | None
    title: str
    cwd: str | None
    env: dict[str, str] | None
    globs: tuple[str, ...] = ()


def run(call: Invocation) -> Outcome:
    work = _work(call)
    files = {name: _content(call, name, variable) for name, variable in call.parsed.pairs("file").items()}
    variable = call.parsed.text("out")
    if variable and not variable.isidentifier():
        raise Mistake(f'"{variable}" is no name for a variable', "%sandbox run --out result …")
    if call.parsed.flag("stdin") and not (call.parsed.flag("bg") and call.parsed.rest):
        raise Mistake("--stdin goes with --bg and a command", "%sandbox run --bg --stdin python3 -i")
    entry = call.entry()
    for name, content in files.items():
        entry.sandbox.files.write(posixpath.join(work.cwd or "", name), content)
    if call.parsed.flag("bg"):
        return _background(call, entry, work, variable)
    result = _foreground(call, entry, work)
    if variable:
        call.namespace[variable] = result
    if not result.success and not call.parsed.flag("ok"):
        raise Mistake(f"{work.title} {_ending(result)}", _advice(work, result, entry))
    return Outcome(result)


def _work(call: Invocation) -> Work:
    words = call.parsed.rest
    texts = [word.text for word in words]
    body = call.body
    cwd = call.parsed.text("cwd") or None
    env = call.parsed.pairs("env") or None
    if texts:
        if not call.parsed.verbatim:
            for word in words:
                if not word.quoted and _OPERATOR.fullmatch(word.text):
                    raise Mistake(
                        f'no shell reads this line, so "{word.text}" would be a plain argument',
                        "use %%sandbox run --lang bash, or %sandbox run -- … to pass it on as it is",
                    )
        globs = tuple(word.text for word in words if not word.quoted and re.search(r"[*?]", word.text))
        return Work(texts, body, posixpath.basename(texts[0]), cwd, env, globs)
    if body is None:
        raise Mistake("command is missing", call.parsed.command.example)
    if not body.strip():
        raise Mistake("the cell has no body", "%%sandbox run --lang python, and the program below it")
    language = call.parsed.text("lang", "python")
    return Work(program(language), body, f"{language} cell", cwd, env)


def _content(call: Invocation, name: str, variable: str) -> str | bytes:
    if variable not in call.namespace:
        raise Mistake(f'there is no variable "{variable}" to write to "{name}"', f"{variable} = …, then this again")
    value = call.namespace[variable]
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if name.endswith(".csv") and hasattr(value, "to_csv"):
        return str(value.to_csv(index=False))
    if name.endswith(".json") and isinstance(value, (dict, list)):
        return json.dumps(value)
    raise Mistake(
        f'"{variable}" is of type {type(value).__name__}, and "{name}" takes text or bytes',
        "a list or dict can become a .json file, a data frame a .csv file",
    )


def _foreground(call: Invocation, entry: Entry, work: Work) -> CommandResult:
    quiet = call.parsed.flag("quiet")
    out, err = call.live(call.front.out), call.live(call.front.err)
    try:
        return entry.sandbox.run(
            work.command,
            cwd=work.cwd,
            env=work.env,
            timeout=call.parsed.number("timeout") or call.settings.timeout or _FOREVER,
            stdin=work.stdin if work.stdin is not None else "",
            on_stdout=None if quiet else out.feed,
            on_stderr=None if quiet else err.feed,
        )
    except KeyboardInterrupt:
        call.front.err.write(f'stopped {work.title} in sandbox "{entry.name}"\n')
        raise Stopped(f"{work.title} was stopped") from None
    finally:
        out.close()
        err.close()


def _background(call: Invocation, entry: Entry, work: Work, variable: str) -> Outcome:
    more = call.parsed.flag("stdin")
    process = entry.sandbox.process.start(
        work.command,
        cwd=work.cwd,
        env=work.env,
        stdin=work.stdin is not None or more,
    )
    if work.stdin is not None:
        process.stdin.write(work.stdin)
        if not more:
            process.stdin.close()
    number = entry.number(key(process.info))
    if work.stdin is not None:
        entry.titles[key(process.info)] = work.title
    if variable:
        call.namespace[variable] = process
    if call.front.views is not None:
        call.front.views.process(process, title=f"{number} · {work.title}", takes_input=more)
        return Outcome(process)
    message = f"{work.title} runs in the background as {number}"
    return Outcome(
        process, Notice(message, ("output", f"%sandbox logs -f {number}"), ("end it", f"%sandbox kill {number}"))
    )


def _ending(result: CommandResult) -> str:
    return f"was ended by {signal_name(result.signal)}" if result.signal else f"ended with exit code {result.exit_code}"


def _advice(work: Work, result: CommandResult, entry: Entry) -> str:
    last = result.stderr.rstrip().rpartition("\n")[2]
    if last.startswith("EOFError"):
        return "nobody can type into a running cell: %%sandbox run COMMAND gives it the body below as input"
    if entry.sandbox.network != "shared" and _NO_NETWORK.search(last):
        return f'sandbox "{entry.name}" has no network; %sandbox start --network --name NAME makes one that has'
    if work.globs:
        return f'no shell expanded "{work.globs[0]}": %%sandbox run --lang bash does'
    return "--ok if that is no error; --out VAR keeps the result"
