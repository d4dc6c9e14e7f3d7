"""How refusals show an untrusted value."""

from __future__ import annotations

_MOST_SHOWN = 200


def quoted(value: str) -> str:
    """The value in double quotes, cut where it is long."""
    return f'"{value}"' if len(value) <= _MOST_SHOWN else f'"{value[:_MOST_SHOWN]}…"'
