"""Resolve a path component by component, links by hand, without ever leaving the allowed directories.

The kernel's idea of the file system is never trusted with a whole path: each component is looked up alone below an
open descriptor, and a link is read, not followed. So the walk knows the real name of every directory it went through,
and deny patterns are judged on those. A position is either below a root, held by a descriptor, or outside of all of
them; outside, names are only counted, nothing is looked at, until they spell the way back to a root.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import NamedTuple

from .door import HERE
from .root import Root

_MOST_LINKS = 40  # the kernel's own limit
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)


class Found(NamedTuple):
    """Where a path leads: below which root, under which real names."""

    root: Root
    relative: str
    missing: bool  # the last component, or one on the way, does not exist
    link: str | None  # target text, when the path as given ended in a link


def walk(roots: Mapping[str, Root], root: Root, relative: str, follow: bool) -> Found | None:
    """Resolve; None when a link leads out of every root. `roots` holds each root by all its spellings."""
    pending = relative.split("/")[::-1] if relative else []
    link: str | None = None
    met = 0
    position = _Position(roots, root)
    try:
        while pending:
            name = pending.pop()
            text = position.step(name, last=not pending)
            if text is None:
                continue
            if not pending and link is None:
                link = text
                if not follow:
                    position.names.append(name)
                    break
            met += 1
            if met > _MOST_LINKS:
                # Nobody can open it, so it stands for itself, as something missing.
                return Found(root, relative, True, link)
            if text.startswith("/"):
                position.restart()
            pending += [part for part in reversed(text.split("/")) if part not in ("", ".")]
        if position.root is None:
            return None
        return Found(position.root, "/".join(position.names), position.missing, link)
    finally:
        position.close()


class _Position:
    """Where the walk stands. Only one descriptor is open at a time, so deep paths need no more than flat ones."""

    def __init__(self, roots: Mapping[str, Root], root: Root) -> None:
        self._roots = roots
        self._outside: list[str] = []
        self._descriptor = -1
        self._there = 0  # how many of the names exist, once something is missing
        self.root: Root | None
        self.names: list[str]
        self.missing: bool
        self._enter(root)

    def step(self, name: str, last: bool) -> str | None:
        """Go one component on. When it is a link, answer its text and stay."""
        if name == "..":
            self._up()
            return None
        if self.root is None:
            self._outside.append(name)
            self._look_for_a_root()
            return None
        if self.missing:
            self.names.append(name)
            return None
        if last:
            return self._look(name)
        try:
            child = os.open(name, HERE, dir_fd=self._descriptor)
        except FileNotFoundError:
            self._miss(name)
            return None
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            text = self._look(name)
            if text is None and not self.missing:
                # A file in the middle of a path: nothing is below it.
                self.missing = True
                self._there = len(self.names) - 1
            return text
        self._hold(child)
        self.names.append(name)
        return None

    def restart(self) -> None:
        """Begin again at the top of the file system, for an absolute link."""
        self._leave([])

    def close(self) -> None:
        self._hold(-1)

    def _look(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in _NOT_THERE:
                self._miss(name)
            elif error.errno == errno.EINVAL:  # there, and no link
                self.names.append(name)
            else:
                raise
        return None

    def _miss(self, name: str) -> None:
        self.missing = True
        self._there = len(self.names)
        self.names.append(name)

    def _up(self) -> None:
        if self.root is None:
            self._leave(self._outside[:-1])
        elif not self.names:
            self._leave(self.root.resolved.split("/")[1:-1])
        else:
            self.names.pop()
            if not self.missing or len(self.names) <= self._there:
                self.missing = False
                self._hold(self.root.open("/".join(self.names), HERE))

    def _leave(self, outside: list[str]) -> None:
        self._hold(-1)
        self._outside = outside
        self.root = None
        self._look_for_a_root()

    def _look_for_a_root(self) -> None:
        root = self._roots.get("/" + "/".join(self._outside))
        if root is not None:
            self._enter(root)

    def _enter(self, root: Root) -> None:
        self.root = root
        self.names = []
        self.missing = not root.present()
        self._there = -1  # not even the root
        if not self.missing:
            self._hold(root.open("", HERE))

    def _hold(self, descriptor: int) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor
