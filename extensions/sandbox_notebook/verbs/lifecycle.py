"""``start``, ``stop``, ``use``, ``list``, ``info``: which sandboxes there are."""

from __future__ import annotations

from typing import Any

from ..args import quote
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Cell, Table
from ..results import Notice, Rows
from ..session import DEFAULT_NAME, Entry


def start(call: Invocation) -> Outcome:
    name = call.parsed.text("name") or DEFAULT_NAME
    options = _options(call)
    running = call.session.entries.get(name)
    if running is not None and running.sandbox.alive:
        if running.options != options:
            raise Mistake(
                f'a sandbox "{name}" with other options is running',
                f"%sandbox stop {quote(name)}, or give this one a name of its own: --name NAME",
            )
        call.session.current = name
        return Outcome(running.sandbox, _described(running, f'sandbox "{name}" is running already'))
    from sandbox_sdk import Sandbox

    entry = Entry(name, Sandbox.local(**options), options)
    call.session.add(entry)
    return Outcome(entry.sandbox, _described(entry, f'sandbox "{name}" is ready'))


def stop(call: Invocation) -> Outcome:
    if call.parsed.flag("all"):
        entries = list(call.session.entries.values())
        if not entries:
            return Outcome(None, Notice("no sandbox is running in this kernel", good=False))
    else:
        entries = [call.session.find(call.parsed.text("name"), call.namespace)]
    for entry in entries:
        entry.sandbox.kill()
        call.session.forget(entry.name)
    names = ", ".join(f'"{entry.name}"' for entry in entries)
    noun = "sandbox" if len(entries) == 1 else "sandboxes"
    current = call.session.current
    facts = (("current now", current),) if current else ()
    return Outcome(None, Notice(f"{noun} {names} stopped", *facts))


def use(call: Invocation) -> Outcome:
    entry = call.session.find(call.parsed.text("name"), call.namespace)
    call.session.current = entry.name
    return Outcome(entry.sandbox, Notice(f'sandbox "{entry.name}" is the current one'))


def overview(call: Invocation) -> Outcome:
    session = call.session
    entries = list(session.entries.values())
    if not entries:
        return Outcome(Rows([], Table()), Notice("no sandbox is running in this kernel", good=False))
    rows = [
        [Cell(entry.name, "strong"), "current" if entry.name == session.current else "", *_short(entry)]
        for entry in entries
    ]
    table = Table(rows, ("name", "", "state", "policy", "isolation", "network"))
    shown = Rows([entry.sandbox for entry in entries], table)
    return Outcome(shown, shown)


def info(call: Invocation) -> Outcome:
    entry = call.entry()
    facts: list[tuple[str, str]] = []
    if call.parsed.flag("long"):
        details: dict[str, Any] = entry.sandbox.info()
        facts = [(key.replace("_", " "), str(value)) for key, value in details.items()]
    shown = _described(entry, f'sandbox "{entry.name}"', *facts)
    return Outcome(entry.sandbox, shown)
