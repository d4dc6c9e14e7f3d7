"""Split a command line into words as a POSIX shell would, without a shell, in time that grows with its length only."""

from __future__ import annotations

import re

_PIECE = re.compile(
    r"""
    (?P<blank>[ \t\r\n]+)
    | (?P<plain>[^ \t\r\n'"\\]+)
    | '(?P<single>[^']*)'
    | "(?P<double>(?:[^"\\]|\\.)*)"
    | \\(?P<escaped>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPED_IN_QUOTES = re.compile(r'\\(["\\])')


def split(line: str) -> list[str]:
    """The words; `ValueError` when a quotation or an escape is left open."""
    words: list[str] = []
    word: list[str] = []  # pieces of the word that is being read; quotes make it one even when empty
    place = 0
    while place < len(line):
        piece = _PIECE.match(line, place)
        if piece is None:
            raise ValueError("a quotation or an escape is left open")
        place = piece.end()
        kind = str(piece.lastgroup)
        if kind == "blank":
            if word:
                words.append("".join(word))
                word = []
        elif kind == "double":
            word.append(_ESCAPED_IN_QUOTES.sub(r"\1", piece[kind]))
        else:
            word.append(piece[kind])
    if word:
        words.append("".join(word))
    return words
