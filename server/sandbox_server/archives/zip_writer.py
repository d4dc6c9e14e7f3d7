"""Zip, written in one pass: small members with their sizes in front, large ones with a data descriptor behind.

Only the directory at the end is kept meanwhile, some hundred bytes a member. Zip64 where numbers need it.
"""

from __future__ import annotations

import os
import stat
import struct
import time
from collections.abc import Iterable, Iterator
from typing import Any

from .members import PIECE, Source, content

_STORED, _DEFLATED = 0, 8
_DESCRIPTOR, _UTF8 = 0x0008, 0x0800  # flags
_MOST_16, _MOST_32 = 0xFFFF, 0xFFFFFFFF
_LARGE = 0xF0000000  # from here on sizes, compressed or not, might not fit into 32 bits
_UNIX = 3 << 8
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")


def zipped(sources: Iterable[Source], level: int) -> Iterator[bytes]:
    """The archive, in pieces of any size; level 0 stores."""
    import zlib  # not needed to start a server

    central = bytearray()
    count = offset = 0
    for source in sources:
        flags = _UTF8 if not source.name.isascii() and _is_utf8(source.name) else 0
        name = source.name + b"/" if stat.S_ISDIR(source.mode) else source.name
        about = (_dos_time(source.mtime), _extra_time(source.mtime))
        start = offset
        if not stat.S_ISREG(source.mode):
            facts = (_STORED, flags, 0, 0, 0)
            piece = _local(name, facts, about)
            offset += len(piece)
            yield piece
        elif source.size <= PIECE:
            data = os.pread(source.descriptor, PIECE, 0)
            packed = _deflated(zlib, data, level)
            method = _STORED if packed is None else _DEFLATED
            body = data if packed is None else packed
            facts = (method, flags, zlib.crc32(data), len(body), len(data))
            piece = _local(name, facts, about) + body
            offset += len(piece)
            yield piece
        else:
            facts = (_DEFLATED if level else _STORED, flags | _DESCRIPTOR, 0, 0, 0)
            wide = source.size >= _LARGE
            head = _local(name, facts, about, wide=wide)
            yield head
            crc, size, compressed = 0, 0, 0
            packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS) if level else None
            for piece in content(source):
                crc = zlib.crc32(piece, crc)
                size += len(piece)
                out = packer.compress(piece) if packer else piece
                compressed += len(out)
                yield out
            if packer:
                out = packer.flush()
                compressed += len(out)
                yield out
            tail = b"PK\x07\x08" + struct.pack("<LQQ" if wide else "<LLL", crc, compressed, size)
            yield tail
            facts = (facts[0], facts[1], crc, compressed, size)
            offset += len(head) + compressed + len(tail)
        central += _entry(name, facts, about, source.mode, start)
        count += 1
    with memoryview(central) as whole:
        for start in range(0, len(central), PIECE):
            yield bytes(whole[start : start + PIECE])
    yield _ending(count, len(central), offset)


def _deflated(zlib: Any, data: bytes, level: int) -> bytes | None:
    """The packed bytes; None where storing is no larger."""
    if not level or not data:
        return None
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed: bytes = packer.compress(data) + packer.flush()
    return packed if len(packed) < len(data) else None


def _local(
    name: bytes, facts: tuple[int, int, int, int, int], about: tuple[tuple[int, int], bytes], *, wide: bool = False
) -> bytes:
    method, flags, crc, compressed, size = facts
    (date, clock), extra = about
    version = 20
    if wide:
        extra += struct.pack("<2H2Q", 1, 16, 0, 0)
        compressed = size = _MOST_32
        version = 45
    fixed = _LOCAL.pack(
        b"PK\x03\x04", version, flags, method, clock, date, crc, compressed, size, len(name), len(extra)
    )
    return fixed + name + extra


def _entry(
    name: bytes, facts: tuple[int, int, int, int, int], about: tuple[tuple[int, int], bytes], mode: int, offset: int
) -> bytes:
    method, flags, crc, compressed, size = facts
    (date, clock), extra = about
    wide = [number for number in (size, compressed, offset) if number >= _MOST_32]
    if wide:
        extra += struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide)
    version = 45 if wide else 20
    attributes = mode << 16 | (0x10 if stat.S_ISDIR(mode) else 0)
    fixed = _CENTRAL.pack(
        b"PK\x01\x02", _UNIX | version, version, flags, method, clock, date, crc,
        min(compressed, _MOST_32), min(size, _MOST_32), len(name), len(extra), 0, 0, 0,
        attributes, min(offset, _MOST_32),
    )  # fmt: skip
    return fixed + name + extra


def _ending(count: int, size: int, offset: int) -> bytes:
    end = b""
    if count >= _MOST_16 or size >= _MOST_32 or offset >= _MOST_32:
        end = _END_64.pack(b"PK\x06\x06", _END_64.size - 12, _UNIX | 45, 45, 0, 0, count, count, size, offset)
        end += _LOCATOR_64.pack(b"PK\x06\x07", 0, offset + size, 1)
    few = min(count, _MOST_16)
    return end + _END.pack(b"PK\x05\x06", 0, 0, few, few, min(size, _MOST_32), min(offset, _MOST_32), 0)


def _dos_time(mtime: int) -> tuple[int, int]:
    """Date and time in the old format, UTC; it knows the years 1980 to 2107."""
    t = time.gmtime(min(max(mtime, 315532800), 4354819198))
    return (t.tm_year - 1980) << 9 | t.tm_mon << 5 | t.tm_mday, t.tm_hour << 11 | t.tm_min << 5 | t.tm_sec // 2


def _extra_time(mtime: int) -> bytes:
    """The modification time in Unix seconds (extended timestamp); nothing where 32 bits do not hold it."""
    return struct.pack("<2HBl", 0x5455, 5, 1, mtime) if -(2**31) <= mtime < 2**31 else b""


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
