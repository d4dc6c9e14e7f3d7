"""Open what lies below a descriptor, by names alone."""

from __future__ import annotations

import os
from contextlib import suppress

from .openat2 import OpenAt2

HERE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
_STAGE = 1000  # characters, each of at most four bytes: the kernel takes less than 4096 bytes at a time


class Door:
    """Opens names below a descriptor and never follows a link, so what was judged by name is what gets opened."""

    __slots__ = ("_openat2",)

    def __init__(self, openat2: OpenAt2 | None) -> None:
        self._openat2 = openat2

    def try_open(self, directory: int, relative: str, flags: int, cached: bool = False) -> int:
        """The quick way: a descriptor when no link was met, else -1, which says nothing about why."""
        if self._openat2 is None:
            return -1
        if len(relative) <= _STAGE:
            return self._openat2(directory, relative, flags, cached)
        return self._open_in_stages(self._openat2, directory, relative, flags, cached)

    @staticmethod
    def _open_in_stages(openat2: OpenAt2, directory: int, relative: str, flags: int, cached: bool) -> int:
        """The same for a path that is too long for one call; however deep a tree is, stages are few."""
        current = directory
        while current >= 0 and len(relative) > _STAGE:
            cut = relative.rfind("/", 0, _STAGE)
            stage, relative = relative[: max(cut, 0)], relative[cut + 1 :]
            deeper = openat2(current, stage, HERE, cached) if stage else -1  # a name this long is nobody's
            if current != directory:
                os.close(current)
            current = deeper
        if current < 0:
            return -1
        try:
            return openat2(current, relative, flags, cached)
        finally:
            os.close(current)

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
