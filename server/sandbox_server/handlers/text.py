"""Output as text: collected whole, or cut into lines for server-sent events."""

from __future__ import annotations

import json.encoder
from collections.abc import Iterable

from ..process.ring import unfinished

#: A line longer than this is told in pieces.
LINE_BYTES = 1 << 16

_quoted = json.encoder.encode_basestring_ascii


def decoded(data: bytes) -> tuple[str, bool]:
    """UTF-8 as text, and whether some bytes were not UTF-8 and became U+FFFD."""
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode(errors="replace"), True


class Captured:
    """The first `limit` bytes of a stream. The rest is taken and dropped, so that the command goes on."""

    def __init__(self, limit: int | None) -> None:
        self._room = limit
        self._pieces: list[bytes] = []
        self.truncated = False

    def add(self, data: bytes) -> None:
        if self._room is not None:
            if len(data) > self._room:
                self.truncated = True
                data = data[: self._room]
            self._room -= len(data)
        if data:
            self._pieces.append(data)

    def text(self) -> tuple[str, bool]:
        """Whole characters with line ends as LF, and whether some bytes were none."""
        data = b"".join(self._pieces)
        if self.truncated:
            data = data[: len(data) - unfinished(data)]
        text, damaged = decoded(data)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        return text, damaged


class LineEvents:
    """Bytes of one stream -> server-sent events, one per line, as few blocks as possible.

    An event with ``partial`` is a piece that no line end follows: of a very long line, or at the end of the output.
    """

    def __init__(self, name: str, budget: Budget) -> None:
        self._head = f'event: {name}\ndata: {{"data":'
        self._budget = budget
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data
        cut = data.rfind(b"\n") + 1
        lines, self._rest = data[:cut], data[cut:]
        block = self._whole(lines) if lines else ""
        if len(self._rest) >= LINE_BYTES:
            keep = unfinished(self._rest)
            piece, self._rest = self._rest[: len(self._rest) - keep], self._rest[len(self._rest) - keep :]
            block += self._partial(piece)
        return block.encode("ascii")

    def end(self) -> bytes:
        """What is left when no more can come."""
        rest, self._rest = self._rest, b""
        return self._partial(rest).encode("ascii") if rest else b""

    def _whole(self, lines: bytes) -> str:
        try:
            texts = lines.decode().split("\n")
        except UnicodeDecodeError:
            return "".join(self._flagged(line) for line in lines.split(b"\n")[:-1])
        texts.pop()
        head = self._head
        return "".join([f"{head}{_quoted(text)}}}\n\n" for text in self._budget.lines(texts, len(lines))])

    def _flagged(self, line: bytes) -> str:
        text, damaged = decoded(line)
        return self._event(text, ',"encoding_errors":true' if damaged else "", 1)

    def _partial(self, piece: bytes) -> str:
        text, damaged = decoded(piece)
        return self._event(text, ',"partial":true' + (',"encoding_errors":true' if damaged else ""), 0)

    def _event(self, text: str, flags: str, line_end: int) -> str:
        return f"{self._head}{_quoted(text)}{flags}}}\n\n" if self._budget.spend(len(text) + line_end) else ""


class Budget:
    """Characters that may still be told, line ends included, of both streams together. What crosses it is not told."""

    def __init__(self, limit: int | None) -> None:
        self._left = limit
        self.spent = False

    def spend(self, characters: int) -> bool:
        if self._left is None:
            return True
        self.spent = self.spent or characters > self._left
        if not self.spent:
            self._left -= characters
        return not self.spent

    def lines(self, texts: list[str], at_most: int) -> Iterable[str]:
        """Those that fit; `at_most` is a quick upper bound of what they cost together."""
        if self._left is None:
            return texts
        if not self.spent and at_most <= self._left:
            self._left -= sum(map(len, texts)) + len(texts)
            return texts
        return [text for text in texts if self.spend(len(text) + 1)]
