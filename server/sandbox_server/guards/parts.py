"""Half-written files, and directories of them. No caller can name one, and no listing shows one."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress

_PREFIX = ".nsb-"
_SUFFIX = ".part"
_QUICK = f".quick{_SUFFIX}"
_QUICK_SECONDS = 60.0  # far more than it takes to write what is in memory already


def new_part_name(*, quick: bool = False) -> str:
    """A name that nobody has. A `quick` part is put in place at once, so it is not held: it is stale when it is old."""
    return f"{_PREFIX}{os.urandom(8).hex()}{_QUICK if quick else _SUFFIX}"


def is_part(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def names_a_part(path: str) -> bool:
    """True when any component of the path is such a name."""
    return _PREFIX in path and any(map(is_part, path.split("/")))


def hold_part(descriptor: int) -> None:
    """Mark an open part as being written. The mark is a lock, so it ends with the process, however that ends."""
    with suppress(OSError):  # some file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_stale(descriptor: int, name: str) -> bool:
    """Whether nobody writes an open part any more."""
    if name.endswith(_QUICK):
        return time.time() - os.fstat(descriptor).st_ctime > _QUICK_SECONDS
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
