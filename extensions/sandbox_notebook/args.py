"""Splits a command line into words, and knows where each word stood.

Quotes group, nothing escapes: a backslash is a character, so ``C:\\Users\\x`` keeps its form, and ``#`` begins no
comment. IPython's own splitting is not used because it keeps the quotes and expands ``{name}`` before it splits.
"""

from __future__ import annotations

from dataclasses import dataclass

BLANKS = " \t\r\n"
QUOTES = "'\""


@dataclass(frozen=True, slots=True)
class Word:
    """One word: its text without quotes, where it stands in the line, and whether any of it was quoted."""

    text: str
    start: int
    end: int
    quoted: bool = False


class UnclosedQuote(ValueError):
    """A quote was opened at ``position`` and never closed; ``words`` are those before it, ``open`` the one with it."""

    def __init__(self, position: int, words: list[Word], open_word: Word) -> None:
        super().__init__("no closing quote")
        self.position = position
        self.words = words
        self.open_word = open_word


def split(line: str) -> list[Word]:
    words: list[Word] = []
    position = 0
    while position < len(line):
        if line[position] in BLANKS:
            position += 1
            continue
        start, text, quoted = position, "", False
        while position < len(line) and line[position] not in BLANKS:
            if line[position] not in QUOTES:
                text += line[position]
                position += 1
                continue
            quoted = True
            closing = line.find(line[position], position + 1)
            if closing < 0:
                rest = text + line[position + 1 :]
                raise UnclosedQuote(position, words, Word(rest, start, len(line), True))
            text += line[position + 1 : closing]
            position = closing + 1
        words.append(Word(text, start, position, quoted))
    return words


def quote(text: str) -> str:
    """The shortest form of ``text`` that `split` reads back as one word."""
    if text and not any(character in BLANKS or character in QUOTES for character in text):
        return text
    if "'" not in text:
        return f"'{text}'"
    if '"' not in text:
        return f'"{text}"'
    return '"' + text.replace('"', '"\'"\'"') + '"'


def escaped(line: str, message: str) -> str:
    """The word, in quotes, that somebody wrote with backslashes before its blanks, when an error speaks of a part."""
    try:
        words = split(line)
    except UnclosedQuote:
        return ""
    parts: list[str] = []
    for word in words:
        if word.quoted:
            parts = []
            continue
        parts = [*parts, word.text] if parts and parts[-1].endswith("\\") else [word.text]
        if len(parts) > 1 and not word.text.endswith("\\") and any(f'{part}"' in message for part in parts):
            return quote(" ".join(parts).replace("\\ ", " "))
    return ""
