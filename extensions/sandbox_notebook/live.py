"""A command's output, written to the cell while it arrives.

Bytes are decoded as they come, a character cut in two between chunks included. Past ``max_lines`` the rest is counted
instead of shown, and the last lines follow at the end: a program that never stops writing must not fill a notebook.
"""

from __future__ import annotations

import codecs
from collections import deque
from typing import Protocol

_TAIL = 20
_LONGEST = 10_000


class Sink(Protocol):
    def write(self, text: str, /) -> object: ...

    def flush(self) -> object: ...


class LiveText:
    """One stream of one command."""

    def __init__(self, sink: Sink, *, max_lines: int, flush: bool = False) -> None:
        self.empty = True
        self._sink = sink
        self._flush = flush
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lines_left = max_lines
        self._room = max_lines * 200
        self._held: deque[str] = deque(maxlen=_TAIL)
        self._partial = ""
        self._skipped = 0
        self._fresh_line = True

    def feed(self, data: bytes | str) -> None:
        self.empty = self.empty and not data
        text = data if isinstance(data, str) else self._decoder.decode(data)
        if text:
            self._take(text)

    def close(self) -> None:
        """Write what is left: half a character, and the tail of what was held back."""
        self._take(self._decoder.decode(b"", True))
        if self._partial:
            self._hold(self._partial)
            self._partial = ""
        hidden = self._skipped - len(self._held)
        if self._skipped:
            if not self._fresh_line:
                self._sink.write("\n")
            if hidden > 0:
                lines = "line" if hidden == 1 else "lines"
                self._sink.write(f"… {hidden:,} {lines} not shown; --out VAR keeps the output …\n")
            self._sink.write("".join(self._held))
        if self._flush:
            self._sink.flush()

    def _take(self, text: str) -> None:
        shown, rest = self._within_bounds(text)
        if shown:
            self._sink.write(shown)
            self._fresh_line = shown.endswith("\n")
            if self._flush:
                self._sink.flush()
        if rest:
            self._count(rest)

    def _within_bounds(self, text: str) -> tuple[str, str]:
        if self._skipped or self._partial or not text:
            return "", text
        end = min(len(text), self._room)
        lines = text.count("\n", 0, end)
        if lines >= self._lines_left:
            position = -1
            for _ in range(self._lines_left):
                position = text.index("\n", position + 1)
            end = position + 1
            lines = self._lines_left
        self._lines_left -= lines
        self._room -= end
        if self._lines_left <= 0:
            self._room = 0
        return text[:end], text[end:]

    def _count(self, text: str) -> None:
        *whole, partial = (self._partial + text).split("\n")
        for line in whole:
            self._hold(line + "\n")
        self._partial = partial[-_LONGEST:]

    def _hold(self, line: str) -> None:
        self._skipped += 1
        self._held.append(line if len(line) <= _LONGEST else "…" + line[-_LONGEST:])
