"""The one table model, and its two forms, as the client has them."""

from __future__ import annotations

from sandbox_sdk._display.table import SIGNS, Cell, Row, Table, Tone, as_html, as_text, pairs

__all__ = ["SIGNS", "Cell", "Row", "Table", "Tone", "as_html", "as_text", "pairs"]
