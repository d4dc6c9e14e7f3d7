"""Text for terminals and saved notebooks, as the client writes it."""

from __future__ import annotations

from sandbox_sdk._display.text import columns, count, printable, shortened, signal_name, size, width, wrapped

__all__ = ["columns", "count", "printable", "shortened", "signal_name", "size", "width", "wrapped"]
