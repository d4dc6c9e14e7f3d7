"""Zip from a file. The directory at the end is believed only where everything agrees with it.

Members must lie one behind the other without overlap, the local headers must say what the directory says, and the
content must have the size and checksum that it is said to have. Encrypted, split and self-extracting archives are
refused, and so are methods other than storing and deflating.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ..messages import quoted
from .members import PIECE, Entry
from .reading import LONGEST_NAME, Expansion, bad, ended, member_name, printable

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_ENCRYPTED = 0x0001 | 0x0040 | 0x2000
_DESCRIPTOR, _UTF8 = 0x0008, 0x0800
_STORED, _DEFLATED = 0, 8
_WIDE = 0xFFFFFFFF
_UNIX = 3


class Member(NamedTuple):
    """One line of the directory."""

    entry: Entry
    raw_name: bytes
    method: int
    flags: int
    crc: int
    compressed: int
    offset: int


class ZipReader:
    """The members of an open file, checked as far as that is possible without unpacking them."""

    def __init__(self, descriptor: int, most_members: int) -> None:
        self._descriptor = descriptor
        size = os.fstat(descriptor).st_size
        count, start, length = self._ending(size)
        if count > most_members:
            raise bad(f"the archive has more than {most_members} members; split it")
        self.members = sorted(self._directory(count, start, length), key=lambda member: member.offset)
        self._starts = [member.offset for member in self.members[1:]] + [start]
        expansion = Expansion()
        expansion.add(size, sum(member.entry.size for member in self.members))

    def read(self) -> Iterator[tuple[Entry, Iterator[bytes]]]:
        """Every member with its content, in the order of the file; the content must be read to its end."""
        place = 0
        for member, following in zip(self.members, self._starts, strict=False):
            if member.offset != place:
                raise bad("members overlap, or something lies between them")
            start = self._local(member)
            end = start + member.compressed
            if end > following:
                raise bad("members overlap")
            place = following
            self._between(member, end, following)
            if stat.S_ISLNK(member.entry.mode):
                yield self._link(member, start), iter(())
            else:
                yield member.entry._replace(mode=member.entry.mode & 0o777), self._content(member, start)
        if not self.members and self._starts[0]:
            raise bad("something lies in front of the archive")

    def _ending(self, size: int) -> tuple[int, int, int]:
        """Number of members, and where their directory lies; it must reach to the ending, and that to the end."""
        tail = self._at(max(0, size - _END.size - 0xFFFF), min(size, _END.size + 0xFFFF))
        place = tail.rfind(b"PK\x05\x06")
        while place >= 0:
            if len(tail) - place >= _END.size:
                facts = _END.unpack_from(tail, place)
                if facts[7] == len(tail) - place - _END.size:
                    break
            place = tail.rfind(b"PK\x05\x06", 0, place)
        if place < 0:
            raise bad("the end of the archive is not where it should be: it is damaged, cut off, or is no zip")
        _, disk, first_disk, here, count, length, start, _ = facts
        end = size - len(tail) + place
        if (0xFFFF in (count, here) or _WIDE in (length, start)) and self._has_wide_ending(end):
            disk, first_disk, here, count, length, start, end = self._ending_64(end)
        if disk or first_disk or here != count:
            raise bad("the archive is one part of several; put them together first")
        if start + length != end:
            raise bad("the directory of the archive is not where it should be")
        if length < count * _CENTRAL.size:
            raise bad("the directory of the archive is too short for its members")
        return count, start, length

    def _has_wide_ending(self, end: int) -> bool:
        """Whether there is a zip64 ending; without, the largest numbers are simply those."""
        return end >= _LOCATOR_64.size and self._at(end - _LOCATOR_64.size, 4) == b"PK\x06\x07"

    def _ending_64(self, end: int) -> tuple[int, int, int, int, int, int, int]:
        if end < _LOCATOR_64.size + _END_64.size:
            raise ended()
        magic, disk, place, disks = _LOCATOR_64.unpack(self._at(end - _LOCATOR_64.size, _LOCATOR_64.size))
        if magic != b"PK\x06\x07" or disk or disks != 1 or place + _END_64.size != end - _LOCATOR_64.size:
            raise bad("the zip64 ending is damaged")
        found = _END_64.unpack(self._at(place, _END_64.size))
        if found[0] != b"PK\x06\x06" or found[1] != _END_64.size - 12:
            raise bad("the zip64 ending is damaged")
        return found[4], found[5], found[6], found[7], found[8], found[9], place

    def _directory(self, count: int, start: int, length: int) -> Iterator[Member]:
        left = b""
        place, end = start, start + length
        for _ in range(count):
            if len(left) < 0x40000:  # three fields of 64 KiB each, and the fixed part
                more = self._at(place, min(PIECE, end - place))
                place += len(more)
                left += more
            if len(left) < _CENTRAL.size:
                raise bad("the directory of the archive is damaged")
            facts = _CENTRAL.unpack_from(left)
            name_end = _CENTRAL.size + facts[10]
            extra_end = name_end + facts[11]
            whole = extra_end + facts[12]
            if facts[0] != b"PK\x01\x02" or len(left) < whole:
                raise bad("the directory of the archive is damaged")
            yield _member(facts, left[_CENTRAL.size : name_end], left[name_end:extra_end])
            left = left[whole:]
        if left or place != end:
            raise bad("the directory of the archive holds more than its members")

    def _local(self, member: Member) -> int:
        """Where a member's content begins; the header there must agree with the directory."""
        head = self._at(member.offset, _LOCAL.size)
        magic, _, flags, method, _, _, crc, compressed, size, name_length, extra_length = _LOCAL.unpack(head)
        rest = self._at(member.offset + _LOCAL.size, name_length + extra_length)
        if _WIDE in (compressed, size):
            size, compressed = _numbers_64(rest[name_length:], size, compressed)
        told = (crc, compressed, size)
        agrees = told == (member.crc, member.compressed, member.entry.size)
        if flags & _DESCRIPTOR and told == (0, 0, 0):
            agrees = True
        if (
            magic != b"PK\x03\x04"
            or flags != member.flags
            or method != member.method
            or rest[:name_length] != member.raw_name
            or not agrees
        ):
            raise bad(f"the member {quoted(printable(member.entry.name))} is not what the directory says")
        start: int = member.offset + _LOCAL.size + name_length + extra_length
        return start

    def _between(self, member: Member, end: int, following: int) -> None:
        """Behind the content comes a data descriptor where one is announced, else the next member at once."""
        descriptor = self._at(end, following - end) if following - end <= 24 else None
        expected = [b""]
        if member.flags & _DESCRIPTOR:  # with or without its mark, and by some writers wide where it need not be
            numbers = (member.crc, member.compressed, member.entry.size)
            forms = ["<LQQ"] if max(numbers) > _WIDE else ["<LLL", "<LQQ"]
            plain = [struct.pack(form, *numbers) for form in forms]
            expected = plain + [b"PK\x07\x08" + each for each in plain]
        if descriptor not in expected:
            raise bad(f"what follows the member {quoted(printable(member.entry.name))} is not its end")

    def _link(self, member: Member, start: int) -> Entry:
        if not 0 < member.entry.size < LONGEST_NAME:
            raise bad(f"the link {quoted(printable(member.entry.name))} leads nowhere")
        text = b"".join(self._content(member, start))
        if b"\0" in text:
            raise bad(f"the link {quoted(printable(member.entry.name))} leads nowhere")
        return member.entry._replace(kind="link", size=0, target=os.fsdecode(text))

    def _content(self, member: Member, start: int) -> Iterator[bytes]:
        """Exactly what the directory promises, or a refusal before more than that has come out."""
        import zlib  # not needed to start a server

        crc = size = 0
        for piece in self._unpacked(member, start):
            size += len(piece)
            if size > member.entry.size:
                break
            crc = zlib.crc32(piece, crc)
            yield piece
        if (size, crc) != (member.entry.size, member.crc):
            raise bad(f"the content of {quoted(printable(member.entry.name))} is damaged, or its size is not as told")

    def _unpacked(self, member: Member, start: int) -> Iterator[bytes]:
        import zlib  # not needed to start a server

        end = start + member.compressed
        if member.method == _STORED:
            while start < end:
                piece = self._at(start, min(PIECE, end - start))
                start += len(piece)
                yield piece
            return
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        waiting = b""
        try:
            while not unpacker.eof:
                if not waiting and start < end:
                    waiting = self._at(start, min(PIECE, end - start))
                    start += len(waiting)
                out = unpacker.decompress(waiting, PIECE)
                if not out and not waiting:
                    raise ended()
                waiting = unpacker.unconsumed_tail
                yield out
        except zlib.error:
            raise bad(f"the content of {quoted(printable(member.entry.name))} is damaged") from None
        if start < end or unpacker.unused_data:
            raise bad(f"something follows the content of {quoted(printable(member.entry.name))}")

    def _at(self, place: int, count: int) -> bytes:
        data = os.pread(self._descriptor, count, place)
        if len(data) != count:
            raise ended()
        return data


def _member(facts: tuple[Any, ...], name: bytes, extra: bytes) -> Member:
    _, made, _, flags, method, clock, date, crc, compressed, size, *_, disk, _, attributes, offset = facts
    if _WIDE in (size, compressed, offset):
        size, compressed, offset = _numbers_64(extra, size, compressed, offset)
    if flags & _ENCRYPTED:
        raise bad("the archive is encrypted; decrypt it first")
    if method not in (_STORED, _DEFLATED):
        raise bad(f"the archive is compressed by method {method}; only stored and deflated members are read")
    if disk:
        raise bad("the archive is one part of several; put them together first")
    if method == _STORED and compressed != size:
        raise bad("a stored member has two sizes")
    if b"\\" in name:
        raise bad("a member name has a backslash; zip separates directories by slashes")
    mode = attributes >> 16 if made >> 8 == _UNIX else 0
    directory = name.endswith(b"/")
    kind = stat.S_IFMT(mode)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK) or (kind == stat.S_IFDIR) > directory:
        raise bad(f"the member {quoted(printable(os.fsdecode(name)))} is a pipe, a device or no file; leave it out")
    if directory and (size or kind == stat.S_IFLNK):
        raise bad(f"the member {quoted(printable(os.fsdecode(name)))} has content, but is no file")
    if not flags & _UTF8 and not name.isascii() and made >> 8 != _UNIX:
        name_text = name.decode("cp437").encode()  # what the format says, and DOS means
    else:
        name_text = name
    plain = member_name(name_text)
    mode = mode or (stat.S_IFDIR | 0o755 if directory else stat.S_IFREG | 0o644)
    entry = Entry(plain, "directory" if directory else "file", mode, _mtime(extra, date, clock), size)
    return Member(entry, name, method, flags, crc, compressed, offset)


def _fields(extra: bytes) -> Iterator[tuple[int, bytes]]:
    while len(extra) >= 4:
        kind, length = struct.unpack_from("<2H", extra)
        yield kind, extra[4 : 4 + length]
        extra = extra[4 + length :]


def _numbers_64(extra: bytes, *numbers: int) -> list[int]:
    """The numbers, those that did not fit taken from the zip64 field."""
    field = next((data for kind, data in _fields(extra) if kind == 1), b"")
    found = []
    for number in numbers:
        if number == _WIDE:
            if len(field) < 8:
                raise bad("a zip64 field is missing or too short")
            number = int.from_bytes(field[:8], "little")
            field = field[8:]
        found.append(number)
    return found


def _mtime(extra: bytes, date: int, clock: int) -> float:
    for kind, data in _fields(extra):
        if kind == 0x5455 and len(data) >= 5 and data[0] & 1:
            return float(struct.unpack_from("<l", data, 1)[0])
    year, month, day = (date >> 9) + 1980, date >> 5 & 15, date & 31
    moment = (year, month, day, clock >> 11, clock >> 5 & 63, clock % 32 * 2)
    try:
        return datetime(*moment, tzinfo=timezone.utc).timestamp()
    except ValueError:
        return 0.0
