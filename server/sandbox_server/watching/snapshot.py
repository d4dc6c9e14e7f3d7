"""What is known of the entries below a directory, and what a second look finds changed.

Kernel notices and polling both only say where to look again. What changed follows from comparing with what was there
before, so a change is told once, and nothing is told that the guard keeps back.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, Protocol

from ..guards.below import Below
from ..guards.listing import names_as_read

#: Entries that one watch keeps track of.
MOST_ENTRIES = 100_000


class TooLarge(Exception):
    """There are more entries than are kept track of."""


class Entry(NamedTuple):
    """`identity` differs when the file is another one, or its size or time of modification has changed."""

    identity: int
    is_dir: bool


_ENDED = Entry(0, True)


class Change(NamedTuple):
    """One change as it is told; paths are absolute."""

    type: str  # created, modified, deleted, renamed, overflow
    path: str
    is_dir: bool
    old: str | None = None


class Listener(Protocol):
    """Who is told which directories are under watch."""

    def entered(self, path: str, descriptor: int) -> None:
        """Before its entries are read, so that none that comes meanwhile is missed."""

    def left(self, path: str) -> None: ...


@dataclass
class News:
    """What one look found, by path relative to the top: what was there before it, and what is there after."""

    before: dict[str, Entry | None] = field(default_factory=dict)
    now: dict[str, Entry | None] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def note(self, path: str, before: Entry | None, now: Entry | None) -> None:
        """A path may be met several times: what counts is the first state and the last."""
        self.before.setdefault(path, before)
        self.now[path] = now


class Snapshot:
    """The entries of each directory under watch. `recursive` goes into subdirectories, never through a link."""

    def __init__(self, below: Below, recursive: bool, listener: Listener) -> None:
        self._below = below
        self._recursive = recursive
        self._listener = listener
        self._size = 0
        self.directories: dict[str, dict[str, Entry]] = {}

    def enter(self, path: str, news: News | None = None) -> None:
        """Begin with a directory and all below it; one that cannot be read stays out."""
        waiting = [path]
        while waiting:
            directory = waiting.pop()
            try:
                descriptor = self._below.open(directory)
            except OSError:
                if not directory:
                    raise
                continue
            try:
                self._listener.entered(directory, descriptor)
                known = self.directories[directory] = self._read(directory, descriptor, None)
            finally:
                os.close(descriptor)
            self._size += len(known)
            if self._size > MOST_ENTRIES:
                raise TooLarge
            for name, entry in known.items():
                if news is not None:
                    news.note(_joined(directory, name), None, entry)
                if entry.is_dir and self._recursive:
                    waiting.append(_joined(directory, name))

    def look(self, path: str, touched: Mapping[str, bool] | None, news: News) -> None:
        """Look again at some names of a directory, or (None) at all; True says that the content was written to."""
        known = self.directories.get(path)
        if known is None:
            return  # left meanwhile
        try:
            descriptor = self._below.open(path)
        except OSError:
            return  # its parent knows
        try:
            seen = self._read(path, descriptor, touched)
        finally:
            os.close(descriptor)
        for name in {*known, *seen} if touched is None else touched:
            self._compare(path, name, known.get(name), seen.get(name), bool(touched and touched[name]), news)

    def doubt(self, path: str) -> None:
        """A directory has ended. One that is found in its place is another, although it may have the same number."""
        parent, _, name = path.rpartition("/")
        known = self.directories.get(parent, {})
        if name in known:
            known[name] = _ENDED

    def leave(self, path: str, news: News) -> None:
        """Forget a directory and all below it."""
        waiting = [path]
        while waiting:
            directory = waiting.pop()
            known = self.directories.pop(directory, None)
            if known is None:
                continue
            self._listener.left(directory)
            self._size -= len(known)
            for name, entry in known.items():
                news.note(_joined(directory, name), entry, None)
                if entry.is_dir:
                    waiting.append(_joined(directory, name))

    def _compare(
        self, directory: str, name: str, before: Entry | None, now: Entry | None, touched: bool, news: News
    ) -> None:
        path, known = _joined(directory, name), self.directories[directory]
        if before == now:
            if now is None:
                return
            if touched and not now.is_dir:
                news.written.add(path)
            if now.is_dir and self._recursive and path not in self.directories:
                self.enter(path, news)  # it could not be read before
            return
        if before is not None:
            del known[name]
            self._size -= 1
            news.note(path, before, None)
            if before.is_dir:
                self.leave(path, news)
        if now is not None:
            known[name] = now
            self._size += 1
            news.note(path, before, now)
            if now.is_dir and self._recursive:
                self.enter(path, news)

    def _read(self, path: str, descriptor: int, names: Iterable[str] | None) -> dict[str, Entry]:
        """Those of the names that are there and may be seen, of all (None)."""
        found: dict[str, Entry] = {}
        with suppress(OSError):  # a directory whose entries may be named, but not looked at, or not even that
            for name, facts, _ in self._below.visible(path, descriptor, _names(descriptor) if names is None else names):
                found[name] = _entry(facts)
        return found


def changes(news: News, at: Below, renames: bool) -> list[Change]:
    """What to tell: what came and what was modified by path, then what is gone, the innermost first.

    With `renames` what is gone here and came there is one change, and what was inside goes along unmentioned.
    """
    differ = {path for path in news.now if news.before[path] != news.now[path]}
    come = {path: entry for path in differ if (entry := news.now[path]) is not None}
    gone = {path: entry for path in differ if (entry := news.before[path]) is not None}
    moved = _pair(come, gone) if renames else {}
    told = {path: Change("renamed", at.at(path), entry.is_dir, at.at(old)) for path, (old, entry) in moved.items()
            if not _goes_along(path, old, moved)}  # fmt: skip
    for path, (old, _) in moved.items():
        del come[path]
        gone.pop(old, None)
        gone.pop(path, None)  # it was replaced
    replaced = False
    modified = news.written - differ
    for path in come.keys() & gone.keys():
        if come[path].is_dir or gone[path].is_dir:
            replaced = True
        else:
            del gone[path], come[path]
            modified.add(path)
    told |= {path: Change("modified", at.at(path), False) for path in modified if path not in told}
    told |= {path: Change("created", at.at(path), entry.is_dir) for path, entry in come.items()}
    deleted = [Change("deleted", at.at(path), gone[path].is_dir) for path in sorted(gone, reverse=True)]
    rest = [told[path] for path in sorted(told)]
    return deleted + rest if replaced else rest + deleted


def _pair(come: Mapping[str, Entry], gone: Mapping[str, Entry]) -> dict[str, tuple[str, Entry]]:
    """New path -> old path, where both are the same file or directory."""
    left = {entry: path for path, entry in gone.items()}
    pairs: dict[str, tuple[str, Entry]] = {}
    for path in sorted(come):
        old = left.get(come[path])
        if old is not None and old != path:
            pairs[path] = (left.pop(come[path]), come[path])
    return pairs


def _goes_along(path: str, old: str, moved: Mapping[str, tuple[str, Entry]]) -> bool:
    """Whether a directory above was moved, and this with it."""
    directory, _, name = path.rpartition("/")
    return bool(directory) and directory in moved and old == f"{moved[directory][0]}/{name}"


def _names(directory: int) -> list[str]:
    names = list(islice(names_as_read(directory), MOST_ENTRIES + 1))
    if len(names) > MOST_ENTRIES:
        raise TooLarge
    return names


def _entry(facts: os.stat_result) -> Entry:
    if stat.S_ISDIR(facts.st_mode):
        return Entry(hash((facts.st_dev, facts.st_ino)), True)
    return Entry(hash((facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size)), False)


def _joined(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name
