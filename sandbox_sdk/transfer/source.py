"""Where uploaded bytes come from: a path, bytes, a binary file, an iterator. Their size is known before they go."""

from __future__ import annotations

import asyncio
import os
import stat
import tempfile
from collections.abc import AsyncIterable, Iterable, Iterator
from typing import IO, Any, TypeAlias

#: What can be uploaded beside a path.
Data: TypeAlias = bytes | bytearray | memoryview | IO[bytes] | Iterable[bytes] | AsyncIterable[bytes]

PIECE = 1 << 20  # what httpx sends fastest


class Source:
    """So many bytes from a binary file, from `start` on."""

    def __init__(self, file: IO[bytes], size: int, label: str, *, start: int = 0, owned: bool = True) -> None:
        self._file = file
        self._start = start
        self._owned = owned
        self.size = size
        self.label = label

    def pieces(self) -> Iterator[bytes]:
        """All of it, never more than a piece in memory. A source that ends early raises `EOFError`."""
        self._file.seek(self._start)
        left = self.size
        while left:
            piece = self._file.read(min(left, PIECE))
            if not piece:
                raise EOFError(f"{self.label} became shorter meanwhile: {left} of {self.size} bytes are missing")
            left -= len(piece)
            yield piece

    def close(self) -> None:
        if self._owned:
            self._file.close()

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Memory(Source):
    """Bytes in memory, sent without a copy of the whole."""

    def __init__(self, data: Any) -> None:
        self._view = memoryview(data).cast("B")
        self.size = len(self._view)
        self.label = "the data"

    def pieces(self) -> Iterator[bytes]:
        for start in range(0, self.size, PIECE):
            yield bytes(self._view[start : start + PIECE])

    def close(self) -> None:
        self._view.release()


def of_path(path: str) -> Source:
    """A local file. What is no regular file has no size, so it is read to its end first."""
    file = open(path, "rb", buffering=0)  # noqa: SIM115 (the source closes it)
    try:
        facts = os.fstat(file.fileno())
        label = f'"{path}"'
        if stat.S_ISREG(facts.st_mode):
            return Source(file, facts.st_size, label)
        with file:
            return spool(iter(lambda: file.read(PIECE), b""), label)
    except BaseException:
        file.close()
        raise


def of_data(data: Any) -> Source:
    """Anything but a path: text (as UTF-8), bytes, a binary file object, or an iterable of bytes."""
    if isinstance(data, str):
        return Memory(data.encode("utf-8"))
    if isinstance(data, (bytes, bytearray, memoryview)):
        return Memory(data)
    if hasattr(data, "read"):
        return _of_file(data)
    if isinstance(data, Iterable):
        return spool(data, "the iterator")
    raise TypeError(f"cannot upload {type(data).__name__}; give a path, bytes, a binary file or an iterable of bytes")


def _of_file(file: IO[bytes]) -> Source:
    """A file object, from where it stands to its end; it stays open."""
    label = f'"{file.name}"' if isinstance(getattr(file, "name", None), str) else "the file object"
    if isinstance(file.read(0), str):
        raise TypeError(f"{label} is open as text; open it in binary mode ('rb')")
    try:
        start = file.tell()
        size = file.seek(0, os.SEEK_END) - start
        file.seek(start)
    except (OSError, AttributeError):
        return spool(iter(lambda: file.read(PIECE), b""), label)
    return Source(file, max(size, 0), label, start=start, owned=False)


def spool(pieces: Iterable[Any], label: str) -> Source:
    """Take an unknown number of bytes to a temporary file, because a request must announce its length."""
    spooled = Spool(label)
    try:
        for piece in pieces:
            spooled.add(piece)
        return spooled.source()
    except BaseException:
        spooled.discard()
        raise


class Spool:
    """A temporary file on the way to becoming a `Source`; small content stays in memory."""

    def __init__(self, label: str) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=PIECE)  # noqa: SIM115 (the source closes it)
        self._label = label

    def add(self, piece: Any) -> None:
        if not isinstance(piece, (bytes, bytearray, memoryview)):
            raise TypeError(f"{self._label} yields {type(piece).__name__} instead of bytes")
        self._file.write(piece)

    def source(self) -> Source:
        size = self._file.tell()
        return Source(self._file, size, self._label)

    def discard(self) -> None:
        self._file.close()


async def spooled(pieces: AsyncIterable[bytes]) -> Source:
    """What an asynchronous iterator yields."""
    spool = Spool("the iterator")
    try:
        async for piece in pieces:
            await asyncio.to_thread(spool.add, piece)
        return spool.source()
    except BaseException:
        spool.discard()
        raise
