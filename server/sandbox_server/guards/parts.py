"""Names of half-written files. No caller can name one, and no listing shows one."""

from __future__ import annotations

import os

_PREFIX = ".nsb-"
_SUFFIX = ".part"


def new_part_name() -> str:
    return f"{_PREFIX}{os.urandom(8).hex()}{_SUFFIX}"


def is_part(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def names_a_part(path: str) -> bool:
    """True when any component of the path is such a name."""
    return _PREFIX in path and any(map(is_part, path.split("/")))
