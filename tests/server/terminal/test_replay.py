"""The last bytes of a terminal, by offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sandbox_server.terminal.replay import Replay


def test_everything_is_there_until_the_room_is_used_up() -> None:
    replay = Replay(10)
    replay.append(b"abc")
    replay.append(b"def")
    assert (replay.start, replay.end) == (0, 6)
    assert replay.read(0, 100) == (0, b"abcdef")
    assert replay.read(2, 3) == (2, b"cde")
    assert replay.read(6, 100) == (6, b"")


def test_what_is_gone_is_skipped_to_the_next_line() -> None:
    replay = Replay(10)
    replay.append(b"one\ntwo\nthree\n")
    assert (replay.start, replay.end) == (4, 14)
    assert replay.read(0, 100) == (8, b"three\n")
    assert replay.read(5, 100) == (5, b"wo\nthree\n")  # still there: exactly from where it was asked for


def test_without_a_line_it_begins_with_a_whole_character() -> None:
    replay = Replay(5)
    replay.append("xéé€".encode())
    first, data = replay.read(0, 100)
    assert (first, data.decode()) == (3, "é€")
    replay.append(b"!")
    assert replay.read(0, 100)[1].decode() == "€!"


@given(st.lists(st.binary(max_size=30)), st.integers(1, 40), st.integers(1, 20))
def test_a_reader_who_keeps_up_sees_every_byte_once(pieces: list[bytes], capacity: int, most: int) -> None:
    replay, seen, position = Replay(capacity + 30), b"", 0
    for piece in pieces:
        replay.append(piece)
        while data := replay.read(position, most)[1]:
            seen += data
            position += len(data)
    assert seen == b"".join(pieces) and position == replay.end
