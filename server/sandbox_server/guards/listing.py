"""The entries of one directory, without those that the guard keeps back."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from .paths import PathGuard

EntryKind = Literal["file", "directory", "symlink", "fifo", "socket", "device"]

_KINDS: dict[int, EntryKind] = {
    stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device",
}  # fmt: skip


class Entry(NamedTuple):
    """One name in a directory. `stat` is of the entry itself; a link is not followed."""

    name: str
    path: str
    kind: EntryKind
    stat: os.stat_result | None


def read_directory(directory: int, path: str, guard: PathGuard, with_stat: bool) -> Generator[Entry, None, None]:
    """Takes over the descriptor. The first item only says that it did, and is no entry."""
    prefix = path.rstrip("/") + "/"
    denied = guard.deny.within(path)
    looks = with_stat or guard.rule.hardlinks == "deny"
    try:
        yield Entry("", path, "directory", None)
        with os.scandir(directory) as entries:
            for entry in entries:
                name = entry.name
                if denied(name):
                    continue
                try:
                    found = entry.stat(follow_symlinks=False) if looks else None
                    kind = _KINDS[stat.S_IFMT(found.st_mode)] if found else _kind(entry)
                except FileNotFoundError:
                    continue  # removed while we were reading
                if (kind == "symlink" and not guard.admits_link(prefix + name)) or (
                    found and not guard.admits_links(found)
                ):
                    continue
                yield Entry(name, prefix + name, kind, found if with_stat else None)
    finally:
        os.close(directory)


def look_at(
    directory: int, names: Iterable[str], path: str, guard: PathGuard
) -> Iterator[tuple[str, os.stat_result, str | None]]:
    """Those of the names in an open directory that the guard lets through: name, own metadata, text of a link.

    The quick way for a hundred thousand of them: no object per entry, and nothing is looked at before its turn.
    """
    prefix = path.rstrip("/") + "/"
    denied = guard.deny.within(path)
    single = guard.rule.hardlinks == "deny"
    look, is_link = os.stat, stat.S_ISLNK
    for name in names:
        if denied(name):
            continue
        try:
            found = look(name, dir_fd=directory, follow_symlinks=False)
            target = os.readlink(name, dir_fd=directory) if is_link(found.st_mode) else None
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINVAL):
                raise
            continue  # removed, or a link no longer, while we were reading
        if (target is not None and not guard.admits_link(prefix + name)) or (single and not guard.admits_links(found)):
            continue
        yield name, found, target


def names_as_read(directory: int) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            yield entry.name


def _kind(entry: os.DirEntry[str]) -> EntryKind:
    if entry.is_symlink():
        return "symlink"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    if entry.is_file(follow_symlinks=False):
        return "file"
    return _KINDS[stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)]
