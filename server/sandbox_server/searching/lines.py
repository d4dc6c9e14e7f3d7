"""Lines of a file that hold what is looked for. Bytes in, values out; the server and its helper share it.

A line ends at a line feed; a carriage return before that is not part of it. What is not UTF-8 is shown as U+FFFD, one
for each byte, so that columns still count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

#: Characters shown of one line, and of those at most so many before the hit.
MOST_TEXT, _LEAD = 1000, 200
#: Characters of all lines in one answer.
MOST_TEXT_TOLD = 4 << 20
_STRIDE = 1 << 20  # bytes looked through in one go: the interpreter serves others in between
_SURROGATES = re.compile("[\ud800-\udfff]")


class Hit(NamedTuple):
    """One line that matches, and the first place in it where it does; both counted from 1."""

    line: int
    column: int
    text: str
    start: int  # the column at which `text` begins
    cut: bool  # `text` is not the whole line
    damaged: bool  # `text` stands for bytes that are not UTF-8
    before: list[str]
    after: list[str]

    @property
    def size(self) -> int:
        """Characters of text."""
        return len(self.text) + sum(map(len, self.before)) + sum(map(len, self.after))


class Spot(NamedTuple):
    """Where a hit is: the number of its line, the bytes that the line spans, the characters before the match."""

    number: int
    start: int
    end: int
    skipped: int


Find = Callable[[bytes], Iterator[Spot]]


def literal(needle: bytes) -> Find:
    """Looks for plain bytes, line feeds excepted."""

    def find(data: bytes) -> Iterator[Spot]:
        number, counted, place = 1, 0, 0
        while (at := _find(data, needle, place)) >= 0:
            start = data.rfind(b"\n", counted, at) + 1 or counted
            end = _line_end(data, at)
            number += data.count(b"\n", counted, start)
            yield Spot(number, start, end, len(_decoded(data[start:at])))
            number, counted, place = number + 1, end + 1, end + 1

    return find


def expression(pattern: re.Pattern[str]) -> Find:
    """Looks for a regular expression, line by line."""

    def find(data: bytes) -> Iterator[Spot]:
        number, start = 1, 0
        while start < len(data):
            end = _line_end(data, start)
            found = pattern.search(_line(data, start, end))
            if found is not None:
                yield Spot(number, start, end, found.start())
            number, start = number + 1, end + 1

    return find


def hits(data: bytes, find: Find, context: int, most: int) -> list[Hit]:
    """The first hits in a file, each with so many lines around it; no more than one answer can hold."""
    found: list[Hit] = []
    size = 0
    for spot in find(data):
        found.append(_shown(data, spot, context))
        size += found[-1].size
        if len(found) >= most or size > MOST_TEXT_TOLD:
            break
    return found


def _find(data: bytes, needle: bytes, place: int) -> int:
    while place < len(data):
        at = data.find(needle, place, place + _STRIDE + len(needle) - 1)
        if at >= 0:
            return at
        place += _STRIDE
    return -1


def _shown(data: bytes, spot: Spot, context: int) -> Hit:
    line = _line(data, spot.start, spot.end)
    first = max(0, min(spot.skipped - _LEAD, len(line) - MOST_TEXT)) if len(line) > MOST_TEXT else 0
    text = _readable(line[first : first + MOST_TEXT])
    before: list[str] = []
    after: list[str] = []
    end = spot.start - 1  # of the line before
    while end >= 0 and len(before) < context:
        start = data.rfind(b"\n", 0, end) + 1
        before.insert(0, _context_line(data, start, end))
        end = start - 1
    start = spot.end + 1
    while start < len(data) and len(after) < context:
        end = _line_end(data, start)
        after.append(_context_line(data, start, end))
        start = end + 1
    damaged = text != line[first : first + MOST_TEXT]
    return Hit(spot.number, spot.skipped + 1, text, first + 1, len(text) < len(line), damaged, before, after)


def _line_end(data: bytes, place: int) -> int:
    end = data.find(b"\n", place)
    return len(data) if end < 0 else end


def _line(data: bytes, start: int, end: int) -> str:
    return _decoded(data[start:end].removesuffix(b"\r"))


def _context_line(data: bytes, start: int, end: int) -> str:
    # Four bytes at most make a character; what is cut off is not decoded.
    return _readable(_line(data, start, min(end, start + 4 * MOST_TEXT))[:MOST_TEXT])


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _readable(text: str) -> str:
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)
