"""One small table model, and its two forms: text for terminals and saved notebooks, HTML for the eye.

The HTML carries its style inline, loads nothing, and takes its colours from the page, so it reads on light and dark.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .text import columns, printable, wrapped

Tone = Literal["", "good", "bad", "dim", "strong", "code", "added", "removed", "block"]

SIGNS: dict[Tone, str] = {"good": "✓", "bad": "✗"}

# Mid tones: 3:1 or better as a sign on white and on near-black; the word beside the sign has the page's own colour.
_STYLES: dict[Tone, str] = {
    "good": "color:#1f9254",
    "bad": "color:#dc4a43",
    "dim": "opacity:.72",
    "strong": "font-weight:600",
    "code": "font-family:var(--jp-code-font-family,monospace);font-size:.95em",
    "added": "font-family:var(--jp-code-font-family,monospace);font-size:.95em;background:rgba(46,160,67,.18)",
    "removed": "font-family:var(--jp-code-font-family,monospace);font-size:.95em;background:rgba(248,81,73,.18)",
}
_MARK = "background:rgba(255,196,0,.35);color:inherit"
_BOX = "font-size:var(--jp-ui-font-size1,13px)"
_TABLE = "font-size:inherit;border-collapse:collapse;margin:.3em 0;border:0"
_LINE = "border-bottom:1px solid rgba(128,128,128,.35)"
_PRE = (
    "margin:.3em 0;padding:.3em .6em;max-height:24em;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere;"
    "border-left:3px solid rgba(128,128,128,.35);background:none;color:inherit;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);line-height:1.35"
)
_LONG_WORD = 80  # characters: one that is longer is broken, or it would make the table wider than the page
_CELL = "padding:.2em 1.4em .2em 0;vertical-align:top;white-space:pre-wrap;border:0;background:none"


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    tone: Tone = ""
    mark: tuple[int, int] | None = None
    """From where to where a marker is put over the text."""


Row: TypeAlias = list[str | Cell]


@dataclass(frozen=True, slots=True)
class Table:
    """A headline, columns under headers, and closing remarks; each part may be missing.

    A remark of the tone ``block`` keeps its lines as they are.
    """

    rows: Sequence[Row] = ()
    headers: Sequence[str] = ()
    right: frozenset[int] = frozenset()
    headline: Cell = field(default=Cell(""))
    notes: Sequence[str | Cell] = ()


def pairs(facts: Sequence[tuple[str, str]]) -> list[Row]:
    """Rows of names and values."""
    return [[Cell(name, "dim"), value] for name, value in facts]


def as_text(table: Table) -> str:
    parts = []
    if table.headline.text:
        parts.append(_plain(table.headline))
    rows = [[_plain(cell) for cell in row] for row in table.rows]
    if rows and table.headers:
        rows.insert(0, list(table.headers))
    if rows:
        body = columns(rows, table.right)
        parts.append("\n".join(f"  {line}" for line in body.splitlines()) if table.headline.text else body)
    for note in table.notes:
        parts += _lines(note) if _is_block(note) else wrapped(_plain(note))
    return "\n".join(parts)


def as_html(table: Table) -> str:
    parts = []
    if table.headline.text:
        parts.append(f'<div style="margin:.3em 0">{_marked(table.headline)}</div>')
    if table.rows:
        head = "".join(_cell(Cell(name, "dim"), index in table.right, "th") for index, name in enumerate(table.headers))
        body = "".join(
            f'<tr style="background:none">{"".join(_cell(cell, i in table.right) for i, cell in enumerate(row))}</tr>'
            for row in table.rows
        )
        thead = f'<thead><tr style="background:none">{head}</tr></thead>' if head else ""
        parts.append(f'<table style="{_TABLE}">{thead}<tbody>{body}</tbody></table>')
    for note in table.notes:
        if _is_block(note):
            lines = "\n".join(map(html.escape, _lines(note)))
            parts.append(f'<pre style="{_PRE}">{lines}</pre>')
            continue
        shown = note if isinstance(note, Cell) else Cell(note, "dim")
        parts.append(f'<div style="margin:.3em 0">{_marked(shown)}</div>')
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def _is_block(note: str | Cell) -> bool:
    return isinstance(note, Cell) and note.tone == "block"


def _lines(note: str | Cell) -> list[str]:
    text = note if isinstance(note, str) else note.text
    return [printable(line.expandtabs()) for line in text.split("\n")]


def _plain(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return printable(cell)
    sign = SIGNS.get(cell.tone, "")
    return f"{sign} {printable(cell.text)}" if sign else printable(cell.text)


def _escaped(text: str) -> str:
    return html.escape(printable(text))


def _marked(cell: Cell) -> str:
    sign = SIGNS.get(cell.tone, "")
    if sign:
        return f'<span aria-hidden="true" style="{_STYLES[cell.tone]}">{sign}</span> {_escaped(cell.text)}'
    if cell.mark is not None:
        start, end = cell.mark
        hit = f'<mark style="{_MARK}">{_escaped(cell.text[start:end])}</mark>'
        return f"{_escaped(cell.text[:start])}{hit}{_escaped(cell.text[end:])}"
    style = _STYLES.get(cell.tone, "")
    return f'<span style="{style}">{_escaped(cell.text)}</span>' if style else _escaped(cell.text)


def _cell(cell: str | Cell, right: bool, tag: str = "td") -> str:
    shown = cell if isinstance(cell, Cell) else Cell(cell)
    align = "right" if right else "left"
    line = f";{_LINE};font-weight:400" if tag == "th" else ""
    line += ";overflow-wrap:anywhere" if max(map(len, shown.text.split()), default=0) > _LONG_WORD else ""
    return f'<{tag} style="{_CELL};text-align:{align}{line}">{_marked(shown)}</{tag}>'
