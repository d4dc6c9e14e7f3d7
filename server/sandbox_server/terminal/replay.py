"""The last bytes that a terminal has shown, by their offsets since its beginning."""

from __future__ import annotations

import threading

#: How far a safe place to begin is looked for.
_LOOK_BYTES = 4096


class Replay:
    """Bounded: old bytes make way for new ones. One thread appends, any number read."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._bytes = bytearray()
        self.start = 0  # offset of the oldest byte kept
        self.end = 0

    def append(self, data: bytes) -> None:
        with self._lock:
            self._bytes += data
            self.end += len(data)
            over = len(self._bytes) - self._capacity
            if over > 0:
                del self._bytes[:over]
                self.start += over

    def read(self, offset: int, most: int) -> tuple[int, bytes]:
        """Up to `most` bytes from `offset` on, and where they begin: later than asked for when older ones are gone.

        What begins in the middle of things begins with a line if there is one, and never within a character.
        """
        with self._lock:
            first = offset if offset >= self.start else self._safe(self.start)
            at = first - self.start
            return first, bytes(self._bytes[at : at + most])

    def recent(self, count: int) -> int:
        """A place to begin, about so many bytes before the end."""
        with self._lock:
            return self._safe(max(self.start, self.end - count))

    def _safe(self, offset: int) -> int:
        at = offset - self.start
        line = self._bytes.find(b"\n", at, at + _LOOK_BYTES) + 1
        if line:
            return self.start + line
        skipped = at
        while skipped < min(at + 3, len(self._bytes)) and self._bytes[skipped] & 0xC0 == 0x80:
            skipped += 1
        return self.start + skipped
