"""One judged place in the file system, and what may be done there."""

from __future__ import annotations

import errno
import os
import stat
from bisect import bisect_right
from collections.abc import Iterator
from threading import Lock
from types import EllipsisType, TracebackType
from typing import TYPE_CHECKING

from ..access import Op
from ..messages import Refusal, quoted
from .below import Below
from .door import HERE
from .listing import look_at, names_as_read
from .modes import set_mode, set_modes_below
from .replace import Replacement
from .root import Root
from .staging import Staging
from .tree import move_entry, remove_entry

if TYPE_CHECKING:
    from .path_guard import PathGuard

_WRITE = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_WRONG_KIND = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)
_IN_THE_WAY = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR)


class Location:
    """A place below a root, known by the real names that lead there.

    It is not a string to be used later: each operation starts at the root's descriptor and follows no link, so it
    reaches exactly the names that were judged, or fails. Close it once.
    """

    __slots__ = ("_descriptor", "_follows", "_guard", "_link", "_op", "_relative", "_root", "missing", "path")

    def __init__(self, guard: PathGuard, op: Op, root: Root, relative: str, *, follow: bool,
                 missing: bool = False, descriptor: int = -1, link: str | None = None) -> None:  # fmt: skip
        self._guard = guard
        self._op = op
        self._root = root
        self._relative = relative
        self._descriptor = descriptor  # of the object itself, for looking only
        self._follows = follow
        self._link = link
        self.missing = missing
        self.path = root.at(relative)

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def is_root(self) -> bool:
        return self._guard.is_root(self.path)

    def __enter__(self) -> Location:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def stat(self) -> os.stat_result:
        """Metadata of what was located, even when its name means something else by now."""
        return os.fstat(self._object())

    def stat_now(self) -> os.stat_result:
        """Metadata of what the name means at this moment."""
        descriptor = self._root.open(self._relative, os.O_PATH)
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    def readlink(self) -> str | None:
        """The text of the link that the caller named, followed or not; None when it was no link."""
        if self._link is None and not self._follows and not self.missing and stat.S_ISLNK(self.stat().st_mode):
            self._link = os.readlink("", dir_fd=self._descriptor)
        return self._link

    def turn(self) -> Lock:
        """Held while this file is looked at and then changed; no other request does so meanwhile."""
        return self._guard.turns.of(self.path)

    def turn_beside(self) -> Lock:
        """Held while a small file is made here: those of one directory take turns."""
        return self._guard.turns.beside(self.path)

    def open(self) -> int:
        """A descriptor of a regular file, for reading."""
        return self._open_file(_READ)

    def open_for_writing(self, *, append: bool) -> int:
        """A descriptor of a regular file that is there, to change it where it is."""
        return self._open_file(_WRITE | os.O_APPEND if append else _WRITE)

    def _open_file(self, flags: int) -> int:
        descriptor = self._open(flags)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise Refusal("not_found", f"{quoted(self.path)} is not a regular file; name a file")
            self._guard.judge_links(found, self.path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def open_directory(self) -> int:
        """A descriptor of a directory, for listing and as a ``dir_fd``."""
        return self._open(os.O_RDONLY | os.O_DIRECTORY)

    def scan(
        self, directory: int, *, ordered: bool, after: str = ""
    ) -> Iterator[tuple[str, os.stat_result, str | None]]:
        """Name, metadata and link text of the entries of this directory, opened by the caller.

        In the order of names and only those behind `after`, or else as they come.
        """
        if ordered:
            names = sorted(os.listdir(directory))
            return look_at(directory, names[bisect_right(names, after) :], self.path, self._guard)
        return look_at(directory, names_as_read(directory), self.path, self._guard)

    def inside(self) -> Below:
        """Everything under this directory, for whoever looks at more than one level; it outlives this location."""
        return Below(self._guard, self._root, self._relative)

    def child(self, name: str, *, follow: bool = False) -> Location:
        """An entry of this directory, judged like any path."""
        return self._guard.child(self._root, self._relative, name, self._op, follow)

    def deeper(self, relative: str) -> Location:
        """Something deeper in this directory, by the names that a listing gave; judged like any path."""
        relative = f"{self._relative}/{relative}" if self._relative else relative
        return self._guard.inside(self._root, relative, self._op)

    def admits_links(self, found: os.stat_result) -> bool:
        """Whether the rule lets a file have as many names as it has."""
        return self._guard.admits_links(found)

    def make_directories(self, mode: int = 0o777) -> None:
        """Make this directory and its missing parents; an existing one is fine."""
        os.close(self._make(self._relative, mode))
        self.missing = False

    def stage(self) -> Staging:
        """A tree that is to appear in this directory, which is made when it is missing."""
        return Staging(self, self._guard)

    def replace(self, *, overwrite: bool = True, durable: bool = False,
                old: os.stat_result | None | EllipsisType = ...) -> Replacement:  # fmt: skip
        """New content for this file; missing parents are made. `old` when the caller has just looked."""
        directory, name = self._parent(make=True)
        return Replacement(directory, name, self.path, overwrite=overwrite, durable=durable, old=old)

    def set_mode(self, mode: int, *, recursive: bool) -> int:
        """Give it these permission bits, and all below it when `recursive`; how many things changed."""
        target = self._object()
        facts = os.fstat(target)
        if not (stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode)):
            raise Refusal("not_found", f"{quoted(self.path)} is neither a file nor a directory; its bits stay")
        if mode & 0o700 != 0o700:
            self._guard.protect(self.path)  # nobody could get in any more
        self._guard.judge_links(facts, self.path)
        changed = 0
        if recursive and stat.S_ISDIR(facts.st_mode):
            self._guard.judge_tree(target, ".", self.path)
            changed = set_modes_below(target, self.path, mode, self._guard)
        return changed + set_mode(target, mode)

    def is_target_of(self, part: Replacement) -> bool:
        """Whether new content that was begun earlier still belongs here."""
        directory, name = self._parent()
        try:
            return part.is_for(directory, name)
        finally:
            os.close(directory)

    def remove(self) -> None:
        """Remove a file, a link, or a directory with everything in it."""
        self._guard.protect(self.path)
        directory, name = self._parent()
        try:
            self._guard.judge_tree(directory, name, self.path)
            remove_entry(directory, name)
        finally:
            os.close(directory)

    def remove_empty(self) -> None:
        """Remove a directory that has nothing in it."""
        directory, name = self._parent()
        try:
            os.rmdir(name, dir_fd=directory)
        finally:
            os.close(directory)

    def move_to(self, destination: Location) -> str:
        """Move here to there, or into it when it is a directory. Answers the path that it has then."""
        self._guard.protect(self.path)
        if not destination.missing and stat.S_ISDIR(destination.stat().st_mode):
            with destination.child(self.name) as inside:
                return self._move(inside)
        return self._move(destination)

    def _move(self, target: Location) -> str:
        if target.path.startswith(self.path + "/"):
            raise self._into_itself()
        directory, name = self._parent()
        try:
            self._guard.judge_tree(directory, name, self.path)
            target._guard.judge_tree(directory, name, target.path)
            new_directory, new_name = target._parent(make=True)
            try:
                move_entry(directory, name, new_directory, new_name)
            except OSError as error:
                if error.errno == errno.EINVAL:  # by way of a directory that was moved meanwhile
                    raise self._into_itself() from None
                if error.errno not in _IN_THE_WAY:
                    raise
                raise Refusal("file_exists", f"{quoted(target.path)} is in the way; remove it first") from None
            finally:
                os.close(new_directory)
        finally:
            os.close(directory)
        return target.path

    def _into_itself(self) -> Refusal:
        return Refusal("conflict", f"{quoted(self.path)} cannot move into itself; choose another destination")

    def _object(self) -> int:
        if self._descriptor < 0:
            if self.missing:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
            self._descriptor = self._root.open(self._relative, os.O_PATH)
        return self._descriptor

    def _open(self, flags: int) -> int:
        try:
            return self._root.open(self._relative, flags)
        except OSError as error:
            if error.errno not in _WRONG_KIND:
                raise
            kind = "directory" if flags & os.O_DIRECTORY else "file"
            raise Refusal("not_found", f"no {kind} at {quoted(self.path)}; check the path") from None

    def _make(self, relative: str, mode: int = 0o777) -> int:
        try:
            return self._root.make(relative, mode)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            raise Refusal("file_exists", f"a file is in the way of {quoted(self.path)}; choose another path") from None

    def _parent(self, *, make: bool = False) -> tuple[int, str]:
        """A descriptor of the directory that holds it, and its name there."""
        if not self._relative:
            raise Refusal("not_found", f"{quoted(self.path)} is a directory; name something in it")
        parent, _, name = self._relative.rpartition("/")
        if make:
            try:
                return self._root.open(parent, HERE), name
            except OSError:
                return self._make(parent), name
        return self._root.open(parent, HERE), name
