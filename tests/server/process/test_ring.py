"""The ring: every reader gets every byte once, or is told which are gone."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server.process import ring as module
from sandbox_server.process.ring import STDERR, STDOUT, Block, Cursor, Gap, Ring, unfinished
from sandbox_server.process.wake import Wake

STREAMS = st.sampled_from([STDOUT, STDERR])
WRITES = st.tuples(st.just("write"), STREAMS, st.binary(max_size=40))
READS = st.tuples(st.just("read"), st.integers(0, 2), st.integers(1, 30))
ATTACHES = st.tuples(st.just("attach"), st.integers(0, 60), st.integers(0, 60))
TELLS = st.tuples(st.just("tell"), st.integers(0, 40), st.just(0))


class Reader:
    """Checks that what it gets joins on exactly, against all that was ever written."""

    def __init__(self, stdout: int = 0, stderr: int = 0) -> None:
        self.cursor = Cursor({STDOUT: stdout, STDERR: stderr})
        self.at = {STDOUT: stdout, STDERR: stderr}

    def read(self, ring: Ring, written: dict[int, bytes], limit: int = 1 << 18) -> bool:
        parts = ring.take(self.cursor, limit)
        for part in parts:
            if isinstance(part, Gap):
                assert part.start == self.at[part.stream] < part.end <= len(written[part.stream])
                self.at[part.stream] = part.end
            else:
                assert part.data and part.offset == self.at[part.stream]
                self.at[part.stream] += len(part.data)
                assert written[part.stream][part.offset : self.at[part.stream]] == part.data
        return bool(parts)


@pytest.mark.finding("R-A1")
@given(
    capacity=st.integers(0, 100),
    join_from=st.sampled_from([1, 3, 256]),
    steps=st.lists(st.one_of(WRITES, WRITES, READS, ATTACHES, TELLS), max_size=60),
)
def test_any_reader_of_any_writing_gets_all_bytes_in_order_or_explicit_gaps(
    capacity: int, join_from: int, steps: list[Any]
) -> None:
    with mock.patch.object(module, "_JOIN_FROM", join_from):
        ring = Ring(capacity)
        written = {STDOUT: b"", STDERR: b""}
        readers = [Reader()]
        told: dict[int, tuple[int, bytes]] = {}
        for what, first, second in steps:
            if what == "write":
                ring.append(first, second)
                written[first] += second
                assert ring.size <= capacity
            elif what == "read":
                readers[first % len(readers)].read(ring, written, second)
            elif what == "attach":
                readers.append(Reader(first, second))
            else:
                chunks, following = ring.since(first)
                assert [c.seq for c in chunks] == list(range(following - len(chunks), following))
                for chunk in chunks:
                    assert told.setdefault(chunk.seq, (chunk.stream, chunk.data)) == (chunk.stream, chunk.data)
                    assert written[chunk.stream][chunk.offset : chunk.end()] == chunk.data
        for reader in readers:
            while reader.read(ring, written):
                pass
            for stream, at in reader.at.items():
                assert at >= len(written[stream])
        assert ring.written == {stream: len(data) for stream, data in written.items()}
        kept = sum(len(chunk.data) for chunk in ring.since(0)[0])
        assert ring.dropped == (kept < sum(map(len, written.values())))


@given(text=st.text(max_size=60), cuts=st.lists(st.integers(0, 240), max_size=8), tail=st.binary(max_size=3))
def test_characters_cut_between_chunks_are_told_whole(text: str, cuts: list[int], tail: bytes) -> None:
    data = text.encode() + tail
    ring = Ring(1 << 20)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in zip(edges, edges[1:], strict=False):
        ring.append(STDERR, data[start:end])
    ring.end_stream(STDERR)
    told = [chunk.text() for chunk in ring.since(0)[0]]
    assert "".join(text for text, _ in told) == data.decode(errors="replace")
    try:
        data.decode()
    except UnicodeDecodeError:
        assert any(damaged for _, damaged in told)
    else:
        assert not any(damaged for _, damaged in told)


@given(st.text(min_size=1, max_size=5), st.integers(0, 3))
def test_an_unfinished_character_is_recognised_by_its_first_bytes(text: str, cut: int) -> None:
    whole = text.encode()
    last = text[-1].encode()
    cut = min(cut, len(last))
    rest = whole[: len(whole) - cut]
    assert unfinished(rest) == (len(last) - cut if cut else 0)
    assert unfinished(b"ab\xff") == unfinished(b"\x80\x80\x80\x80") == unfinished(b"") == 0


def test_chunks_have_at_most_4096_bytes_and_count_up() -> None:
    ring = Ring(1 << 20)
    ring.append(STDOUT, b"x" * 10_000)
    ring.append(STDERR, b"y")
    chunks, following = ring.since(0)
    assert [(c.seq, c.stream, len(c.data), c.offset) for c in chunks] == [
        (0, STDOUT, 4096, 0),
        (1, STDOUT, 4096, 4096),
        (2, STDOUT, 1808, 8192),
        (3, STDERR, 1, 0),
    ]
    assert following == 4
    assert [c.seq for c in ring.since(2)[0]] == [2, 3]
    assert ring.since(99) == ([], 4)


def test_the_oldest_chunks_make_room_and_the_gap_has_exact_edges() -> None:
    ring = Ring(10)
    for number in range(1, 7):
        ring.append(STDOUT, b"line%d\n" % number)
    chunks, following = ring.since(0)
    assert [(c.seq, c.data) for c in chunks] == [(5, b"line6\n")]
    assert (following, ring.dropped) == (6, True)
    assert ring.take(Cursor({STDOUT: 3, STDERR: 0})) == [Gap(STDOUT, 3, 30), Block(STDOUT, 30, b"line6\n")]


def test_a_reader_ahead_of_the_output_gets_nothing_twice() -> None:
    ring = Ring(100)
    cursor = Cursor({STDOUT: 4, STDERR: 0})
    ring.append(STDOUT, b"abc")
    assert ring.take(cursor) == []
    ring.append(STDOUT, b"defg")
    assert ring.take(cursor) == [Block(STDOUT, 4, b"efg")]


def test_bytes_that_fell_out_are_told_even_when_nothing_of_their_stream_is_left() -> None:
    ring = Ring(8)
    ring.append(STDOUT, b"abcd")
    ring.append(STDERR, b"12345678")
    assert ring.take(Cursor()) == [Gap(STDOUT, 0, 4), Block(STDERR, 0, b"12345678")]


@pytest.mark.field(58)
def test_field_058_a_million_tiny_writes_cost_no_more_than_their_bytes() -> None:
    ring = Ring(1 << 16)
    for _ in range(100_000):
        ring.append(STDOUT, b"x")
    chunks, _ = ring.since(0)
    assert len(chunks) < 2000
    assert sum(len(c.data) for c in chunks) == ring.size <= 1 << 16


def test_listeners_are_woken_by_output_and_by_the_end() -> None:
    ring, wake = Ring(100), Wake()
    ring.listen(wake)
    ring.append(STDOUT, b"x")
    assert _rings(wake)
    wake.clear()
    wake.clear()
    assert not _rings(wake)
    ring.close()
    assert _rings(wake)
    wake.clear()
    ring.leave(wake)
    ring.append(STDOUT, b"y")
    assert not _rings(wake)
    wake.close()


def test_a_doorbell_made_of_a_pipe_works_like_one_made_of_an_eventfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.eventfd")
    wake = Wake()
    for _ in range(20_000):  # more than a pipe holds
        wake.set()
    assert _rings(wake)
    while _rings(wake):
        wake.clear()
    wake.close()


def _rings(wake: Wake) -> bool:
    import select

    return bool(select.select([wake], [], [], 0)[0])
