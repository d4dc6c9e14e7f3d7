"""What lies below one directory: reached by real names alone, without what the guard keeps back.

It holds no descriptor, so it may be kept for long: each step starts at the root again and follows no link. A directory
that was moved away, or replaced by a link, is simply not there any more.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ..messages import Refusal
from .listing import look_at
from .root import Root

if TYPE_CHECKING:
    from .path_guard import PathGuard

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_SLICE = 2000  # entries between two looks at the clock


class Level(NamedTuple):
    """Some entries of one directory. A directory that cannot be read is a level without a descriptor."""

    path: str  # relative to the top; "" is the top itself
    descriptor: int
    names: list[str]  # of everything but directories; nobody has judged them yet


class Below:
    """The directory at `relative` below a root, and all under it. Paths are relative to it; "" is itself."""

    __slots__ = ("_guard", "_relative", "_root", "path")

    def __init__(self, guard: PathGuard, root: Root, relative: str) -> None:
        self._guard = guard
        self._root = root
        self._relative = relative
        self.path = root.at(relative)

    def at(self, path: str) -> str:
        """The absolute path."""
        return self._root.at(self._joined(path))

    def open(self, path: str) -> int:
        """A descriptor of a directory; `OSError` when it is none, or lies behind a link."""
        return self._root.open(self._joined(path), _DIRECTORY)

    def visible(
        self, path: str, directory: int, names: Iterable[str]
    ) -> Iterator[tuple[str, os.stat_result, str | None]]:
        """Those of the names in the open directory at `path` that may be seen: name, own metadata, text of a link."""
        return look_at(directory, names, self.at(path), self._guard)

    def open_file(self, directory: int, name: str) -> int:
        """A descriptor of a regular file in an open directory, -1 when it is none or may not be read."""
        try:
            descriptor = os.open(name, _FILE, dir_fd=directory)
        except OSError:
            return -1
        found = os.fstat(descriptor)  # it may have been exchanged since it was looked at
        if stat.S_ISREG(found.st_mode) and self._guard.admits_links(found):
            return descriptor
        os.close(descriptor)
        return -1

    def leads_to_directory(self, path: str) -> bool:
        """Whether a visible link ends at a directory."""
        with suppress(Refusal, OSError), self._guard.locate(self.at(path), "read") as target:
            return not target.missing and stat.S_ISDIR(target.stat().st_mode)
        return False

    def levels(self, depth: int) -> Iterator[Level]:
        """The visible directories so many levels down, parents first, each in slices; never through a link.

        A level's descriptor is open until the next one is asked for.
        """
        waiting = [("", 1)] if depth > 0 else []
        while waiting:
            path, deep = waiting.pop()
            try:
                descriptor = self.open(path)
            except OSError:
                yield Level(path, -1, [])
                continue
            inside: list[str] = []
            try:
                for directories, names in _slices(descriptor):
                    inside += directories if deep < depth else ()
                    yield Level(path, descriptor, names)
            except OSError:
                yield Level(path, -1, [])
            finally:
                os.close(descriptor)
            if inside:
                denied = self._guard.deny.within(self.at(path))
                prefix = f"{path}/" if path else ""
                waiting += [(prefix + name, deep + 1) for name in reversed(inside) if not denied(name)]

    def _joined(self, path: str) -> str:
        return f"{self._relative}/{path}" if self._relative and path else self._relative or path


def _slices(directory: int) -> Iterator[tuple[list[str], list[str]]]:
    """The names of directories and of everything else, some thousand at a time."""
    with os.scandir(directory) as entries:
        while block := list(islice(entries, _SLICE)):
            directories: list[str] = []
            names: list[str] = []
            for entry in block:
                (directories if entry.is_dir(follow_symlinks=False) else names).append(entry.name)
            yield directories, names
