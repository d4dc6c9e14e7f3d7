"""Text for terminals and saved notebooks: columns, sizes, and characters that cannot do harm."""

from __future__ import annotations

import signal
import textwrap
import unicodedata
from collections.abc import Sequence

_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


def printable(text: str) -> str:
    """Control and direction characters as escapes: a file's name must not drive the reader's terminal."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) if unicodedata.category(character) in _HIDDEN else character
                   for character in text)  # fmt: skip


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def width(text: str) -> int:
    """Columns that a terminal uses for it."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def columns(rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()) -> str:
    """Rows with aligned columns, two blanks apart; the columns in ``right`` end flush."""
    if not rows:
        return ""
    widths = [max(width(row[index]) for row in rows) for index in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for index, cell in enumerate(row):
            gap = " " * (widths[index] - width(cell))
            cells.append(gap + cell if index in right else cell + gap)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def size(count: int) -> str:
    """``17.4 kB``: three digits and a decimal unit, exact below 1000."""
    if count < 1000:
        return f"{count} B"
    value, unit = float(count), "B"
    units = ["TB", "GB", "MB", "kB"]
    while value >= 999.5 and units:
        value /= 1000
        unit = units.pop()
    return f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"


def wrapped(text: str) -> list[str]:
    """Lines of at most 110 columns, or one word each."""
    return textwrap.wrap(text, 110, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False) or [""]


def shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
