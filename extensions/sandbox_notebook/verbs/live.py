"""``browse`` and ``term``: what only a page or a terminal can show, and what there is instead."""

from __future__ import annotations

import time

from ..invocation import Invocation, Outcome
from ..results import Still
from .trees import tree

_FIRST, _NEXT, _WHOLE = 2.0, 0.2, 3.0  # seconds for what a terminal has to show: its beginning, more of it, all


def browse(call: Invocation) -> Outcome:
    if call.front.views is None:
        return tree(call)
    return Outcome(call.front.views.browse(call.entry().sandbox, call.parsed.text("path", ".")))


def term(call: Invocation) -> Outcome:
    if call.front.views is not None:
        call.front.views.terminal(call.entry().sandbox, call.parsed.text("id") or None, new=call.parsed.flag("new"))
        return Outcome()
    if call.front.terminal:
        from ..tty import attach

        attach(call, "%sandbox")
        return Outcome()
    return Outcome(None, _still(call))


def _still(call: Invocation) -> Still:
    """The terminal that a page would show, as it is now; like there, one is opened where none is."""
    from ..widgets.sgr import without_moves
    from ..widgets.snapshot import snapshot
    from ..widgets.transcript import Transcript

    terminals, id = call.entry().sandbox.pty, call.parsed.text("id")
    if not id and not call.parsed.flag("new") and (known := terminals.list()):
        id = known[-1].id
    transcript = Transcript()
    if not id:
        terminals.create().close()  # its prompt would tell where this runs, and is all that it has to show
        return Still(*snapshot("terminal", "open", transcript))
    with terminals.connect(id) as terminal:
        end, patience = time.monotonic() + _WHOLE, _FIRST
        try:
            while time.monotonic() < end and (text := terminal.read(patience)):
                transcript.feed("stdout", without_moves(text.encode("utf-8", "replace")))
                patience = _NEXT
        except TimeoutError:
            pass
    transcript.end()
    return Still(*snapshot("terminal", "open", transcript))
