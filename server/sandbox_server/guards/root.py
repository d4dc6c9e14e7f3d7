"""A directory that callers may work in, held open. Everything below it is reached from its descriptor."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from threading import Lock

from .openat2 import OpenAt2

HERE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW


class Door:
    """Opens names below a descriptor and never follows a link, so what was judged by name is what gets opened."""

    __slots__ = ("_openat2",)

    def __init__(self, openat2: OpenAt2 | None) -> None:
        self._openat2 = openat2

    def try_open(self, directory: int, relative: str, flags: int, cached: bool = False) -> int:
        """The quick way: a descriptor when no link was met, else -1, which says nothing about why."""
        if self._openat2 is None:
            return -1
        return self._openat2(directory, relative, flags, cached)

    def open(self, directory: int, relative: str, flags: int) -> int:
        """Open step by step where the quick way fails; a link on the way is an `OSError` like any other."""
        flags |= os.O_NOFOLLOW
        descriptor = self.try_open(directory, relative, flags)
        if descriptor >= 0:
            return descriptor
        *parents, name = relative.split("/")
        current = directory
        try:
            for parent in parents:
                child = os.open(parent, HERE, dir_fd=current)
                if current != directory:
                    os.close(current)
                current = child
            return os.open(name or ".", flags, dir_fd=current)
        finally:
            if current != directory:
                os.close(current)

    def make(self, directory: int, relative: str, mode: int = 0o777) -> int:
        """Make what is missing of a path of directories; a descriptor of the last one."""
        current = os.open(".", HERE, dir_fd=directory)
        try:
            for name in relative.split("/") if relative else ():
                try:
                    child = os.open(name, HERE, dir_fd=current)
                except FileNotFoundError:
                    # If somebody else was quicker and made no directory, opening it says so.
                    with suppress(FileExistsError):
                        os.mkdir(name, mode, dir_fd=current)
                    child = os.open(name, HERE, dir_fd=current)
                os.close(current)
                current = child
        except BaseException:
            os.close(current)
            raise
        return current


class Root:
    """One allowed directory.

    Links in the configured path are resolved once, here. Later the directory is only ever reached through the names
    found then, without following links, so whoever can write beside it cannot move it elsewhere.
    """

    __slots__ = ("_door", "_lock", "fd", "path", "prefix", "resolved")

    def __init__(self, path: str, door: Door) -> None:
        self.path = path
        self.resolved = os.path.realpath(path)
        self.prefix = self.resolved.rstrip("/") + "/"
        self.fd = -1  # -1 while the directory does not exist
        self._door = door
        self._lock = Lock()
        self.present()

    def at(self, relative: str) -> str:
        return self.prefix + relative if relative else self.resolved

    def present(self) -> bool:
        """Whether the directory is there. One that was missing, or removed and made again, is opened anew."""
        with self._lock:
            if self.fd >= 0 and os.fstat(self.fd).st_nlink:
                return True
            try:
                self._adopt(self._from_the_top(lambda top, names: self._door.open(top, names, HERE)))
            except OSError:
                return False
            return True

    def open(self, relative: str, flags: int) -> int:
        if self.fd < 0 and not self.present():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.path)
        return self._door.open(self.fd, relative, flags)

    def make(self, relative: str, mode: int = 0o777) -> int:
        """Make a directory below, and this one when it is missing; a descriptor of it."""
        if not self.present():
            with self._lock:
                self._adopt(self._from_the_top(self._door.make))
        return self._door.make(self.fd, relative, mode)

    def close(self) -> None:
        with self._lock:
            if self.fd >= 0:
                os.close(self.fd)
                self.fd = -1

    def _from_the_top(self, reach: Callable[[int, str], int]) -> int:
        top = os.open("/", HERE)
        try:
            return reach(top, self.resolved[1:])
        finally:
            os.close(top)

    def _adopt(self, descriptor: int) -> None:
        if self.fd < 0:
            self.fd = descriptor
            return
        # Other threads hold the number: exchange what it stands for, never the number.
        os.dup2(descriptor, self.fd, inheritable=False)
        os.close(descriptor)
