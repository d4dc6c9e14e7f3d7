"""``audit``: what the server of a sandbox of this machine has noted."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Any

from ..errors import Stopped
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table
from ..results import Rows
from ..session import Entry
from ..text import printable

_TAIL = 4 << 20
_PAUSE = 0.25

Line = dict[str, Any]


def audit(call: Invocation) -> Outcome:
    entry = call.entry()
    path = _log(entry)
    denied, timed = call.parsed.flag("denied"), call.settings.ui != "html"
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        found = [line for line in _lines(file.read()) if not denied or line["decision"] == "deny"]
        found = found[-call.parsed.count("lines", 20) :]
        if not call.parsed.flag("follow"):
            rows = [_row(entry, line, timed) for line in found]
            headers = (*(("time",) if timed else ()), "decision", "endpoint", "what", "code", "identity")
            notes = [] if found else ["nothing noted" + (" as refused" if denied else "")]
            shown = Rows(found, Table(rows, headers if rows else (), notes=notes), dict)
            return Outcome(shown, shown)
        try:
            for line in chain(found, _coming(file)):
                if not denied or line["decision"] == "deny":
                    cells = [cell.text if isinstance(cell, Cell) else cell for cell in _row(entry, line, timed)]
                    call.front.out.write(printable("  ".join(cells)) + "\n")
                    call.front.out.flush()
        except KeyboardInterrupt:
            raise Stopped("only the following has ended") from None
    return Outcome()


def _log(entry: Entry) -> str:
    """The log of a sandbox that this user has started; there is none of a server elsewhere."""
    from sandbox_sdk import Sandbox

    directory = entry.sandbox.info().get("directory")
    for found in Sandbox.list_local():
        if found.state.directory == directory:
            return found.box.log
    raise Mistake(
        f'the log of "{entry.name}" is not on this machine', "its operator has it; agent-sandbox-server audit reads it"
    )


def _lines(data: bytes) -> list[Line]:
    """The audit lines of a log, which also holds what the server says otherwise."""
    found = []
    for raw in data.split(b"\n"):
        if raw.startswith(b"{"):
            try:
                line = json.loads(raw)
            except ValueError:
                continue
            if isinstance(line, dict) and "decision" in line:
                found.append(line)
    return found


def _coming(file: Any) -> Iterator[Line]:
    held = b""
    while True:
        data = file.read()
        if not data:
            time.sleep(_PAUSE)
            continue
        whole, newline, held = (held + data).rpartition(b"\n")
        yield from _lines(whole + newline)


def _row(entry: Entry, line: Line, timed: bool) -> Row:
    denied = line["decision"] == "deny"
    paths = [entry.relative(str(path)) for path in line.get("paths") or []]
    what = " ".join([*paths, *(str(line[name]) for name in ("target", "program", "refused") if line.get(name))])
    row: Row = [
        Cell("denied" if denied else str(line["decision"]), "bad" if denied else ""),
        str(line.get("endpoint") or ""), what, str(line.get("code") or ""), str(line.get("identity") or ""),
    ]  # fmt: skip
    when = line.get("ts")
    moment = datetime.fromtimestamp(when).strftime("%H:%M:%S") if isinstance(when, (int, float)) else ""
    return [moment, *row] if timed else row
