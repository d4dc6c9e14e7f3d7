"""Tar (POSIX.1-2001): ustar headers, and pax records for what does not fit into them.

Owners are not told: every member belongs to 0, as if the archive had been made on another machine.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from ..messages import Aborted
from .members import PIECE, Source, content

_BLOCK = 512
_END = bytes(2 * _BLOCK)
_MOST_OCTAL = 8**11 - 1  # what eleven octal digits hold
_OWNERS = b"0000000\0" * 2
_TAIL = b"ustar\x0000" + bytes(64) + _OWNERS  # after the link text: magic, empty owner names, no device
_NAME, _PREFIX = 100, 155  # bytes that the fields take


def tar(sources: Iterable[Source]) -> Iterator[bytes]:
    """The archive, in pieces of any size. A file that shrinks meanwhile breaks it off."""
    for source in sources:
        if not stat.S_ISREG(source.mode):
            yield _header(source, 0)
        elif source.size <= PIECE:
            data = os.pread(source.descriptor, PIECE, 0)  # whole, so that header and content always agree
            yield _header(source, len(data)) + data + _padding(len(data))
        else:
            yield _header(source, source.size)
            left = source.size
            for piece in content(source):
                left -= len(piece)
                yield piece
            if left:
                raise Aborted("a file became shorter while it was being packed")
            yield _padding(source.size)
    yield _END


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


def _header(source: Source, size: int) -> bytes:
    """One header block, after the pax records it needs."""
    mode, name, link, mtime = source.mode, source.name, source.link, source.mtime
    kind = b"0"
    if stat.S_ISDIR(mode):
        kind, name = b"5", name + b"/"
    elif stat.S_ISLNK(mode):
        kind = b"2"
    records = b""
    prefix = b""
    if len(name) > _NAME:
        prefix, name = _split(name)
    if not source.name.isascii() or len(name) > _NAME:
        records += _record(b"path", source.name + (b"/" if kind == b"5" else b""))
    if not link.isascii() or len(link) > _NAME:
        records += _record(b"linkpath", link)
    if size > _MOST_OCTAL:
        records += _record(b"size", b"%d" % size)
    if not 0 <= mtime <= _MOST_OCTAL:
        records += _record(b"mtime", b"%d" % mtime)
    if records and not (_is_utf8(source.name) and _is_utf8(link)):
        records = _record(b"hdrcharset", b"BINARY") + records
    block = _block(name, mode, size if size <= _MOST_OCTAL else 0, mtime, kind, link, prefix)
    if not records:
        return block
    return _block(b"pax/header", 0o644, len(records), 0, b"x", b"", b"") + records + _padding(len(records)) + block


def _block(name: bytes, mode: int, size: int, mtime: int, kind: bytes, link: bytes, prefix: bytes) -> bytes:
    mtime = min(max(mtime, 0), _MOST_OCTAL)
    head = b"%b%07o\0%b%011o\0%011o\0" % (name[:_NAME].ljust(_NAME, b"\0"), mode & 0o7777, _OWNERS, size, mtime)
    rest = kind + link[:_NAME].ljust(_NAME, b"\0") + _TAIL + prefix.ljust(_PREFIX + 12, b"\0")
    return b"%b%06o\0 %b" % (head, sum(head) + sum(rest) + 8 * 32, rest)


def _split(name: bytes) -> tuple[bytes, bytes]:
    """Prefix and name, where a slash is in the right place for both fields; else nothing and all of it."""
    place = name.rfind(b"/", 0, _PREFIX + 1)
    if place > 0 and 0 < len(name) - place - 1 <= _NAME:
        return name[:place], name[place + 1 :]
    return b"", name


def _record(key: bytes, value: bytes) -> bytes:
    """A pax record, which begins with its own length."""
    rest = b" %b=%b\n" % (key, value)
    length = len(rest)
    while len(b"%d" % length) + len(rest) != length:
        length = len(b"%d" % length) + len(rest)
    return b"%d" % length + rest


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
