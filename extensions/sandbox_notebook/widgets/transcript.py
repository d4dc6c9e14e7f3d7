"""The output of one process as numbered lines, the newest of them. Bytes go in, lines come out; no page, no thread."""

from __future__ import annotations

import codecs
from collections import deque
from itertools import islice
from typing import Literal, NamedTuple

Stream = Literal["stdout", "stderr", "note"]

OUTPUT: tuple[Literal["stdout", "stderr"], ...] = ("stdout", "stderr")
_LONGEST_LINE = 4000


class Line(NamedTuple):
    stream: Stream
    text: str


class Batch(NamedTuple):
    """Lines from number `first` on; a first above the one asked for tells that those between are gone."""

    first: int
    lines: list[Line]


class Transcript:
    """Keeps the newest `most` lines. A carriage return starts a line anew, as progress bars want it."""

    def __init__(self, most: int = 5000) -> None:
        self._lines: deque[Line] = deque(maxlen=most)
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in OUTPUT}
        self._open: dict[str, str] = dict.fromkeys(OUTPUT, "")
        self.count = 0  # lines there ever were

    def feed(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        *whole, rest = (self._open[stream] + self._decoders[stream].decode(data)).split("\n")
        for text in whole:
            self._add(Line(stream, _settled(text)))
        self._open[stream] = _cut(rest.rpartition("\r")[2] if len(rest) > _LONGEST_LINE else rest)

    def note(self, text: str) -> None:
        """A line of ours among those of the process."""
        self._add(Line("note", text))

    def end(self) -> None:
        """What had no line end is a line now."""
        for stream in OUTPUT:
            rest = self._open[stream] + self._decoders[stream].decode(b"", True)
            self._open[stream] = ""
            if rest:
                self._add(Line(stream, _settled(rest)))

    def open_lines(self) -> list[Line]:
        """The lines that are being written: a prompt, or a progress bar."""
        return [Line(stream, _settled(self._open[stream])) for stream in OUTPUT if self._open[stream]]

    def since(self, number: int, most: int) -> Batch:
        """The lines from `number` on that are still there; when they are more than `most`, the newest of them."""
        held = len(self._lines)
        first = max(number, self.count - held, self.count - most)
        return Batch(first, list(islice(self._lines, held - (self.count - first), None)))

    def _add(self, line: Line) -> None:
        self._lines.append(Line(line.stream, _cut(line.text)))
        self.count += 1


def _settled(text: str) -> str:
    """What is to be seen of a line with carriage returns: each part over the one before it."""
    if "\r" not in text:
        return text
    seen = ""
    for part in text.split("\r"):
        if part:
            seen = part if len(part) >= len(seen) or "\x1b" in part else part + seen[len(part) :]
    return seen


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else text[:_LONGEST_LINE] + "…"
