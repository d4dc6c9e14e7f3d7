"""``code``: Python in the sandbox that keeps its variables from cell to cell."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from ..errors import Stopped
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..results import Notice
from ..session import Entry
from .carrying import pull, push

if TYPE_CHECKING:
    from sandbox_sdk import CodeContext, Execution, Result

_PLACE = re.compile(r'\s*File "<cell (\d+)>", line (\d+)')
_PATIENCE, _PAUSE = 5.0, 0.05


def code(call: Invocation) -> Outcome:
    source, pushed, pulled = _source(call), _names(call, "push"), _names(call, "pull")
    for name in pushed:
        if name not in call.namespace:
            raise Mistake(f'there is no variable "{name}" to take along', f"{name} = …, then this again")
    if source is None and not (pushed or pulled or call.parsed.flag("new")):
        raise Mistake("there is no code", "%%sandbox code, and the code below it")
    entry, pickled = call.entry(), call.parsed.flag("pickle")
    context = _context(call, entry)
    for name in pushed:
        push(entry.sandbox, context, name, call.namespace[name], pickled=pickled)
    execution = None if source is None else _run(call, entry, source)
    for name in pulled:
        call.namespace[name] = pull(entry.sandbox, _context(call, entry), name, pickled=pickled)
    if execution is not None:
        return Outcome(execution)
    facts = [(name, f"{type(call.namespace[name]).__name__}, taken along") for name in pushed]
    facts += [(name, f"{type(call.namespace[name]).__name__}, brought back") for name in pulled]
    return Outcome(None, Notice("done" if facts else "begun anew", *facts))


def _source(call: Invocation) -> str | None:
    words, body = call.parsed.rest, call.body
    if not words:
        return body if body is not None and body.strip() else None
    if body is not None:
        raise Mistake("there is code on the line and below it", "%%sandbox code, and all code below it")
    return call.parsed.line[words[0].start :]  # as it was written: quotes are part of it


def _names(call: Invocation, option: str) -> list[str]:
    names = [name for given in call.parsed.many(option) for name in given.split(",") if name]
    for name in names:
        if not name.isidentifier():
            raise Mistake(f'"{name}" is no name for a variable', f"%sandbox code --{option} df")
    return list(dict.fromkeys(names))


def _context(call: Invocation, entry: Entry) -> CodeContext:
    """The one of this notebook in this sandbox."""
    from sandbox_sdk import NotFoundError

    contexts, label = entry.sandbox.code, call.session.label
    if entry.context is None:
        entry.context = next((one for one in contexts.contexts() if one.name == label), None)
        if entry.context is None:
            entry.context = contexts.create_context(name=label)
        elif not call.parsed.flag("new"):
            return entry.context
        else:
            entry.context.restart()
    elif call.parsed.flag("new"):
        try:
            entry.context.restart()
        except NotFoundError:
            entry.context = contexts.create_context(name=label)
    call.parsed.values.pop("new", None)  # once is enough
    return entry.context


def _run(call: Invocation, entry: Entry, source: str) -> Execution:
    from sandbox_sdk import ConflictError, NotFoundError

    context = _context(call, entry)
    try:
        execution = _once(call, context, source)
    except NotFoundError:
        entry.context = None  # the server closes what nobody has used for long
        call.front.err.write("the sandbox has closed the context meanwhile: its variables are gone\n")
        execution = _once(call, _context(call, entry), source)
    except ConflictError:
        state = _settled(context)
        if state == "busy":
            raise Mistake("the code of another cell is still running here", "wait for it, or --new ends it") from None
        if state == "dead":
            context.restart()
            call.front.err.write("the program of the context has ended meanwhile: its variables are gone\n")
        execution = _once(call, context, source)
    if not execution.ok:
        _tell(call, execution)
    return execution


def _settled(context: CodeContext) -> str:
    """Its state, once what was interrupted just now has ended."""
    deadline = time.monotonic() + _PATIENCE
    while (state := context.refresh().state) == "busy" and time.monotonic() < deadline:
        time.sleep(_PAUSE)
    return state


def _once(call: Invocation, context: CodeContext, source: str) -> Execution:
    quiet = call.parsed.flag("quiet")
    out, err = call.live(call.front.out), call.live(call.front.err)

    def show(result: Result) -> None:
        if call.front.show is not None:
            call.front.show(result.data, result.metadata)
        else:
            out.feed(result.text.rstrip("\n") + "\n")

    try:
        return context.run(
            source,
            timeout=call.parsed.number("timeout") or call.settings.timeout or None,
            on_stdout=None if quiet else out.feed,
            on_stderr=None if quiet else err.feed,
            on_display=None if quiet else show,
        )
    except KeyboardInterrupt:
        raise Stopped("the code was interrupted; its variables are still there") from None
    finally:
        out.close()
        err.close()


def _tell(call: Invocation, execution: Execution) -> None:
    """Say in two lines why it did not run to its end."""
    kept = "its variables are still there"
    error = execution.error
    if execution.status == "error" and error is not None:
        if call.parsed.flag("traceback") or call.settings.tracebacks:
            call.front.err.write("\n".join(error.traceback) + "\n")
        first = error.value.partition("\n")[0]
        matches = [match for line in error.traceback if (match := _PLACE.match(line))]
        places = [match[2] for match in matches if int(match[1]) == execution.execution_count]
        where = f"line {places[-1]} of the code; " if places else ""
        hint = f"{where}--traceback shows the way there"
        raise Mistake(f"{error.name}: {first}" if first else error.name, hint)
    if execution.status == "timeout":
        raise Mistake("the code took too long and was interrupted", f"--timeout SECONDS gives it longer; {kept}")
    if execution.status == "output_limit":
        raise Mistake("the code wrote too much and was interrupted", f"{kept}; write to a file instead")
    if execution.status == "died":
        how = "" if execution.exit_code is None else f" with exit code {execution.exit_code}"
        raise Mistake(f"the program has ended{how}, and its variables are gone", "the next cell begins anew")
    raise Mistake("the code was interrupted", kept)
