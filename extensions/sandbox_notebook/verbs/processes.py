"""``ps``, ``logs``, ``attach``, ``stdin``, ``kill``: what runs in the background."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Stopped
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..programs import language_of
from ..render import Row, Table
from ..results import Notice, Rows, Still
from ..session import Entry
from ..text import shortened, signal_name
from .listing import moment

if TYPE_CHECKING:
    from sandbox_sdk import Process, ProcessInfo

_GRACE, _CERTAIN = 5.0, 60.0
_SIGNALS = {"TERM": 15, "KILL": 9, "INT": 2}


def ps(call: Invocation) -> Outcome:
    entry, long = call.entry(), call.parsed.flag("long")
    found = [info for info in _all(entry) if info.running or call.parsed.flag("all")]
    rows: list[Row] = []
    for info in found:
        row: Row = [str(entry.number(key(info))), _state(info), shortened(title(entry, info))]
        rows.append([*row, str(info.pid), info.id, moment(info.started_at)] if long else row)
    headers = ("", "state", "command", "pid", "id", "started") if long else ("", "state", "command")
    notes = [] if found else ["nothing runs in the background"]
    shown = Rows(found, Table(rows, headers, frozenset({0}), notes=notes))
    return Outcome(shown, shown)


def logs(call: Invocation) -> Outcome:
    entry = call.entry()
    return _told(call, entry, _wanted(call, entry, _all(entry)), follow=call.parsed.flag("follow"))


def _told(call: Invocation, entry: Entry, process: Process, *, follow: bool) -> Outcome:
    out, err = call.live(call.front.out), call.live(call.front.err)
    try:
        if follow:
            with process.follow() as events:
                for event in events:
                    (err if event.stream == "stderr" else out).feed(event.data)
        else:
            for stream, live in (("stdout", out), ("stderr", err)):
                part = process.output(0, stream="stderr" if stream == "stderr" else "stdout")
                if part.lost:
                    live.feed(f"… {part.lost:,} earlier bytes are gone …\n")
                live.feed(part.data)
    except KeyboardInterrupt:
        raise Stopped(f"{title(entry, process.info)} goes on; only the following has ended") from None
    finally:
        out.close()
        err.close()
    if not (out.empty and err.empty):
        return Outcome(process)
    name = f"{entry.number(key(process.info))} ({shortened(title(entry, process.info))})"
    return Outcome(
        process, Notice(f"{name} has written nothing{' so far' if process.info.running else ''}", good=False)
    )


def attach(call: Invocation) -> Outcome:
    entry = call.entry()
    process = _wanted(call, entry, _all(entry))
    name = f"{entry.number(key(process.info))} · {title(entry, process.info)}"
    if call.front.views is not None:
        call.front.views.process(process, title=name)
        return Outcome(process)
    if call.front.terminal:
        return _told(call, entry, process, follow=True)
    from ..widgets.snapshot import as_seen

    return Outcome(process, Still(*as_seen(name, process)))


def stdin(call: Invocation) -> Outcome:
    entry = call.entry()
    process = _wanted(call, entry, _all(entry))
    text, eof = call.parsed.values.get("text"), call.parsed.flag("eof")
    if text is not None and call.body is not None:
        raise Mistake("the line and the body are both to be typed", "%sandbox stdin 1 yes")
    if text is None and call.body is None and not eof:
        raise Mistake("text is missing: the line to type", call.parsed.command.example)
    from sandbox_sdk import ConflictError

    typed = call.body if call.body is not None else f"{text}\n" if text is not None else ""
    try:
        if typed:
            process.stdin.write(typed)
        if eof:
            process.stdin.close()
    except ConflictError as error:
        if error.code != "conflict":
            raise
        raise Mistake(
            f"{title(entry, process.info)} has no input that is open",
            "%sandbox run --bg --stdin COMMAND leaves it open",
        ) from error
    name = f"{entry.number(key(process.info))} ({shortened(title(entry, process.info))})"
    got = " and ".join([*(["it"] if typed else []), *(["the end of its input"] if eof else [])])
    return Outcome(None, Notice(f"{name} got {got}"))


def kill(call: Invocation) -> Outcome:
    entry = call.entry()
    infos = _all(entry)
    if not call.parsed.text("process"):
        infos = [info for info in infos if info.running]
    process = _wanted(call, entry, infos)
    name = f"{entry.number(key(process.info))} ({shortened(title(entry, process.info))})"
    if not process.info.running:
        return Outcome(process, Notice(f"{name} has ended already", good=False))
    signal = call.parsed.text("signal")
    process.send_signal(_SIGNALS[signal or "TERM"])
    if not _ends(process, _GRACE) and not signal:
        process.kill()
        _ends(process, _CERTAIN)
    if process.info.running:
        return Outcome(process, Notice(f"{name} got the signal and goes on", good=False))
    return Outcome(process, Notice(f"{name} has ended: {_state(process.info)}"))


def _ends(process: Process, seconds: float) -> bool:
    from sandbox_sdk import CommandTimeoutError

    try:
        process.wait(seconds)
    except CommandTimeoutError:
        return False
    return True


def _all(entry: Entry) -> list[ProcessInfo]:
    """Every process of ours, numbered in the order of their start."""
    found = sorted(entry.sandbox.process.list(finished=True), key=lambda info: (str(info.started_at), info.pid))
    for info in found:
        entry.number(key(info))
    return found


def _wanted(call: Invocation, entry: Entry, infos: list[ProcessInfo]) -> Process:
    """The one that was asked for, by number, id or pid; else the latest."""
    wanted = call.parsed.text("process")
    for info in reversed(infos):  # others may have been numbered later, that had been there before
        if wanted in ("", str(entry.number(key(info))), info.id, str(info.pid)):
            return entry.sandbox.process.attach(key(info))
    if wanted:
        raise Mistake(f'no process "{wanted}" in sandbox "{entry.name}"', "%sandbox ps --all")
    raise Mistake(
        f'nothing runs in the background of sandbox "{entry.name}"', "%sandbox run --bg COMMAND starts something"
    )


def key(info: ProcessInfo) -> str:
    return info.id or str(info.pid)


def title(entry: Entry, info: ProcessInfo) -> str:
    """What to call it: as it was started here or by the kernel before, else its command line."""
    language = language_of(info.command)
    return entry.titles.get(key(info), f"{language} cell" if language else info.command)


def _state(info: ProcessInfo) -> str:
    if info.running:
        return "running"
    return signal_name(info.signal) if info.signal else f"exit code {info.exit_code}"
