"""SHA-256 of what a stream carried, when somebody asked for it: it costs more than the carrying."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..process.ring import NAMES

if TYPE_CHECKING:
    import hashlib


class Digests:
    """One per stream, or none at all."""

    def __init__(self, *, wanted: bool) -> None:
        self._hashes: dict[int, hashlib._Hash] = {}
        if wanted:
            import hashlib

            self._hashes = {stream: hashlib.sha256() for stream in NAMES}

    def add(self, stream: int, data: bytes) -> None:
        if self._hashes:
            self._hashes[stream].update(data)

    def told(self) -> dict[str, str] | None:
        """Hexadecimal by the stream's name; None when nobody asked."""
        if not self._hashes:
            return None
        return {NAMES[stream]: value.hexdigest() for stream, value in self._hashes.items()}
