"""Adding to a file, or writing into the middle of it: the rest of it stays where it is.

What is promised. Nothing is written before all of the body is here, so a body that breaks off changes nothing. An
append is one write to the end (O_APPEND): requests never mix, nor do programs that append the same way. One that does
not fit is taken back, unless somebody else has added behind it by then: what others added is never touched. A write at
an offset changes no byte outside its range, but it happens in place: a reader may see a part of it, and one that fails
for lack of room may have changed some of its range. What must be all or nothing is an upload or an edit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ..call import Call
from ..guards.paths import Location
from ..messages import Refusal, quoted
from .receiving import check_room, check_size, is_full, no_space


class Finish(NamedTuple):
    """What a file gets beside its content."""

    mode: int | None
    mtime: float | None
    durable: bool


_SET_ID = stat.S_ISUID | stat.S_ISGID


class Placed(NamedTuple):
    """How the content came into its place."""

    facts: os.stat_result
    direct: bool = False  # written where it is, not put there by a rename
    created: bool = False


def write_into(call: Call, path: Location, data: bytes | memoryview, offset: int | None, finish: Finish) -> Placed:
    """Write at an offset, or at the end when that is None. Call it in the path's turn."""
    descriptor = path.open_for_writing(append=offset is None)
    try:
        found = os.fstat(descriptor)
        if found.st_mode & _SET_ID:  # the kernel takes them away from whoever writes, unless that is the superuser
            os.fchmod(descriptor, found.st_mode & 0o777)
        size = found.st_size
        demand_within(path, offset, size)
        check_size(call, max(size, (size if offset is None else offset) + len(data)))
        try:
            if offset is None:
                _append(descriptor, data)
            else:
                _overwrite(descriptor, data, offset, size)
        except OSError as error:
            if not is_full(error):
                raise
            raise no_space(descriptor, len(data)) from None
        if finish.mode is not None:
            os.fchmod(descriptor, finish.mode)
        if finish.mtime is not None:
            moment = round(finish.mtime * 1_000_000_000)
            os.utime(descriptor, ns=(moment, moment))
        if finish.durable:
            os.fsync(descriptor)
        return Placed(os.fstat(descriptor), direct=True)
    finally:
        os.close(descriptor)


def demand_within(path: Location, offset: int | None, size: int) -> None:
    """An offset behind the end would leave a hole that nobody wrote."""
    if offset is not None and offset > size:
        refusal = Refusal(
            "range_not_satisfiable",
            f"offset {offset} lies behind the {size} bytes of {quoted(path.path)}; start at its end or before",
            size=size,
        )
        refusal.headers.append(("Content-Range", f"bytes */{size}"))
        raise refusal


@contextmanager
def mapped(descriptor: int, length: int) -> Iterator[bytes | memoryview]:
    """All of an open file as if it were in memory, so that one write can take it."""
    if not length:
        yield b""
        return
    import mmap  # needed for large appends only

    with mmap.mmap(descriptor, length, access=mmap.ACCESS_READ) as pages, memoryview(pages) as view:
        yield view


def _append(descriptor: int, data: bytes | memoryview) -> None:
    start = end = -1
    try:
        while data:
            count = os.write(descriptor, data)
            end = os.lseek(descriptor, 0, os.SEEK_CUR)  # behind what this very write has added
            start = end - count if start < 0 else start
            data = memoryview(data)[count:]
    except OSError:
        if start >= 0 and os.fstat(descriptor).st_size == end:
            os.ftruncate(descriptor, start)
        raise


def _overwrite(descriptor: int, data: bytes | memoryview, offset: int, size: int) -> None:
    if offset + len(data) > size:
        check_room(descriptor, offset + len(data) - size)
    try:
        while data:
            count = os.pwrite(descriptor, data, offset)
            offset += count
            data = memoryview(data)[count:]
    except OSError:
        if offset > size and os.fstat(descriptor).st_size == offset:
            os.ftruncate(descriptor, size)
        raise
