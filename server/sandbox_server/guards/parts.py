"""Half-written files, and directories of them. No caller can name one, and no listing shows one."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

_PREFIX = ".nsb-"
_SUFFIX = ".part"


def new_part_name() -> str:
    """A name that nobody has."""
    return f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"


def is_part(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def names_a_part(path: str) -> bool:
    """True when any component of the path is such a name."""
    return _PREFIX in path and any(map(is_part, path.split("/")))


def hold_part(descriptor: int) -> None:
    """Mark an open part as being written. The mark is a lock, so it ends with the process, however that ends."""
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_stale(descriptor: int) -> bool:
    """Whether nobody writes an open part any more."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
