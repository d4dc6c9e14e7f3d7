"""The table as a terminal shows it, by rich: colours for yes and no, and columns that fold where it is narrow."""

from __future__ import annotations

import io
import shutil

from .render import SIGNS, Cell, Table, Tone
from .text import printable

#: Of the terminal's own palette, which its user has chosen to be read.
_STYLES: dict[Tone, str] = {
    "good": "green", "bad": "red", "dim": "dim", "strong": "bold", "added": "green", "removed": "red",
}  # fmt: skip


def coloured(table: Table, *, columns: int | None = None) -> str | None:
    """Text with escape sequences, `columns` wide (default: this terminal); None where rich is not installed.

    ``NO_COLOR`` and ``TERM=dumb`` are heeded. What the table holds cannot add sequences of its own.
    """
    try:
        from rich.console import Console
        from rich.padding import Padding
        from rich.table import Table as Grid
        from rich.text import Text
    except ModuleNotFoundError:
        return None

    def text(cell: str | Cell, *, blank: Tone = "") -> Text:
        cell = cell if isinstance(cell, Cell) else Cell(cell, blank)
        style = _STYLES.get(cell.tone, "")
        words = "\n".join(printable(line.expandtabs()) for line in cell.text.split("\n"))
        sign = SIGNS.get(cell.tone)
        shown = Text.assemble((f"{sign} ", style), words) if sign else Text(words, style)
        if cell.mark is not None:
            shown.stylize("reverse", *cell.mark)
        return shown

    out = io.StringIO()
    console = Console(
        file=out,
        width=columns or shutil.get_terminal_size().columns,
        force_terminal=True,
        highlight=False,
        markup=False,
        emoji=False,
    )
    if table.headline.text:
        console.print(text(table.headline))
    if table.rows:
        grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(table.headers), header_style="dim")
        for index in range(len(table.rows[0])):
            name = table.headers[index] if index < len(table.headers) else ""
            grid.add_column(Text(name), justify="right" if index in table.right else "left", overflow="fold")
        for row in table.rows:
            grid.add_row(*map(text, row))
        console.print(Padding(grid, (0, 0, 0, 2 if table.headline.text else 0)))
    for note in table.notes:
        console.print(text(note, blank="dim"))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip("\n").split("\n"))
