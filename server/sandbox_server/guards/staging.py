"""A hidden directory in which a tree is built before it takes its place: all of it is judged, or nothing appears.

Members are made by name alone below its descriptor; no link is followed, so none can be written through. Taking place
is one rename for each file or new directory: a reader sees the old file or the new one, and a crash in between leaves
some of each.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from ..messages import Refusal, quoted
from .door import HERE, Door
from .parts import make_part_directory, new_part_name
from .tree import Cursor, move_entry, remove_tree

if TYPE_CHECKING:
    from .location import Location
    from .path_guard import PathGuard

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_IN_THE_WAY = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)


class Staging:
    """A tree that is to appear in `target`. Leaving without `commit` leaves nothing behind."""

    def __init__(self, target: Location, guard: PathGuard) -> None:
        self._target = target
        self._guard = guard
        self._door = Door(None)
        self._made = target.missing
        self.directories: set[str] = set()
        target.make_directories()
        self._directory = target.open_directory()
        self._part = ""
        self._top = self._held = -1
        self._held_path = ""
        try:
            self._part, self._top = make_part_directory(self._directory)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(keep=error is None)

    def close(self, *, keep: bool = False) -> None:
        """Remove what has not taken its place; and the target, if it was made for this and stays empty."""
        for descriptor in (self._held, self._top):
            if descriptor >= 0:
                os.close(descriptor)
        self._held = self._top = -1
        if self._part:
            with suppress(FileNotFoundError):
                remove_tree(self._directory, self._part)
        os.close(self._directory)
        if self._made and not keep:
            with suppress(OSError):
                self._target.remove_empty()

    def spool(self) -> int:
        """A file without a name, in the same file system."""
        try:
            return os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600, dir_fd=self._top)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
        name = new_part_name()
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=self._top)
        os.unlink(name, dir_fd=self._top)
        return descriptor

    def free(self) -> int | None:
        """Bytes left in this file system; None where it counts none."""
        space = os.fstatvfs(self._top)
        return space.f_bavail * space.f_frsize if space.f_blocks else None

    def judge(self, name: str) -> None:
        """Refuse a member that may not be written where it would end up."""
        self._guard.check(f"{self._target.path.rstrip('/')}/{name}", "write")

    def judge_link(self, name: str, text: str) -> None:
        """Refuse a link that leads out of the allowed directories, or to what is denied.

        Only at its beginning may its text go up: there the directories are real ones, so the way up is certain.
        """
        if self._guard.rule.symlinks == "never":
            raise Refusal("symlink_denied", f"{quoted(name)} is a symbolic link, which the rule forbids")
        parts = [part for part in text.split("/") if part not in ("", ".")]
        down = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
        where = text if text.startswith("/") else f"{self._target.path.rstrip('/')}/{name}/../{text}"
        if ".." in parts[down:] or len(where) > 4096:
            raise _leads_away(name)
        try:
            self._guard.locate(where, "read").close()
        except Refusal:
            raise _leads_away(name) from None

    def add_directory(self, name: str, mode: int) -> None:
        if not name:
            return
        self._hold(name)
        with suppress(OSError):
            descriptor = os.open(".", _DIRECTORY, dir_fd=self._held)
            try:
                os.fchmod(descriptor, mode & 0o777 | 0o700)  # what we could not enter, we could not fill
            finally:
                os.close(descriptor)

    def add_file(self, name: str, pieces: Iterable[bytes | memoryview], mode: int, mtime: float) -> None:
        directory, last = self._parent(name)
        try:
            descriptor = os.open(last, _NEW, 0o600, dir_fd=directory)
        except FileExistsError:
            raise _twice(name) from None
        try:
            for piece in pieces:
                view = memoryview(piece)
                while view:
                    view = view[os.write(descriptor, view) :]
            os.fchmod(descriptor, mode & 0o777)
            with suppress(OSError, OverflowError):
                os.utime(descriptor, (mtime, mtime))
        finally:
            os.close(descriptor)

    def add_link(self, name: str, text: str) -> None:
        directory, last = self._parent(name)
        try:
            os.symlink(text, last, dir_fd=directory)
        except FileExistsError:
            raise _twice(name) from None

    def add_hard_link(self, name: str, other: str) -> None:
        """A second name for a file of this tree."""
        if self._guard.rule.hardlinks == "deny":
            raise Refusal("hardlink_denied", f"{quoted(name)} is a second name of a file; pack it as a file")
        parent, _, last = other.rpartition("/")
        try:
            source = self._door.open(self._top, parent, HERE) if parent else os.dup(self._top)
        except OSError:
            raise _no_file(name) from None
        try:
            if not stat.S_ISREG(os.stat(last, dir_fd=source, follow_symlinks=False).st_mode):
                raise _no_file(name)
            directory, own = self._parent(name)
            os.link(last, own, src_dir_fd=source, dst_dir_fd=directory, follow_symlinks=False)
        except FileExistsError:
            raise _twice(name) from None
        except FileNotFoundError:
            raise _no_file(name) from None
        finally:
            os.close(source)

    def commit(self, *, overwrite: bool) -> None:
        """Put everything in place; first look whether anything is in the way."""
        for move in (False, True):
            here, there = Cursor(self._top, ".", _DIRECTORY), Cursor(self._directory, ".", _DIRECTORY)
            try:
                self._merge(here, there, overwrite, move)
            finally:
                here.close()
                there.close()

    def _merge(self, here: Cursor, there: Cursor, overwrite: bool, move: bool) -> None:
        waiting = [self._settle(here, there, overwrite, move)]
        while waiting:
            if not waiting[-1]:
                waiting.pop()
                if waiting:
                    here.up()
                    there.up()
                continue
            name = waiting[-1].pop()
            here.down(name)
            there.down(name)
            waiting.append(self._settle(here, there, overwrite, move))

    def _settle(self, here: Cursor, there: Cursor, overwrite: bool, move: bool) -> list[str]:
        """Look at, or move, the entries of one directory; answers those that are directories on both sides."""
        both = []
        directories, others = here.listing()
        for name in directories + others:
            try:
                old = os.stat(name, dir_fd=there.descriptor, follow_symlinks=False)
            except FileNotFoundError:
                old = None
            if old is not None and name in directories and stat.S_ISDIR(old.st_mode):
                both.append(name)
                continue
            if old is not None:
                regular = stat.S_ISREG(old.st_mode) or stat.S_ISLNK(old.st_mode)
                if not overwrite or name in directories or not regular:
                    raise _in_the_way(name)
                self._guard.judge_links(old, name)
            if move:
                self._move(name, here.descriptor, there.descriptor, overwrite)
        return both

    def _move(self, name: str, here: int, there: int, overwrite: bool) -> None:
        try:
            if not overwrite and not stat.S_ISDIR(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                os.link(name, name, src_dir_fd=here, dst_dir_fd=there, follow_symlinks=False)
                os.unlink(name, dir_fd=here)
            else:
                move_entry(here, name, there, name)
        except OSError as error:
            if error.errno not in _IN_THE_WAY:
                raise
            raise _in_the_way(name) from None

    def _parent(self, name: str) -> tuple[int, str]:
        parent, _, last = name.rpartition("/")
        if not last:
            raise Refusal("bad_archive", "the archive holds a file without a name")
        self._hold(parent)
        return self._held, last

    def _hold(self, path: str) -> None:
        """Make the directory where it is missing, and hold it: members of one come one after the other."""
        if self._held >= 0 and path == self._held_path:
            return
        try:
            descriptor = self._door.make(self._top, path)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            raise Refusal("bad_archive", f"{quoted(path)} is a file or a link, and a directory too") from None
        if self._held >= 0:
            os.close(self._held)
        self._held, self._held_path = descriptor, path
        while path and path not in self.directories:
            self.directories.add(path)
            path = path.rpartition("/")[0]


def _twice(name: str) -> Refusal:
    return Refusal("bad_archive", f"{quoted(name)} is in the archive twice")


def _no_file(name: str) -> Refusal:
    return Refusal("bad_archive", f"{quoted(name)} is a second name of something that is no file before it")


def _leads_away(name: str) -> Refusal:
    return Refusal("bad_archive", f"the link {quoted(name)} leads out of the allowed directories")


def _in_the_way(name: str) -> Refusal:
    return Refusal("file_exists", f"{quoted(name)} is in the way; allow overwriting, or remove it first")
