"""The audit log of a sandbox, where that lies on this machine and this user may read it."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from sandbox_sdk import LocalSandbox, Sandbox

_TAIL = 4 << 20
_MOST = 100

_REFUSED = (401, 403, 413, 421, 429)
_SWITCHED = 101  # a WebSocket is refused by a message in it

Line = dict[str, Any]
Verdict = Literal["allowed", "denied", "missing", "failed"]


class AuditTail:
    """Reads what is new; ``missing`` says of the log why there is nothing to read."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.lines: list[Line] = []
        self.missing = ""
        local = local_of(sandbox)
        self._path = local.box.log if local else ""
        self._file = 0, 0  # which, and how far it was read
        if not self._path:
            self.missing = "is not on this machine; whoever runs its server has it"

    def news(self) -> list[Line]:
        """What has come since the last time, all of it; the end of it is in ``lines``."""
        if not self._path:
            return []
        try:
            with open(self._path, "rb") as file:
                facts = os.fstat(file.fileno())
                inode, offset = self._file
                if inode != facts.st_ino or offset > facts.st_size:  # another one, or cut at its beginning
                    offset = max(0, facts.st_size - _TAIL)
                file.seek(offset)
                whole, newline, _ = file.read(_TAIL).rpartition(b"\n")
        except OSError as error:
            self.missing = f"cannot be read: {(error.strerror or '').lower()}"
            return []
        self._file = facts.st_ino, offset + len(whole) + len(newline)
        found = [line for raw in whole.split(b"\n") if (line := _line(raw)) is not None]
        self.lines = [*self.lines, *found][-_MOST:]
        return found


def _line(raw: bytes) -> Line | None:
    """An audit line; the log also holds what the server says otherwise."""
    if not raw.startswith(b"{"):
        return None
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) and "decision" in line else None


def verdict(line: Line) -> Verdict:
    """How a call ended. The log calls every error a denial; here that is what a rule, a limit or the token refused."""
    if line["decision"] != "deny":
        return "allowed"
    status, code = line.get("status"), str(line.get("code") or "")
    if code == "endpoint_disabled" or status in (None, *_REFUSED):
        return "denied"
    if status == 404 or code.endswith("not_found"):
        return "missing"
    return "denied" if status == _SWITCHED else "failed"


def what(line: Line) -> list[str]:
    """What the call was about: paths, a target, a program."""
    paths = line.get("paths")
    words = [
        *(paths if isinstance(paths, list) else ()),
        *(line.get(name) for name in ("target", "program", "refused")),
    ]
    return [str(word) for word in words if word]


def when(line: Line) -> str:
    """The time of day; empty where the line tells none."""
    with suppress(KeyError, TypeError, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(line["ts"]).strftime("%H:%M:%S")
    return ""


def local_of(sandbox: Sandbox) -> LocalSandbox | None:
    """The sandbox as something of this machine; None for a server elsewhere."""
    from sandbox_sdk import Sandbox

    directory = sandbox.info().get("directory")
    return next((one for one in Sandbox.list_local() if one.state.directory == directory), None)
