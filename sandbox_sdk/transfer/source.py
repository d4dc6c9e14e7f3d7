"""Where uploaded bytes come from: a path, bytes, a binary file, an iterator. Their size is known before they go."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import AsyncIterable, Iterable, Iterator
from typing import IO, Any, TypeAlias

from .local import on_this_side

#: What can be uploaded beside a path.
Data: TypeAlias = bytes | bytearray | memoryview | IO[bytes] | Iterable[bytes] | AsyncIterable[bytes]

PIECE = 1 << 20  # what httpx sends fastest
PART = 2 << 20  # of a source of unknown size; it is kept in memory until it has arrived


class Source:
    """So many bytes from a binary file, from `start` on."""

    def __init__(self, file: IO[bytes], size: int, label: str, *, start: int = 0, owned: bool = True) -> None:
        self._file = file
        self._start = start
        self._owned = owned
        self.size = size
        self.label = label

    def pieces(self, start: int = 0) -> Iterator[bytes]:
        """All of it from `start` on, never more than a piece in memory. One that ends early raises `EOFError`."""
        self._file.seek(self._start + start)
        left = self.size - start
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

    def pieces(self, start: int = 0) -> Iterator[bytes]:
        return pieces_of(self._view[start:])

    def close(self) -> None:
        self._view.release()


def pieces_of(view: memoryview) -> Iterator[bytes]:
    """What is in memory, without a copy of the whole."""
    for start in range(0, len(view), PIECE):
        yield bytes(view[start : start + PIECE])


def of_unknown_size(data: Any) -> Iterator[Any] | None:
    """The pieces of a source that ends where it ends; None when its size is known, or it is no source at all."""
    if isinstance(data, (str, bytes, bytearray, memoryview)):
        return None
    if not hasattr(data, "read"):
        return (checked(piece, "the iterator") for piece in data) if isinstance(data, Iterable) else None
    if isinstance(data.read(0), str) or _size_of(data) is not None:
        return None
    return iter(lambda: data.read(PIECE), b"")


def of_path(path: str) -> Source:
    """A local file. What is no regular file has no size, so it is read to its end first."""
    with on_this_side(path):
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
    found = _size_of(file)
    if found is None:
        return spool(iter(lambda: file.read(PIECE), b""), label)
    start, size = found
    return Source(file, size, label, start=start, owned=False)


def _size_of(file: IO[bytes]) -> tuple[int, int] | None:
    """Where a file object stands, and how many bytes follow; None when it cannot tell."""
    try:
        start = file.tell()
        size = file.seek(0, os.SEEK_END) - start
        file.seek(start)
    except (OSError, AttributeError):
        return None
    return start, max(size, 0)


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


class Parts:
    """Cuts what an iterator yields into parts of one size; the last one is shorter."""

    def __init__(self, label: str, size: int = PART) -> None:
        self.label = label
        self._size = size
        self._waiting = bytearray()

    def add(self, piece: Any) -> Iterator[bytes]:
        """The parts that are whole now."""
        self._waiting += checked(piece, self.label)
        while len(self._waiting) >= self._size:
            part = bytes(self._waiting[: self._size])
            del self._waiting[: self._size]
            yield part

    def rest(self) -> bytes:
        return bytes(self._waiting)


def checked(piece: Any, label: str) -> Any:
    """A piece, if it is made of bytes."""
    if not isinstance(piece, (bytes, bytearray, memoryview)):
        raise TypeError(f"{label} yields {type(piece).__name__} instead of bytes")
    return piece


class Spool:
    """A temporary file on the way to becoming a `Source`; small content stays in memory."""

    def __init__(self, label: str) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=PIECE)  # noqa: SIM115 (the source closes it)
        self._label = label

    def add(self, piece: Any) -> None:
        self._file.write(checked(piece, self._label))

    def source(self) -> Source:
        size = self._file.tell()
        return Source(self._file, size, self._label)

    def discard(self) -> None:
        self._file.close()
