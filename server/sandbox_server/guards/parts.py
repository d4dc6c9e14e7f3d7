"""Half-written files, and directories of them. No caller can name one, and no listing shows one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from ..messages import Refusal

_PREFIX = ".nsb-"
_SUFFIX = ".part"
_TRIES = 16


def new_part_name() -> str:
    """A name that nobody has."""
    return f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"


def is_part(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def names_a_part(path: str) -> bool:
    """True when any component of the path is such a name."""
    return _PREFIX in path and any(map(is_part, path.split("/")))


def make_part(directory: int, mode: int) -> tuple[str, int]:
    """A new file that is being written: its name, and a descriptor to read and write by."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return _held(lambda name: os.open(name, flags, mode, dir_fd=directory), partial(os.unlink, dir_fd=directory))


def make_part_directory(directory: int) -> tuple[str, int]:
    """A new directory that is being filled: its name, and a descriptor."""

    def make(name: str) -> int:
        os.mkdir(name, 0o700, dir_fd=directory)
        try:
            return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
        except OSError:
            os.rmdir(name, dir_fd=directory)
            raise

    return _held(make, partial(os.rmdir, dir_fd=directory))


def _held(make: Callable[[str], int], remove: Callable[[str], None]) -> tuple[str, int]:
    for _ in range(_TRIES):
        name = new_part_name()
        descriptor = make(name)
        if _hold(descriptor):
            return name, descriptor
        os.close(descriptor)
        with suppress(OSError):
            remove(name)
    raise Refusal("busy", "another program locks every new file here; try again")


def _hold(descriptor: int) -> bool:
    """Mark an open part as being written; False when a sweep, which looks for that mark, has taken it meanwhile.

    The mark is a lock, so it ends with the process, however that ends.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some file systems have no locks; nothing is swept there
        pass
    return os.fstat(descriptor).st_nlink > 0


def is_stale(descriptor: int) -> bool:
    """Whether nobody writes an open part any more."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
