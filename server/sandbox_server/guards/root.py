"""A directory that callers may work in, held open. Everything below it is reached from its descriptor."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from threading import Lock

from .door import HERE, Door


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
