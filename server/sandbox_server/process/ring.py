"""The last bytes of a process's output, for any number of readers at any pace.

Bytes are numbered per stream from the start of the process, so a reader who says how far it got misses nothing and gets
nothing twice, or is told which bytes are gone. Besides, every chunk has a sequence number for readers of the JSON form.
Writing never waits for a reader.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from .wake import Wake

STDOUT = 1
STDERR = 2
NAMES = {STDOUT: "stdout", STDERR: "stderr"}
CHUNK_BYTES = 4096
#: A chunk costs some 200 bytes besides its data, so their number is bounded too; from the first number on, small writes
#: are joined.
_JOIN_FROM = 256
_LEAST_CHUNK = 64


class Chunk:
    """`lead`: the start of a character that the stream's previous chunk ended with; it is told with this one."""

    __slots__ = ("data", "lead", "offset", "seq", "stream")

    def __init__(self, seq: int, stream: int, offset: int, data: bytes, lead: bytes = b"") -> None:
        self.seq = seq
        self.stream = stream
        self.offset = offset
        self.data = data
        self.lead = lead

    def end(self) -> int:
        return self.offset + len(self.data)

    def text(self) -> tuple[str, bool]:
        """The characters that end here, and whether some bytes were none."""
        whole = self.lead + self.data
        if self.data:  # an empty chunk closes the stream: what never became a character is told as it is
            whole = whole[: len(whole) - unfinished(whole)]
        try:
            return whole.decode(), False
        except UnicodeDecodeError:
            return whole.decode(errors="replace"), True


class Gap(NamedTuple):
    """Bytes `start` to `end` of a stream are gone."""

    stream: int
    start: int
    end: int


class Block(NamedTuple):
    """Bytes of one stream, from `offset` on."""

    stream: int
    offset: int
    data: bytes


class Cursor:
    """How far one reader got: the next byte of each stream."""

    __slots__ = ("next", "seq")

    def __init__(self, next: dict[int, int] | None = None, seq: int = 0) -> None:
        self.next = {STDOUT: 0, STDERR: 0} if next is None else next
        self.seq = seq


class Ring:
    """At most `capacity` bytes, both streams together; whole oldest chunks make room."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.written = {STDOUT: 0, STDERR: 0}
        self.dropped = False
        self.closed = False  # no more output can come
        self._chunk_bytes = min(CHUNK_BYTES, capacity) or CHUNK_BYTES
        self._lock = threading.Lock()
        self._chunks: deque[Chunk] = deque()
        self._size = 0
        self._next_seq = 0
        self._told = 0  # chunks below this sequence number have been told and must not grow any more
        self._first = {STDOUT: 0, STDERR: 0}  # the oldest byte still held
        self._carry = {STDOUT: b"", STDERR: b""}
        self._wakes: tuple[Wake, ...] = ()

    @property
    def size(self) -> int:
        return self._size

    def append(self, stream: int, data: bytes) -> None:
        size = self._chunk_bytes
        with self._lock:
            start = self._joined(stream, data)
            start += self._skipped(stream, len(data) - start)
            for at in range(start, len(data), size):
                self._add(stream, data[at : at + size])
        self.ring()

    def end_stream(self, stream: int) -> None:
        """No more of this one: the start of a character that will never be finished is told as it is."""
        with self._lock:
            if self._carry[stream]:
                self._add(stream, b"")

    def close(self) -> None:
        self.closed = True
        self.ring()

    def ring(self) -> None:
        """Wake those who listen."""
        for wake in self._wakes:
            wake.set()

    def listen(self, wake: Wake) -> None:
        with self._lock:
            self._wakes += (wake,)

    def leave(self, wake: Wake) -> None:
        with self._lock:
            self._wakes = tuple(other for other in self._wakes if other is not wake)

    def since(self, seq: int) -> tuple[list[Chunk], int]:
        """The chunks from sequence number `seq` on that are still held, and the number after the last."""
        with self._lock:
            self._told = self._next_seq
            return list(self._from(seq)), self._next_seq

    def has_since(self, seq: int) -> bool:
        return seq < self._next_seq

    def take(self, cursor: Cursor, limit: int = 1 << 18) -> list[Gap | Block]:
        """What comes next for this reader, at most `limit` bytes; moves the cursor."""
        parts: list[Gap | Block] = []
        with self._lock:
            for stream, first in self._first.items():
                if cursor.next[stream] < first:
                    parts.append(Gap(stream, cursor.next[stream], first))
                    cursor.next[stream] = first
            pieces: list[bytes] = []
            stream = 0
            for chunk in self._from(cursor.seq):
                cursor.seq = chunk.seq  # not the one after: this one may still grow
                data = chunk.data[max(0, cursor.next[chunk.stream] - chunk.offset) :]
                if not data:
                    continue
                if chunk.stream != stream:
                    _flush(parts, pieces, stream, cursor)
                    stream = chunk.stream
                pieces.append(data)
                cursor.next[stream] += len(data)
                limit -= len(data)
                if limit <= 0:
                    break
            _flush(parts, pieces, stream, cursor)
        return parts

    def _from(self, seq: int) -> Iterator[Chunk]:
        first = self._chunks[0].seq if self._chunks else self._next_seq
        return islice(self._chunks, min(max(0, seq - first), len(self._chunks)), None)

    def _joined(self, stream: int, data: bytes) -> int:
        """How many bytes of `data` the newest chunk took in."""
        if len(self._chunks) < _JOIN_FROM:
            return 0
        last = self._chunks[-1]
        if last.stream != stream or last.seq < self._told:
            return 0
        taken = data[: self._chunk_bytes - len(last.data)]
        last.data += taken
        self._count(last, len(taken))
        return len(taken)

    def _skipped(self, stream: int, length: int) -> int:
        """How many of `length` new bytes need not be stored because the rest of them fills the ring."""
        chunks = max(0, length - self.capacity) // self._chunk_bytes
        if chunks:
            while self._chunks:
                self._drop()
            self._next_seq += chunks
            self.written[stream] += chunks * self._chunk_bytes
            self._first[stream] = self.written[stream]
            self._carry[stream] = b""
            self.dropped = True
        return chunks * self._chunk_bytes

    def _add(self, stream: int, data: bytes) -> None:
        chunk = Chunk(self._next_seq, stream, self.written[stream], data, self._carry[stream])
        self._next_seq += 1
        self._chunks.append(chunk)
        self._count(chunk, len(data))

    def _count(self, chunk: Chunk, added: int) -> None:
        self.written[chunk.stream] += added
        self._size += added
        whole = chunk.lead + chunk.data
        self._carry[chunk.stream] = whole[len(whole) - unfinished(whole) :] if chunk.data else b""
        while self._size > self.capacity or len(self._chunks) > _JOIN_FROM + self.capacity // _LEAST_CHUNK:
            self._drop()

    def _drop(self) -> None:
        oldest = self._chunks.popleft()
        self._size -= len(oldest.data)
        self._first[oldest.stream] = oldest.end()
        self.dropped = True


def unfinished(data: bytes) -> int:
    """How many bytes at the end are the start of a UTF-8 character that goes on: 0 to 3."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return 0
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4 if byte < 0xF5 else 0
            return back if length > back else 0
    return 0


def _flush(parts: list[Gap | Block], pieces: list[bytes], stream: int, cursor: Cursor) -> None:
    if pieces:
        data = b"".join(pieces)
        parts.append(Block(stream, cursor.next[stream] - len(data), data))
        pieces.clear()
