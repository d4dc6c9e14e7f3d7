"""Small pieces joined to blocks worth sending; and the one compression of a whole stream."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from .members import PIECE

_FIRST = 1024  # the first block goes out early, so that the caller sees life


def joined(pieces: Iterable[bytes]) -> Generator[bytes, None, None]:
    block = bytearray()
    most = _FIRST
    for piece in pieces:
        block += piece
        if len(block) >= most:
            yield bytes(block)
            block.clear()
            most = PIECE
    if block:
        yield bytes(block)


def gzipped(pieces: Iterable[bytes], level: int) -> Iterator[bytes]:
    import zlib  # not needed to start a server

    packer = zlib.compressobj(level, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()
