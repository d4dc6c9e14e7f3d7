"""Small files of the kernel and of installed packages: read whole, bounded, never waited for."""

from __future__ import annotations

import os
import stat

MOST_BYTES = 1 << 20


def read(path: str, most: int = MOST_BYTES) -> bytes:
    """The first bytes of a regular file; nothing where there is none that we may read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return b""
    pieces = []
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        while most > 0 and (piece := os.read(descriptor, min(most, 1 << 16))):
            pieces.append(piece)
            most -= len(piece)
    except OSError:  # what it described is gone
        return b""
    finally:
        os.close(descriptor)
    return b"".join(pieces)


def text(path: str, most: int = MOST_BYTES) -> str:
    """The same as text; bytes that are not UTF-8 are replaced."""
    return read(path, most).decode("utf-8", "replace")


def number(path: str) -> int | None:
    """A file that holds one whole number; None for one that holds none, or ``max``."""
    found = text(path, 64).strip()
    return int(found) if found.isdecimal() else None
