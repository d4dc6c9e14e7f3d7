"""Sizes: bare integers are bytes, ``5MB`` is 5·10^6 bytes, ``5MiB`` is 5·2^20."""

from __future__ import annotations

import re

from .wording import shown

UNITS: dict[str, int] = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}
LARGEST = 1 << 128  # far beyond any disk; keeps every number printable
_SIZE = re.compile(r"([0-9]{1,30})(?:\.([0-9]{1,30}))?[ \t]*([A-Za-z]*)")


def parse_size(value: object) -> int:
    """The number of bytes. Raises ``ValueError`` with a message that names what was expected.

    The arithmetic is exact; a fraction of a byte is cut off.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        size = int(value)
    elif isinstance(value, str):
        size = _from_text(value)
    else:
        raise ValueError(_expected(value))
    if not 0 < size < LARGEST:
        raise ValueError(_expected(value))
    return size


def _from_text(text: str) -> int:
    match = _SIZE.fullmatch(text.strip(" \t"))
    unit = UNITS.get(match[3].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(_expected(text))
    fraction = match[2] or ""
    scale: int = 10 ** len(fraction)
    return int(match[1] + fraction) * unit // scale


def _expected(value: object) -> str:
    return f'{shown(value)} is no size; use bytes as an integer above 0, or text such as "5MB" or "64KiB"'
