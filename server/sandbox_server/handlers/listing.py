"""Listing a directory: entries as JSON text in blocks, so that the first bytes go out before the last are known.

Order is that of names, directory by directory, a directory before what is in it. Therefore the path of the last entry
is all a cursor must hold: the next page begins with what sorts after it, whether or not it still exists.
"""

from __future__ import annotations

import base64
import binascii
import os
import pwd
import stat
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import islice
from json.encoder import encode_basestring_ascii as json_text
from typing import NamedTuple

from ..call import Call
from ..guards.paths import Location
from ..messages import JSON_TYPE, Refusal, Response, quoted
from .metadata import iso_time, kind_of, octal, second_text, type_of

_FIRST_BLOCK, _BLOCK = 200, 1000  # entries
_ENTRIES, _DEPTH = 1000, 3  # when the caller does not say
_Found = tuple[str, str, os.stat_result, "str | None"]  # prefix, name, facts, link target


def files_list(
    call: Call,
    *,
    path: Location,
    recursive: bool,
    max_entries: int | None,
    max_depth: int | None,
    order: str,
    cursor: str,
) -> Response:
    """Entries of a directory, each with its path relative to it; ``next`` is the cursor of the page after this one."""
    if order not in ("name", "none"):
        raise Refusal("invalid_argument", f'"order" must be "name" or "none", not {quoted(order, 16)}', field="order")
    if cursor and order == "none":
        raise Refusal("invalid_argument", 'a cursor needs an order; leave out "order"', field="cursor")
    most = _at_most(max_entries, call.grant.size("max_entries"), _ENTRIES)
    depth = _depth(call, max_depth) if recursive else 1
    found = _walk(path, depth, order == "name", _after(cursor))
    blocks = _blocks(found, max(most, 0), order == "name")
    first = next(blocks)  # whatever is wrong with the directory itself becomes a refusal, not half an answer
    second = next(blocks, None)
    if second is None:
        return Response(200, first, [("Content-Type", JSON_TYPE)])
    response = Response(200, _joined(first, second, blocks), [("Content-Type", JSON_TYPE)])
    response.on_close.append(blocks.close)
    return response


def _at_most(asked: int | None, limit: int | None, default: int) -> int:
    if asked is None:
        return default if limit is None else min(default, limit)
    return asked if limit is None else min(asked, limit)


def _depth(call: Call, asked: int | None) -> int:
    """Levels to descend: three unless the caller says otherwise, bounded where a policy does."""
    limit = call.grant.size("max_depth") if "max_depth" in call.grant.configured_limits else None
    return _at_most(asked, limit, _DEPTH)


def _after(cursor: str) -> list[str]:
    """The names on the way to the last entry of the previous page."""
    try:
        path = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        return os.fsdecode(path).split("/") if path else []
    except (binascii.Error, ValueError):
        raise Refusal("invalid_argument", '"cursor" must be the "next" of an earlier answer', field="cursor") from None


def _cursor(path: str) -> str:
    return base64.urlsafe_b64encode(os.fsencode(path)).decode()


def _joined(first: bytes, second: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield second
    yield from rest


class _Level(NamedTuple):
    """One open directory on the way down."""

    directory: Location
    prefix: str  # its path relative to the top, with a slash at the end; "" for the top
    descriptor: int
    entries: Iterator[tuple[str, os.stat_result, str | None]]

    @classmethod
    def open(cls, directory: Location, prefix: str, ordered: bool, after: str) -> _Level:
        descriptor = directory.open_directory()
        entries = directory.scan(descriptor, ordered=ordered, after=after)
        return cls(directory, prefix, descriptor, _as_far_as_allowed(entries) if prefix else entries)

    def close(self) -> None:
        os.close(self.descriptor)

    def below(self, name: str, ordered: bool, after: str = "") -> _Level | None:
        """A subdirectory; None when it may not be read, or is a directory no longer."""
        try:
            child = self.directory.child(name)
        except (Refusal, PermissionError, FileNotFoundError, NotADirectoryError):
            return None
        with child:  # one descriptor a level is enough
            try:
                return _Level.open(child, f"{self.prefix}{name}/", ordered, after)
            except (Refusal, PermissionError, FileNotFoundError, NotADirectoryError):
                return None


def _as_far_as_allowed(
    entries: Iterator[tuple[str, os.stat_result, str | None]],
) -> Iterator[tuple[str, os.stat_result, str | None]]:
    """None of a directory whose names may be read, but which may not be entered to look at them."""
    with suppress(PermissionError):
        yield from entries


def _walk(top: Location, depth: int, ordered: bool, after: list[str]) -> Generator[_Found, None, None]:
    """Visible entries, a directory before its contents, never through a link. Needs one descriptor per level."""
    levels = [_Level.open(top, "", ordered, after[0] if after else "")]
    try:
        for name, following in zip(after, [*after[1:], ""], strict=False):  # the last one's own contents follow it
            if len(levels) >= depth or (level := levels[-1].below(name, ordered, following)) is None:
                break
            levels.append(level)
        while levels and depth > 0:
            level = levels[-1]
            for name, facts, target in level.entries:
                yield level.prefix, name, facts, target
                if len(levels) < depth and stat.S_ISDIR(facts.st_mode) and (child := level.below(name, ordered)):
                    levels.append(child)
                    break
            else:
                levels.pop().close()
    finally:
        for level in levels:
            level.close()


def _blocks(found: Generator[_Found, None, None], most: int, continuable: bool) -> Generator[bytes, None, None]:
    """The answer's JSON text, piece by piece; the last piece tells whether more entries follow, and where."""
    rows = _Rows()
    lead, size, last = '{"entries":[', _FIRST_BLOCK, ""
    wanted = islice(found, min(most, sys.maxsize))
    try:
        while block := list(islice(wanted, size)):
            prefix, name, _, _ = block[-1]
            last = prefix + name
            yield (lead + rows.text(block)).encode()
            lead, size = ",", _BLOCK
        truncated = next(found, None) is not None
        following = f'"{_cursor(last)}"' if truncated and last and continuable else "null"
        end = f'],"truncated":{"true" if truncated else "false"},"next":{following}}}'
        yield (end if last else lead + end).encode()
    finally:
        found.close()


class _Rows:
    """Formats entries. What many entries share is formatted once."""

    def __init__(self) -> None:
        self._seconds: dict[str, str] = {}
        self._traits: dict[tuple[int, int, int], str] = {}
        self._owners: dict[int, str] = {}

    def text(self, block: list[_Found]) -> str:
        """JSON objects with commas between them. One loop without calls: a large listing spends its time here."""
        texts = []
        seconds, quote = self._seconds, json_text
        about, last_mode, last_uid, last_gid = "", -1, -1, -1
        for prefix, name, facts, target in block:
            quoted_name = quote(name)
            path = quoted_name if not prefix else quote(prefix)[:-1] + quoted_name[1:]
            mode, _, _, _, uid, gid, size, _, _, _ = facts
            if mode != last_mode or uid != last_uid or gid != last_gid:  # neighbours are mostly alike
                about, last_mode, last_uid, last_gid = self._trait(mode, uid, gid), mode, uid, gid
            # The digits of a time after 1970 are those of its second, then nine of the fraction.
            digits = str(facts.st_mtime_ns)
            moment, fraction = seconds.get(digits[:-9]) or self._second(digits[:-9]), digits[-9:-3]
            exact = moment and fraction != "000000"
            modified = f"{moment}.{fraction}+00:00" if exact else iso_time(facts.st_mtime_ns)
            link = f',"target":{quote(target)}' if target is not None else ""
            texts.append(f'{{"name":{quoted_name},"path":{path},{about},"size":{size},"modified":"{modified}"{link}}}')
        return ",".join(texts)

    def _second(self, digits: str) -> str:
        if not digits.isdigit():
            return ""
        if len(self._seconds) > _BLOCK:  # times are spread widely: do not grow with the directory
            self._seconds.clear()
        return self._seconds.setdefault(digits, second_text(int(digits)))

    def _trait(self, mode: int, uid: int, gid: int) -> str:
        key = (mode, uid, gid)
        if key not in self._traits:
            self._traits[key] = (
                f'"type":"{type_of(mode)}","kind":"{kind_of(mode)}","mode":"{octal(mode)}",'
                f'"uid":{uid},"gid":{gid},"owner":{self._owner(uid)}'
            )
        return self._traits[key]

    def _owner(self, uid: int) -> str:
        if uid not in self._owners:
            try:
                self._owners[uid] = json_text(pwd.getpwuid(uid).pw_name)
            except KeyError:
                self._owners[uid] = "null"
        return self._owners[uid]
