"""``watch``: changes below a directory, told while they happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import Stopped
from ..invocation import Invocation, Outcome
from ..session import Entry
from ..text import printable

if TYPE_CHECKING:
    from sandbox_sdk import FileChange

_REASONS = {"removed": "the directory is gone", "too_large": "there are too many directories below to watch them all"}


def watch(call: Invocation) -> Outcome:
    entry, path = call.entry(), call.parsed.text("path", ".")
    seen: list[FileChange] = []
    try:
        with entry.sandbox.files.watch(
            path, recursive=call.parsed.flag("recursive"), timeout=call.parsed.number("timeout")
        ) as changes:
            _say(call, f"watching {path}")
            for change in changes:
                seen.append(change)
                _say(call, _line(entry, change))
    except KeyboardInterrupt:
        raise Stopped("watching has ended") from None
    if changes.reason in _REASONS:
        _say(call, _REASONS[changes.reason])
    return Outcome(seen)


def _say(call: Invocation, line: str) -> None:
    call.front.out.write(printable(line) + "\n")
    call.front.out.flush()


def _line(entry: Entry, change: FileChange) -> str:
    path = entry.relative(change.path) + ("/" if change.is_dir else "")
    if change.type == "overflow":
        return f"missed     something below {path}: look at all of it again"
    if change.old_path is not None:
        return f"{change.type:<9}  {entry.relative(change.old_path)} → {path}"
    return f"{change.type:<9}  {path}"
