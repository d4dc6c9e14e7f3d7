"""``ls``: what lies in a directory of the sandbox."""

from __future__ import annotations

import stat
from datetime import datetime
from typing import TYPE_CHECKING

from ..invocation import Invocation, Outcome
from ..render import Cell, Row, Table
from ..results import Rows
from ..text import count, size

if TYPE_CHECKING:
    from sandbox_sdk import FileEntry


DEEPEST = 100  # levels; nobody has more, and a server that is not asked goes only a few


def ls(call: Invocation) -> Outcome:
    path = call.parsed.text("path", ".")
    entries = _entries(call, path)
    prefix = "" if path == "." else path.rstrip("/") + "/"
    rows: list[Row] = []
    for entry in entries:
        name = entry.path.removeprefix("./").removeprefix(prefix)
        shown: Row = [named(entry, name), size(entry.size) if entry.kind == "file" else ""]
        rows.append([_mode(entry), *shown, moment(entry.modified)] if call.parsed.flag("long") else shown)
    headers = ("mode", "name", "size", "modified") if call.parsed.flag("long") else ("name", "size")
    clipped, notes = call.clipped(rows)
    table = Table(clipped, headers, frozenset({headers.index("size")}), notes=[*notes, total(entries)])
    listing = Rows(entries, table)
    return Outcome(listing, listing)


def _entries(call: Invocation, path: str) -> list[FileEntry]:
    """What is in a directory; of a file, the file."""
    from sandbox_sdk import FileEntry, NotFoundError

    files = call.entry().sandbox.files
    try:
        return files.list(path, recursive=call.parsed.flag("recursive"), max_depth=DEEPEST)
    except NotFoundError:
        info = files.stat(path)
        if info.is_dir:
            raise
        return [
            FileEntry(
                info.name, path, info.type, info.size, info.modified, info.permissions, info.owner,
                "symlink" if info.is_symlink else info.type, info.link_target,
            )
        ]  # fmt: skip


_KINDS = {"directory": stat.S_IFDIR, "symlink": stat.S_IFLNK, "fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK}


def _mode(entry: FileEntry) -> str:
    """``-rw-r--r--``."""
    if not entry.mode:
        return ""
    return stat.filemode(_KINDS.get(entry.kind, stat.S_IFREG) | int(entry.mode, 8))


def named(entry: FileEntry, name: str) -> Cell:
    if entry.is_dir:
        return Cell(name + "/", "strong")
    if entry.link_target is not None:
        return Cell(f"{name} → {entry.link_target}")
    return Cell(name if entry.kind == "file" else f"{name} ({entry.kind})")


def total(entries: list[FileEntry]) -> str:
    if not entries:
        return "nothing there"
    files = [entry for entry in entries if entry.kind == "file"]
    directories = sum(entry.is_dir for entry in entries)
    parts = [count(len(files), "file")] if files or not directories else []
    parts += [count(directories, "directory", "directories")] if directories else []
    other = len(entries) - len(files) - directories
    parts += [count(other, "other", "other")] if other else []
    return f"{', '.join(parts)}, {size(sum(entry.size for entry in files))}"


def moment(when: datetime | None) -> str:
    """A time as this machine's clock shows it."""
    return when.astimezone().strftime("%Y-%m-%d %H:%M") if when else ""
