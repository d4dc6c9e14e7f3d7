"""``browse`` and ``term``: what only a page can show, and what there is instead."""

from __future__ import annotations

from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from .trees import tree


def browse(call: Invocation) -> Outcome:
    if call.front.views is None:
        return tree(call)
    return Outcome(call.front.views.browse(call.entry().sandbox, call.parsed.text("path", ".")))


def term(call: Invocation) -> Outcome:
    entry = call.entry()
    if call.front.views is None:
        known = f" --in {entry.name}" if entry.sandbox.kept else ""
        raise Mistake("this front end shows no terminal", f"nbsandbox term{known}, in a terminal of your own")
    call.front.views.terminal(entry.sandbox, call.parsed.text("id") or None, new=call.parsed.flag("new"))
    return Outcome()
