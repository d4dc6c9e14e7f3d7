"""``start``, ``stop``, ``use``, ``list``, ``info``: which sandboxes there are."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ..args import quote
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table
from ..results import Notice, Rows
from ..session import DEFAULT_NAME, Entry

if TYPE_CHECKING:
    from sandbox_sdk import Sandbox


def start(call: Invocation) -> Outcome:
    options = _options(call)
    name = str(options["name"])
    running = call.session.entries.get(name)
    if running is not None and running.sandbox.running:
        if running.options != options and not _found_again(running, options):
            raise Mistake(
                f'a sandbox "{name}" with other options is running',
                f"%sandbox stop {quote(name)}, or give this one a name of its own: --name NAME",
            )
        call.session.current = name
        return Outcome(running.sandbox, _described(running, f'sandbox "{name}" is running already'))
    if running is not None:
        running.sandbox.kill()  # what is left of one that has ended
    from sandbox_sdk import Sandbox

    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        entry = Entry(name, Sandbox.local(**options), options)
    call.session.add(entry)
    remarks = [("note", str(warning.message)) for warning in raised]
    return Outcome(entry.sandbox, _described(entry, f'sandbox "{name}" is ready', *remarks))


def _found_again(entry: Entry, options: dict[str, Any]) -> bool:
    """Is a kept one that was taken by its name alone what these options would start?"""
    from sandbox_sdk import Sandbox, SandboxNameTakenError

    sandbox = entry.sandbox
    if entry.options or not (options["keep"] and sandbox.kept and sandbox.name == options["name"]):
        return False
    try:
        Sandbox.local(**options).close()
    except SandboxNameTakenError:
        return False
    entry.options = options
    return True


def _options(call: Invocation) -> dict[str, Any]:
    """The arguments of `Sandbox.local`."""
    parsed = call.parsed
    only = [one for ids in parsed.many("only") for one in ids.split(",") if one]
    if parsed.text("policy") and only:
        raise Mistake("--policy and --only exclude each other", "%sandbox start --only transfer")
    bounds = {name: parsed.text(name) or None for name in ("download_from", "upload_to")}
    if any(bounds.values()) and not only:
        raise Mistake(
            "--download-from and --upload-to go with --only", "%sandbox start --only transfer --download-from out"
        )
    if parsed.flag("keep") and not parsed.text("name"):
        raise Mistake("--keep needs a name to find it again by", "%sandbox start --keep --name NAME")
    options: dict[str, Any] = {
        "name": parsed.text("name") or DEFAULT_NAME,
        "root": parsed.text("root") or None,
        "keep": parsed.flag("keep"),
        "network": parsed.flag("network"),
        "isolation": parsed.text("isolation", "auto"),
    }
    if only:
        return {**options, "only": only, **bounds}
    return {**options, "policy": parsed.text("policy") or call.settings.default_policy}


def stop(call: Invocation) -> Outcome:
    from ..connected import Connected

    if not call.parsed.flag("all"):
        entries = [call.named(call.parsed.text("name"))]
    elif call.session.entries:
        entries = list(call.session.entries.values())
    else:
        return Outcome(None, Notice("no sandbox is running here", good=False))
    for entry in entries:
        entry.sandbox.kill()
        call.session.forget(entry.name)
    names = ", ".join(f'"{entry.name}"' for entry in entries)
    current = call.session.current
    facts = [
        ("goes on", entry.sandbox.info()["directory"]) for entry in entries if isinstance(entry.sandbox, Connected)
    ]
    facts += [("current now", current)] if current else []
    return Outcome(None, Notice(f"{'sandbox' if len(entries) == 1 else 'sandboxes'} {names} stopped", *facts))


def use(call: Invocation) -> Outcome:
    entry = call.named(call.parsed.text("name"))
    call.session.current = entry.name
    return Outcome(entry.sandbox, Notice(f'sandbox "{entry.name}" is the current one'))


def overview(call: Invocation) -> Outcome:
    from sandbox_sdk import Sandbox

    entries = list(call.session.entries.values())
    rows: list[Row] = [
        [
            Cell(entry.name, "strong"),
            "current" if entry.name == call.session.current else "",
            "running" if entry.sandbox.running else "ended",
            *(value for _, value in _facts(entry.sandbox)),
        ]
        for entry in entries
    ]
    others = [one for one in Sandbox.list_local() if one.kept and one.running and one.name not in call.session.entries]
    rows += [[Cell(one.name, "strong"), "", "kept", one.state.policy, one.isolation, one.network] for one in others]
    notes = ["%sandbox use NAME takes a kept one"] if others else []
    headers = ("name", "", "state", "policy", "isolation", "network")
    table = Table(rows, headers, notes=notes if rows else ["no sandbox is running here"])
    shown = Rows([entry.sandbox for entry in entries], table, lambda sandbox: sandbox.info())
    return Outcome(shown, shown)


def info(call: Invocation) -> Outcome:
    entry = call.named(call.parsed.text("in"))
    details: list[tuple[str, str]] = []
    if call.parsed.flag("long"):
        facts: dict[str, Any] = entry.sandbox.info()
        details = [
            ("root", facts["root"]),
            ("directory", facts["directory"]),
        ]
        details += [("not possible here", reason) for reason in facts["isolation_refused"]]
    ended = "" if entry.sandbox.running else " has ended"
    return Outcome(entry.sandbox, _described(entry, f'sandbox "{entry.name}"{ended}', *details))


def _facts(sandbox: Sandbox) -> list[tuple[str, str]]:
    return [("policy", sandbox.policy), ("isolation", sandbox.isolation), ("network", sandbox.network)]


def _described(entry: Entry, message: str, *more: tuple[str, str]) -> Notice:
    kept = [("kept", "until %sandbox stop, also when this kernel ends")] if entry.sandbox.kept else []
    return Notice(message, *_facts(entry.sandbox), *kept, *more, good=entry.sandbox.running)
