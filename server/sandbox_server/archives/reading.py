"""What all readers share: bytes on demand, names that stay inside, and the one way to refuse an archive."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from ..messages import Refusal, quoted
from .members import PIECE

LONGEST_NAME = 4096  # bytes of a whole path
_LONGEST_PART = 255
_RATIO, _HARMLESS = 1000, 100 << 20  # expansion beyond this ratio is refused, once it is more than this


def bad(message: str) -> Refusal:
    return Refusal("bad_archive", message)


def ended() -> Refusal:
    return bad("the archive ends too early; send all of it")


def member_name(raw: bytes) -> str:
    """A member's name as a relative path without empty parts; refuses what leads elsewhere."""
    name = os.fsdecode(raw)
    if b"\0" in raw or not raw or len(raw) > LONGEST_NAME:
        raise bad(f"the member name {quoted(printable(name), 64)} is no path of 1 to {LONGEST_NAME} bytes without NUL")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if raw.startswith(b"/") or ".." in parts:
        raise bad(f'the member {quoted(printable(name))} is absolute or has ".."; names must stay inside')
    if any(len(os.fsencode(part)) > _LONGEST_PART for part in parts):
        raise bad(f"the member {quoted(printable(name))} has a part of more than {_LONGEST_PART} bytes")
    return "/".join(parts)


def printable(name: str) -> str:
    """For messages: bytes that are no text become replacement characters."""
    return os.fsencode(name).decode("utf-8", "replace")


class Expansion:
    """Compares what came out of a compression with what went in."""

    def __init__(self) -> None:
        self.taken = self.given = 0

    def add(self, taken: int, given: int) -> None:
        self.taken += taken
        self.given += given
        if self.given > _HARMLESS and self.given > self.taken * _RATIO:
            message = f"the archive expands more than {_RATIO} times; unpack it elsewhere"
            raise Refusal("payload_too_large", message, limit=_HARMLESS)


class Bytes:
    """A stream of bytes that is read in pieces of the reader's choice."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def some(self, most: int) -> memoryview:
        """At least one byte; none at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return self._rest
            self._rest = memoryview(piece)
        part, self._rest = self._rest[:most], self._rest[most:]
        return part

    def exactly(self, count: int, otherwise: Callable[[], Refusal] = ended) -> bytes:
        """That many bytes, which should be few; `otherwise` is what is raised where there are fewer."""
        found = b""
        while len(found) < count:
            part = self.some(count - len(found))
            if not part:
                raise otherwise()
            found += part
        return found

    def pieces(self, count: int) -> Iterator[memoryview]:
        """That many bytes, however many."""
        while count:
            part = self.some(min(count, PIECE))
            if not part:
                raise ended()
            count -= len(part)
            yield part


def gunzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The content of a gzip stream of one or more members (RFC 1952), a bounded piece at a time."""
    import zlib  # not needed to start a server

    expansion = Expansion()
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    begun = False
    try:
        for piece in pieces:
            taken = len(piece)
            while piece:
                if unpacker.eof:
                    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
                    begun = False
                out = unpacker.decompress(piece, PIECE)
                begun = True
                piece = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
                expansion.add(taken, len(out))
                taken = 0
                if out:
                    yield out
                # Output may be waiting although all input is taken.
                while not piece and not unpacker.eof and len(out) == PIECE:
                    out = unpacker.decompress(b"", PIECE)
                    expansion.add(0, len(out))
                    if out:
                        yield out
    except zlib.error:
        raise bad("the gzip stream is damaged, or something follows it") from None
    if not begun or not unpacker.eof:
        raise ended()
