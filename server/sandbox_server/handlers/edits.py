"""Edits of a text as values: exact text, or whole lines, replaced by something else.

They work on the bytes of UTF-8 text, so everything that an edit does not name stays as it is: byte order mark, line
ends, a last line without one. Exact text is exact; an edit of lines speaks of lines, whose ends are those of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from ..messages import Refusal, quoted

MOST_EDITS = 1000
_MOST_TOLD = 20  # places of a text that stands too often
_SHAPES = '{"old", "new", "all"} or {"start_line", "end_line", "new"}'
_BOM = b"\xef\xbb\xbf"
_STRIDE = 1 << 14  # bytes whose line ends are counted at a time


class Edit(Protocol):
    """One change of the whole text."""

    def apply(self, data: bytes, index: int, check: Callable[[int], None]) -> tuple[bytes, int]:
        """The text after it, and how many replacements were made.

        `index` says which edit it is; `check` refuses a length before the text is made. Raises `Refusal`.
        """


class Exact(NamedTuple):
    """Text that must stand there exactly once, unless all places are meant."""

    old: bytes
    new: bytes
    all: bool

    def apply(self, data: bytes, index: int, check: Callable[[int], None]) -> tuple[bytes, int]:
        count = data.count(self.old)
        if count == 0:
            other = b"\r\n" in data and b"\n" in self.old and b"\r\n" not in self.old
            hint = "the lines of the file end in CRLF" if other else "read the file again and copy it exactly"
            raise _mismatch(index, f"its old text is not in the file; {hint}", count=0, lines=[])
        if count > 1 and not self.all:
            raise _mismatch(
                index,
                f"its old text stands in the file {count} times; take more of what is around it, or set all",
                count=count,
                lines=_lines_of(data, self.old),
            )
        check(len(data) + count * (len(self.new) - len(self.old)))
        return data.replace(self.old, self.new), count


class Lines(NamedTuple):
    """Lines `start` to `end`, counted from 1; with `end` before `start`, the place before that line."""

    start: int
    end: int
    new: bytes

    def apply(self, data: bytes, index: int, check: Callable[[int], None]) -> tuple[bytes, int]:
        top = len(_BOM) if data.startswith(_BOM) else 0
        ended = len(data) == top or data.endswith(b"\n")  # an empty file has no line that lacks its end
        ends, begin, end = _survey(data, top, self.start, self.end + 1)
        total = ends + (not ended)
        if not (1 <= self.start <= total + 1 and self.start - 1 <= self.end <= total):
            wanted = f"lines {self.start} to {self.end}"
            raise _mismatch(index, f"the file has no {wanted}, it has {total}", total_lines=total)
        first = data.find(b"\n", top)
        line_end = b"\r\n" if first > top and data[first - 1] == 0x0D else b"\n"
        block = b"".join(line + line_end for line in self._content())
        check(len(data) - (end - begin) + len(block))
        if ended or end < len(data):
            return data[:begin] + block + data[end:], 1
        # The last line has no end, and the new last one gets none either.
        missing = line_end if begin == len(data) else b""
        return _without_end(data[:begin] + missing + block), 1

    def _content(self) -> list[bytes]:
        lines = self.new.replace(b"\r\n", b"\n").split(b"\n")
        if lines[-1] == b"":
            lines.pop()  # the end of the last line, or no line at all
        return lines


def parse_edits(raw: Any) -> list[Edit]:
    """What a caller wrote, judged entry by entry."""
    if not isinstance(raw, list) or not 1 <= len(raw) <= MOST_EDITS:
        raise Refusal("invalid_argument", f'"edits" must be a list of 1 to {MOST_EDITS} edits', field="edits")
    return [_parse(item, index) for index, item in enumerate(raw)]


def apply_edits(data: bytes, edits: list[Edit], check: Callable[[int], None]) -> tuple[bytes, list[int]]:
    """Each edit to what the one before has left; the text, and the replacements of each."""
    counts = []
    for index, edit in enumerate(edits):
        data, count = edit.apply(data, index, check)
        counts.append(count)
    return data, counts


def _parse(item: Any, index: int) -> Edit:
    if not isinstance(item, dict):
        raise _invalid(index, f"it must be an object: {_SHAPES}")
    if "old" in item:
        _demand_known(item, index, ("old", "new", "all"))
        old = _text(item, "old", index)
        if not old:
            raise _invalid(index, '"old" is empty; insert with start_line and end_line, or upload a new file')
        everywhere = item.get("all", False)
        if not isinstance(everywhere, bool):
            raise _invalid(index, '"all" must be true or false')
        return Exact(old, _text(item, "new", index), everywhere)
    _demand_known(item, index, ("start_line", "end_line", "new", "old", "all"))
    if "all" in item or "start_line" not in item:
        raise _invalid(index, f"it must have one of two shapes: {_SHAPES}")
    return Lines(_number(item, "start_line", index), _number(item, "end_line", index), _text(item, "new", index))


def _demand_known(item: Mapping[str, Any], index: int, known: tuple[str, ...]) -> None:
    for name in item:
        if name not in known:
            import difflib  # only for those who mistype

            close = difflib.get_close_matches(name[:64], known, n=1)
            meant = f'did you mean "{close[0]}"?' if close else f"an edit is {_SHAPES}"
            raise _invalid(index, f"it has an unknown key {quoted(name, 64)}; {meant}")


def _text(item: Mapping[str, Any], name: str, index: int) -> bytes:
    value = item.get(name)
    if not isinstance(value, str):
        raise _invalid(index, f'"{name}" must be text')
    return value.encode("utf-8")


def _number(item: Mapping[str, Any], name: str, index: int) -> int:
    value = item.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _invalid(index, f'"{name}" must be a whole number')
    return value


def _survey(data: bytes, top: int, *lines: int) -> list[int]:
    """How many line ends there are, and where each of these lines begins, or the end of the data when it has fewer.

    Everything is counted once, without a list of all lines.
    """
    starts = [top if line == 1 else len(data) for line in lines]
    ends = 0
    for place in range(top, len(data), _STRIDE):
        more = data.count(b"\n", place, place + _STRIDE)
        for index, line in enumerate(lines):
            if ends < line - 1 <= ends + more:
                starts[index] = _behind(data, place, line - 1 - ends)
        ends += more
    return [ends, *starts]


def _behind(data: bytes, place: int, ends: int) -> int:
    for _ in range(ends):
        place = data.find(b"\n", place) + 1
    return place


def _without_end(data: bytes) -> bytes:
    return data.removesuffix(b"\n").removesuffix(b"\r") if data.endswith(b"\r\n") else data.removesuffix(b"\n")


def _lines_of(data: bytes, text: bytes) -> list[int]:
    """The lines on which a text begins, the first of them."""
    found: list[int] = []
    line, before, at = 1, 0, data.find(text)
    while at >= 0 and len(found) < _MOST_TOLD:
        line += data.count(b"\n", before, at)
        found.append(line)
        before, at = at, data.find(text, at + len(text))
    return found


def _invalid(index: int, message: str) -> Refusal:
    return Refusal("invalid_argument", f"edit {index}: {message}", field="edits", edit=index)


def _mismatch(index: int, message: str, **facts: Any) -> Refusal:
    return Refusal("edit_mismatch", f"edit {index}: {message}", edit=index, **facts)
