"""What is said about a file on the wire: its kind, times, permission bits and version."""

from __future__ import annotations

import os
import stat
import time
from functools import lru_cache

#: What the calendar of the wire format can express; file systems can hold more.
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799  # the years 1 and 9999
_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def kind_of(mode: int) -> str:
    """The true kind; the contract's ``type`` knows only file and directory."""
    return _KINDS.get(stat.S_IFMT(mode), "device")


def type_of(mode: int) -> str:
    return "directory" if stat.S_ISDIR(mode) else "file"


def octal(mode: int) -> str:
    """Permission bits as four octal digits."""
    return f"{stat.S_IMODE(mode):04o}"


@lru_cache(maxsize=4096)  # files are made, and looked at, in bursts
def second_text(seconds: int) -> str:
    """``2026-01-31T12:00:00``: UTC, without fraction and zone, clamped to the years 1 to 9999."""
    t = time.gmtime(min(max(seconds, _FIRST_SECOND), _LAST_SECOND))
    return f"{t.tm_year:04d}-{t.tm_mon:02d}-{t.tm_mday:02d}T{t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d}"


def iso_time(nanoseconds: int) -> str:
    """A time stamp as ISO 8601 text in UTC; microseconds unless they are zero."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    fraction = f".{rest // 1000:06d}" if rest > 999 else ""
    return f"{second_text(seconds)}{fraction}+00:00"


def http_date(nanoseconds: int) -> str:
    """A time stamp as an HTTP date (RFC 9110, section 5.6.7)."""
    return _http_second(nanoseconds // 1_000_000_000)


@lru_cache(maxsize=4096)
def _http_second(seconds: int) -> str:
    t = time.gmtime(min(max(seconds, _FIRST_SECOND), _LAST_SECOND))
    return (
        f"{_DAYS[t.tm_wday]}, {t.tm_mday:02d} {_MONTHS[t.tm_mon - 1]} {t.tm_year:04d}"
        f" {t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d} GMT"
    )


def etag_of(facts: os.stat_result) -> str:
    """A strong validator: it differs when the content may differ.

    The change time covers the modification time, and no caller can set it back; inode numbers are used again.
    """
    return f'"{facts.st_dev:x}-{facts.st_ino:x}-{facts.st_ctime_ns:x}-{facts.st_size:x}"'
