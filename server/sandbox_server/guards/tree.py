"""Whole directories: look through, remove, copy, move.

No recursion, and one descriptor per side however deep it goes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress

from ..messages import Refusal, quoted
from .door import HERE
from .parts import is_stale, make_part_directory
from .replace import copy_content

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Cursor:
    """A directory descriptor that moves down and up.

    Going up asks the kernel for ``..``, which lies when the directory was moved meanwhile. So each step up must arrive
    at the very directory that the step down left.
    """

    __slots__ = ("_trail", "descriptor")

    def __init__(self, directory: int, name: str = ".", flags: int = HERE) -> None:
        self.descriptor = os.open(name, flags, dir_fd=directory)
        self._trail: list[tuple[int, int]] = []

    def down(self, name: str) -> None:
        child = os.open(name, _DIRECTORY, dir_fd=self.descriptor)
        self._trail.append(_identity(self.descriptor))
        os.close(self.descriptor)
        self.descriptor = child

    def up(self) -> None:
        # The starting point need not be readable.
        parent = os.open("..", _DIRECTORY if len(self._trail) > 1 else HERE, dir_fd=self.descriptor)
        os.close(self.descriptor)
        self.descriptor = parent
        if _identity(parent) != self._trail.pop():
            raise Refusal("conflict", "the directory was moved meanwhile; try again when it is at rest")

    def close(self) -> None:
        os.close(self.descriptor)

    def listing(self) -> tuple[list[str], list[str]]:
        """The names of directories, and the names of everything else."""
        directories: list[str] = []
        others: list[str] = []
        # A directory that was removed after it was opened has no entries, not even none.
        with suppress(FileNotFoundError), os.scandir(self.descriptor) as entries:
            for entry in entries:
                (directories if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
        return directories, others


def each_directory(
    directory: int, name: str, path: str, look: Callable[[int, str, list[str]], None], *, skip_unreadable: bool = False
) -> None:
    """Call `look` with (descriptor, path, names) for a directory and every one below it, parents first."""
    cursor = Cursor(directory, name, _DIRECTORY)
    try:
        paths = [path.rstrip("/")]
        waiting = [_look_at(cursor, path, look)]
        while waiting:
            if not waiting[-1]:
                waiting.pop()
                paths.pop()
                if waiting:
                    cursor.up()
                continue
            child = waiting[-1].pop()
            try:
                cursor.down(child)
            except FileNotFoundError:
                continue  # gone while we were elsewhere
            except PermissionError:
                if not skip_unreadable:
                    raise
                continue
            paths.append(f"{paths[-1]}/{child}")
            waiting.append(_look_at(cursor, paths[-1], look))
    finally:
        cursor.close()


def remove_tree(directory: int, name: str) -> None:
    """Remove a directory and everything in it."""
    cursor = Cursor(directory)
    try:
        cursor.down(name)
        names = [name]
        waiting = [_remove_files(cursor)]
        while names:
            if waiting[-1]:
                child = waiting[-1].pop()
                with suppress(FileNotFoundError):  # others may be removing it too
                    cursor.down(child)
                    names.append(child)
                    waiting.append(_remove_files(cursor))
            else:
                waiting.pop()
                cursor.up()
                with suppress(FileNotFoundError):
                    os.rmdir(names.pop(), dir_fd=cursor.descriptor)
    finally:
        cursor.close()


def copy_entry(source: int, name: str, target: int, new_name: str) -> None:
    """Copy a file, a link or a whole directory to a name that does not exist yet."""
    if not is_directory(source, name):
        _copy_other(source, name, target, new_name)
        return
    origin, copy = Cursor(source), Cursor(target)
    try:
        waiting: list[list[str]] = []
        _copy_directory(origin, name, copy, new_name, waiting)
        while waiting:
            if waiting[-1]:
                child = waiting[-1].pop()
                _copy_directory(origin, child, copy, child, waiting)
            else:
                waiting.pop()
                _copy_dress(origin.descriptor, copy.descriptor)
                origin.up()
                copy.up()
    finally:
        origin.close()
        copy.close()


def remove_entry(directory: int, name: str) -> None:
    """Remove a file, a link, or a directory with everything in it."""
    if is_directory(directory, name):
        remove_tree(directory, name)
    else:
        os.unlink(name, dir_fd=directory)


def move_entry(directory: int, name: str, new_directory: int, new_name: str) -> None:
    """Rename; between file systems copy to a hidden place, put that where it belongs, and remove the original."""
    try:
        os.rename(name, new_name, src_dir_fd=directory, dst_dir_fd=new_directory)
        _drop_second_name(directory, name, new_directory, new_name)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    part, copies = make_part_directory(new_directory)
    try:
        try:
            copy_entry(directory, name, copies, new_name)
            os.rename(new_name, new_name, src_dir_fd=copies, dst_dir_fd=new_directory)
        finally:
            os.close(copies)
    finally:
        remove_tree(new_directory, part)
    remove_entry(directory, name)


def _drop_second_name(directory: int, name: str, new_directory: int, new_name: str) -> None:
    """Rename does nothing when both names are hard links to one file; the old one has to go all the same."""
    try:
        old = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return  # as after every other rename
    new = os.stat(new_name, dir_fd=new_directory, follow_symlinks=False)
    same_place = name == new_name and _identity(directory) == _identity(new_directory)
    if not same_place and (old.st_dev, old.st_ino) == (new.st_dev, new.st_ino) and not stat.S_ISDIR(old.st_mode):
        os.unlink(name, dir_fd=directory)


def remove_stale_part(directory: int, name: str) -> bool:
    """Remove a part unless somebody still writes it; whether it is gone now."""
    try:
        part = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=directory)
    except OSError:
        return False
    try:
        if not is_stale(part):
            return False
        remove_entry(directory, name)
        return True
    except FileNotFoundError:
        return False  # it took its place, or was given up, meanwhile
    finally:
        os.close(part)


def is_directory(directory: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino


def _look_at(cursor: Cursor, path: str, look: Callable[[int, str, list[str]], None]) -> list[str]:
    directories, others = cursor.listing()
    look(cursor.descriptor, path, directories + others)
    return directories


def _remove_files(cursor: Cursor) -> list[str]:
    directories, others = cursor.listing()
    for name in others:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=cursor.descriptor)
    return directories


def _copy_directory(origin: Cursor, name: str, copy: Cursor, new_name: str, waiting: list[list[str]]) -> None:
    os.mkdir(new_name, 0o700, dir_fd=copy.descriptor)
    origin.down(name)
    copy.down(new_name)
    directories, others = origin.listing()
    for other in others:
        _copy_other(origin.descriptor, other, copy.descriptor, other)
    waiting.append(directories)


def _copy_other(source: int, name: str, target: int, new_name: str) -> None:
    kind = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
    if stat.S_ISLNK(kind):
        os.symlink(os.readlink(name, dir_fd=source), new_name, dir_fd=target)
        return
    if not stat.S_ISREG(kind):
        raise Refusal("conflict", f"{quoted(name)} is a pipe, socket or device and cannot move to another file system")
    origin = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=source)
    try:
        copy = os.open(new_name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=target)
        try:
            copy_content(origin, copy)
            _copy_dress(origin, copy)
        finally:
            os.close(copy)
    finally:
        os.close(origin)


def _copy_dress(origin: int, copy: int) -> None:
    like = os.fstat(origin)
    with suppress(PermissionError):
        os.fchown(copy, like.st_uid, like.st_gid)
    os.fchmod(copy, like.st_mode & 0o1777)  # what was set-id stays so where it is, and is not made anew
    os.utime(copy, ns=(like.st_atime_ns, like.st_mtime_ns))
