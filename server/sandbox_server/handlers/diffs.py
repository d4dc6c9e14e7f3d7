"""Unified diffs, bounded in size and in the time that they take."""

from __future__ import annotations

from collections.abc import Iterator

_MOST_CHARACTERS = 1 << 16
#: Of what lies between the first and the last change; comparing more would take long.
_MOST_BYTES = 1 << 20
_MOST_LINES = 1000
_CONTEXT = 3


def unified(old: bytes, new: bytes, path: str) -> tuple[str, bool]:
    """The diff of two UTF-8 texts, and whether something of it is missing; no text when they are equal."""
    if old == new:
        return "", False
    start, end, new_end = _changed(old, new)
    if max(end, new_end) - start > _MOST_BYTES:
        return "", True
    before, after = _lines(old[start:end]), _lines(new[start:new_end])
    if max(len(before), len(after)) > _MOST_LINES:
        return "", True
    pieces, size = [f"--- {path}\n+++ {path}\n"], 0
    for piece in _hunks(before, after, old.count(b"\n", 0, start)):
        size += len(piece)
        if size > _MOST_CHARACTERS:
            return "".join(pieces), True
        pieces.append(piece)
    return "".join(pieces), False


def _changed(old: bytes, new: bytes) -> tuple[int, int, int]:
    """Whole lines that hold every change and its context: where they start, where they end in the old and the new."""
    low, high = 0, min(len(old), len(new))
    while low < high:  # the common beginning
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[low:middle] == new[low:middle] else (low, middle - 1)
    start = low
    low, high = 0, min(len(old), len(new)) - start
    while low < high:  # the common end of what is left
        middle = (low + high + 1) // 2
        one, other = old[len(old) - middle : len(old) - low], new[len(new) - middle : len(new) - low]
        low, high = (middle, high) if one == other else (low, middle - 1)
    end = len(old) - low
    for _ in range(_CONTEXT + 1):
        start = old.rfind(b"\n", 0, start)
        if start < 0:
            break
    for _ in range(_CONTEXT + 1):
        end = old.find(b"\n", end) + 1
        if not end:
            end = len(old)
            break
    return start + 1, end, end + len(new) - len(old)


def _hunks(before: list[str], after: list[str], start: int) -> Iterator[str]:
    import difflib  # only for those who edit

    for group in difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(_CONTEXT):
        _, first, _, new_first, _ = group[0]
        _, _, last, _, new_last = group[-1]
        yield f"@@ -{_range(start + first, last - first)} +{_range(start + new_first, new_last - new_first)} @@\n"
        for kind, one, end, other, new_end in group:
            if kind == "equal":
                yield from (f" {line}" for line in before[one:end])
                continue
            yield from (f"-{line}" for line in before[one:end])
            yield from (f"+{line}" for line in after[other:new_end])


def _range(start: int, count: int) -> str:
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _lines(data: bytes) -> list[str]:
    """Lines as a diff shows them; only LF ends one."""
    lines = [f"{line}\n" for line in data.decode("utf-8").split("\n")]
    last = lines.pop()
    return lines if last == "\n" else [*lines, f"{last}\\ No newline at end of file\n"]
