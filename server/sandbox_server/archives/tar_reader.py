"""Tar as it arrives: ustar, pax and GNU long names. Strict: what it does not know, it refuses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from ..messages import Refusal, quoted
from .members import Entry, Kind
from .reading import LONGEST_NAME, Bytes, bad, member_name, printable

_BLOCK = 512
_NOTHING = bytes(_BLOCK)
_MOST_RECORDS = 64 << 10  # bytes of pax records, or of a long name
_MOST_SIZE = 1 << 60
_OCTAL = re.compile(rb"[0-7]*")
_NUMBER = re.compile(rb"-?[0-9]{1,19}(\.[0-9]*)?")
_HEEDED = (b"path", b"linkpath", b"size", b"mtime")  # no other record is kept, however many there are
_SPARSE = b"GNU.sparse."
_KINDS: Mapping[bytes, Kind] = {
    b"0": "file",
    b"\0": "file",
    b"7": "file",
    b"1": "hardlink",
    b"2": "link",
    b"5": "directory",
}
_REFUSED = {
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a sparse file",
    b"M": "a part of another archive",
}


def read_tar(source: Bytes) -> Iterator[tuple[Entry, Iterator[memoryview]]]:
    """Every member with its content. What the caller leaves of the content is passed over."""
    everywhere: dict[bytes, bytes] = {}
    records: dict[bytes, bytes] = {}
    for block in _headers(source):
        kind = block[156:157]
        size = _number(block[124:136])
        if kind in (b"x", b"g", b"L", b"K"):
            data = _small(source, size)
            if kind == b"g":
                everywhere |= _records(data)
            elif kind == b"x":
                records |= _records(data)
            else:
                records[b"path" if kind == b"L" else b"linkpath"] = data.rstrip(b"\0")
            continue
        entry = _entry(block, kind, size, {**everywhere, **records})
        records = {}
        content = source.pieces(entry.size)
        yield entry, content
        for _ in content:
            pass
        source.exactly(-entry.size % _BLOCK)
    if records:
        raise bad("the archive ends where a member should follow")
    while rest := source.some(_BLOCK):
        if any(rest):
            raise bad("something follows the end of the archive")


def _headers(source: Bytes) -> Iterator[bytes]:
    """Every header, up to the block of zeros at the end; whoever takes one reads what belongs to it."""
    block = source.exactly(_BLOCK, _no_tar)
    if block != _NOTHING and block[257:262] != b"ustar":
        try:
            _check(block)
        except Refusal:
            raise _no_tar() from None
    while block != _NOTHING:
        _check(block)
        yield block
        block = source.exactly(_BLOCK)


def _no_tar() -> Refusal:
    return bad("this is neither a tar, a tar.gz nor a zip, or was not sent as what it is")


def _entry(block: bytes, code: bytes, size: int, records: Mapping[bytes, bytes]) -> Entry:
    if _SPARSE in records:
        code = b"S"
    name = records.get(b"path") or _name(block)
    if code in (b"0", b"\0") and name.endswith(b"/"):
        code = b"5"  # as before ustar
    kind = _KINDS.get(code)
    if kind is None:
        what = _REFUSED.get(code, "of a kind that is not known here")
        raise bad(f"the member {quoted(printable(os.fsdecode(name)))} is {what}; leave it out")
    size = _decimal(records[b"size"]) if b"size" in records else size
    if kind != "file" and size:
        raise bad(f"the member {quoted(printable(os.fsdecode(name)))} has content, but is no file")
    mtime = _time(records.get(b"mtime"), block)
    link = records.get(b"linkpath") or block[157:257].partition(b"\0")[0]
    target = ""
    if kind == "hardlink":
        target = member_name(link)
    elif kind == "link":
        target = _link_text(link)
    mode = _number(block[100:108]) & 0o777
    return Entry(member_name(name), kind, mode, mtime, size, target)


def _link_text(link: bytes) -> str:
    if not link or len(link) >= LONGEST_NAME or b"\0" in link:
        raise bad("a link in the archive leads nowhere")
    return os.fsdecode(link)


def _name(block: bytes) -> bytes:
    name = block[:100].partition(b"\0")[0]
    # Only POSIX tar has a prefix; GNU's own format keeps other things there.
    prefix = block[345:500].partition(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _check(block: bytes) -> None:
    expected = sum(block) - sum(block[148:156]) + 8 * 32
    if _number(block[148:156]) != expected:
        raise bad("a header's checksum is wrong: the archive is damaged, or is no tar")


def _number(field: bytes) -> int:
    """Octal text; or GNU's binary form, whose first bit is set."""
    if field[0] & 0x80:
        value = int.from_bytes(field, "big", signed=False) & ((1 << (8 * len(field) - 1)) - 1)
        if field[0] & 0x40:
            raise bad("a header holds a negative number")
    else:
        digits = field.partition(b"\0")[0].strip(b" ")
        if not _OCTAL.fullmatch(digits):
            raise bad("a header holds something that is no number: the archive is damaged, or is no tar")
        value = int(digits or b"0", 8)
    if value > _MOST_SIZE:
        raise bad("a header holds a number that is too large")
    return value


def _decimal(text: bytes) -> int:
    if not text.isdigit() or len(text) > 19 or int(text) > _MOST_SIZE:
        raise bad("a pax record holds a size that is no number")
    return int(text)


def _time(record: bytes | None, block: bytes) -> float:
    if record is not None:
        return float(record) if _NUMBER.fullmatch(record) else 0.0
    return 0.0 if block[136] & 0x80 else float(_number(block[136:148]))


def _small(source: Bytes, size: int) -> bytes:
    if size > _MOST_RECORDS:
        raise bad(f"a header needs more than {_MOST_RECORDS} bytes")
    data = source.exactly(size)
    source.exactly(-size % _BLOCK)
    return data


def _records(data: bytes) -> dict[bytes, bytes]:
    """Pax records: each its own length, a space, key=value, a line end."""
    found = {}
    while data:
        length, space, _ = data.partition(b" ")
        if not space or not length.isdigit() or len(length) > 6:
            raise bad("a pax record has no length")
        end = int(length)
        key, equals, value = data[len(length) + 1 : end - 1].partition(b"=")
        if end <= len(length) + 1 or data[end - 1 : end] != b"\n" or not equals or not key:
            raise bad("a pax record is damaged")
        if key in _HEEDED:
            found[key] = value
        elif key.startswith(_SPARSE):
            found[_SPARSE] = value
        data = data[end:]
    return found
