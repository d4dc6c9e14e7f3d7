"""``audit``: what the server of a sandbox of this machine has noted."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ..audit_log import AuditTail, Line, Verdict, verdict, what, when
from ..errors import Stopped
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table
from ..results import Rows
from ..session import Entry
from ..text import printable

_PAUSE = 0.25
_VERDICTS: dict[Verdict, Cell] = {
    "allowed": Cell("allow"),
    "denied": Cell("denied", "bad"),
    "missing": Cell("○ missing", "dim"),
    "failed": Cell("! failed", "dim"),
}


def audit(call: Invocation) -> Outcome:
    entry = call.entry()
    denied, timed = call.parsed.flag("denied"), call.settings.ui != "html"
    log = AuditTail(entry.sandbox)
    noted = log.news()
    if not call.parsed.flag("follow") and not log.missing:
        time.sleep(_PAUSE)  # a line is written once its answer is out: of what was just called it may be on its way
        noted += log.news()
    if log.missing:
        why = log.missing.partition(";")[0]
        raise Mistake(f'the log of "{entry.name}" {why}', "its operator has it; agent-sandbox-server audit reads it")
    found = [line for line in noted if not denied or verdict(line) == "denied"][-call.parsed.count("lines", 20) :]
    if not call.parsed.flag("follow"):
        rows = [_row(entry, line, timed) for line in found]
        headers = (*(("time",) if timed else ()), "decision", "endpoint", "what", "code", "identity")
        notes = [] if found else ["nothing noted" + (" as refused" if denied else "")]
        shown = Rows(found, Table(rows, headers if rows else (), notes=notes), dict)
        return Outcome(shown, shown)
    try:
        for line in _coming(log, found):
            if not denied or verdict(line) == "denied":
                cells = [cell.text if isinstance(cell, Cell) else cell for cell in _row(entry, line, timed)]
                call.front.out.write(printable("  ".join(cells)) + "\n")
                call.front.out.flush()
    except KeyboardInterrupt:
        raise Stopped("only the following has ended") from None
    return Outcome()


def _coming(log: AuditTail, found: list[Line]) -> Iterator[Line]:
    while True:
        yield from found
        found = log.news()
        if not found:
            time.sleep(_PAUSE)


def _row(entry: Entry, line: Line, timed: bool) -> Row:
    row: Row = [
        _VERDICTS[verdict(line)],
        str(line.get("endpoint") or ""),
        " ".join(map(entry.relative, what(line))),
        str(line.get("code") or ""),
        str(line.get("identity") or ""),
    ]
    return [when(line), *row] if timed else row
