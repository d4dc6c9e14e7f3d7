"""One member of an archive, on its way in or out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal, NamedTuple

PIECE = 256 << 10  # bytes of content in memory at a time

Kind = Literal["file", "directory", "link", "hardlink"]


class Source(NamedTuple):
    """What is packed. Whoever hands it out owns the descriptor, and closes it afterwards."""

    name: bytes  # relative, with slashes
    mode: int  # type and permission bits, as of lstat
    mtime: int  # Unix seconds
    size: int = 0
    descriptor: int = -1  # of a regular file
    link: bytes = b""  # text of a symbolic link


class Entry(NamedTuple):
    """What an archive says of one member."""

    name: str  # relative, without "." and ".."; "" is the archive's own top
    kind: Kind
    mode: int
    mtime: float
    size: int = 0
    target: str = ""  # text of a link; name of the member that a hard link means


def content(source: Source) -> Iterator[bytes]:
    """What the file holds, up to the size that it had when it was opened."""
    offset = 0
    while offset < source.size:
        piece = os.pread(source.descriptor, min(PIECE, source.size - offset), offset)
        if not piece:
            return
        offset += len(piece)
        yield piece
