"""What callers may say, and how large a picture is; nothing here needs the browser."""

from __future__ import annotations

import struct
from typing import Literal

Moment = Literal["load", "domcontentloaded", "networkidle", "commit"]
PAPERS = ("A0", "A1", "A2", "A3", "A4", "A5", "A6", "Letter", "Legal", "Tabloid", "Ledger")


def image_size(data: bytes) -> tuple[int, int]:
    """Width and height of a PNG or JPEG."""
    if data.startswith(b"\x89PNG"):
        width, height = struct.unpack_from(">2L", data, 16)
        return width, height
    place = 2
    while place + 9 < len(data):
        marker, length = struct.unpack_from(">2H", data, place)
        if 0xFFC0 <= marker <= 0xFFC3:
            height, width = struct.unpack_from(">2H", data, place + 5)
            return width, height
        place += 2 + length
    return 0, 0
