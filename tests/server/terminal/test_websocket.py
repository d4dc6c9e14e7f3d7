"""The protocol by itself: frames in whatever pieces they come, and what is refused with which code."""

from __future__ import annotations

import base64
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_server import websocket
from sandbox_server.websocket import NO_CODE, Event, Reader, Violation, accept_key, close_frame, text_frame, unmasked
from tests.support.websocket import BINARY, CLOSE, PING, PONG, TEXT, frame


def read(data: bytes, *, piece: int = 0, most_bytes: int = 1 << 20) -> list[Event]:
    reader, events = Reader(most_bytes), []
    for start in range(0, len(data), piece or max(1, len(data))):
        events += reader.feed(data[start : start + (piece or len(data))])
        if events and events[-1].kind == "close":
            break
    return events


def violation(data: bytes, **options: int) -> tuple[int, str]:
    with pytest.raises(Violation) as refused:
        read(data, **options)
    return refused.value.code, refused.value.reason


def test_the_key_is_answered_as_the_standard_shows() -> None:
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.mark.parametrize(
    "key", ["", "abc", base64.b64encode(b"x" * 15).decode(), base64.b64encode(b"x" * 17).decode(), "é" * 24, "====" * 6]
)
def test_a_key_that_is_not_sixteen_bytes_is_none(key: str) -> None:
    assert accept_key(key) is None


@pytest.mark.parametrize("piece", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 65537])
def test_a_message_arrives_in_one_piece_however_it_is_cut(size: int, piece: int) -> None:
    data = bytes(i % 251 for i in range(size))
    if piece and size > 1000:
        piece = 1000 + piece
    assert read(frame(BINARY, data), piece=piece) == [Event("binary", data)]


def test_fragments_become_one_message_with_control_frames_in_between() -> None:
    text = "häx".encode()
    wire = frame(TEXT, text[:2], final=False) + frame(PING, b"p") + frame(0, text[2:], final=False)
    wire += frame(PONG) + frame(0, b"!")
    for piece in (0, 1, 5):
        assert read(wire, piece=piece) == [
            Event("ping", b"p"),
            Event("pong"),
            Event("text", "häx!".encode(), "häx!"),
        ]


@pytest.mark.parametrize(
    ("wire", "code"),
    [
        (frame(TEXT, b"x", mask=None), 1002),
        (bytes([0xC1, 0x80]), 1002),
        (bytes([0xA1, 0x80]), 1002),
        (bytes([0x91, 0x80]), 1002),
        *((bytes([0x80 | opcode, 0x80]), 1002) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)),
        (frame(0, b"x"), 1002),
        (frame(TEXT, b"x", final=False) + frame(TEXT, b"x"), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(PING, b"x", final=False), 1002),
        (bytes([0x82, 0xFE, 0, 125]), 1002),
        (bytes([0x82, 0xFF]) + (65535).to_bytes(8, "big"), 1002),
        (bytes([0x82, 0xFF]) + b"\xff" * 8, 1002),
        (frame(CLOSE, b"x"), 1002),
        (frame(CLOSE, b"\x03\xe8\xff"), 1007),
        (frame(TEXT, b"\xff"), 1007),
        (frame(TEXT, b"\xe4"), 1007),
        (frame(TEXT, b"\xed\xa0\x80"), 1007),
    ],
)
def test_what_breaks_the_protocol_has_a_code(wire: bytes, code: int) -> None:
    for piece in (0, 1):
        found, reason = violation(wire, piece=piece)
        assert found == code and reason


def test_bad_text_fails_at_its_first_bad_byte_not_at_the_end_of_the_message() -> None:
    head, bad = frame(TEXT, b"good \xf4\x90 and a lot more")[:6], frame(TEXT, b"good \xf4\x90")[6:]
    assert violation(head + bad)[0] == 1007


def test_good_events_before_a_violation_are_told() -> None:
    reader, events = Reader(), []
    with pytest.raises(Violation):
        for event in reader.feed(frame(TEXT, b"one") + frame(0, b"two")):
            events.append(event)
    assert [event.text for event in events] == ["one"]


@pytest.mark.parametrize("code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 4999])
def test_a_close_tells_code_and_reason(code: int) -> None:
    data = code.to_bytes(2, "big") + "für".encode()
    assert read(frame(CLOSE, data)) == [Event("close", data, "für", code)]


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535])
def test_codes_that_must_not_be_sent_are_refused(code: int) -> None:
    assert violation(frame(CLOSE, code.to_bytes(2, "big")))[0] == 1002


def test_a_close_may_be_empty_and_nothing_after_it_counts() -> None:
    assert read(frame(CLOSE) + frame(TEXT, b"late")) == [Event("close", code=NO_CODE)]


def test_a_message_over_the_limit_is_refused_before_it_is_there() -> None:
    announced = bytes([0x82, 0xFF]) + (1 << 40).to_bytes(8, "big")
    tracemalloc.start()
    try:
        assert violation(announced, most_bytes=1000)[0] == 1009
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    fragments = frame(BINARY, b"x" * 600, final=False) + frame(0, b"x" * 400, final=False)
    assert violation(fragments + frame(0, b"x"), most_bytes=1000)[0] == 1009
    assert read(fragments + frame(0), most_bytes=1000) == [Event("binary", b"x" * 1000)]


def test_tiny_fragments_cost_no_more_than_their_bytes() -> None:
    reader = Reader()
    tracemalloc.start()
    try:
        assert not list(reader.feed(frame(TEXT, b"x", final=False)))
        for _ in range(20_000):
            assert not list(reader.feed(frame(0, b"x", final=False)))
        assert tracemalloc.get_traced_memory()[0] < 200_000
    finally:
        tracemalloc.stop()


def test_our_frames_are_as_the_standard_wants_them() -> None:
    assert text_frame("hé") == b"\x81\x03h\xc3\xa9"
    assert websocket.binary_frame(b"x" * 126)[:4] == b"\x82\x7e\x00\x7e"
    assert websocket.binary_frame(b"x" * 65536)[:10] == b"\x82\x7f" + (65536).to_bytes(8, "big")
    assert websocket.ping_frame() == b"\x89\x00" and websocket.pong_frame(b"a") == b"\x8a\x01a"
    assert close_frame() == b"\x88\x00"
    assert close_frame(1000, "bye") == b"\x88\x05\x03\xe8bye"
    assert close_frame(1000, "ü" * 100) == b"\x88\x7c\x03\xe8" + "ü".encode() * 61  # cut between two characters
    assert close_frame(1008, "\udcff") == b"\x88\x03\x03\xf0?"


@given(st.binary(max_size=2000), st.binary(min_size=4, max_size=4))
def test_masks_come_off(data: bytes, mask: bytes) -> None:
    assert unmasked(data, mask) == bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))


_PIECES = st.one_of(
    st.binary(max_size=40),
    st.builds(
        frame,
        st.integers(0, 15),
        st.one_of(st.binary(max_size=200), st.text(max_size=50).map(str.encode)),
        final=st.booleans(),
        mask=st.one_of(st.none(), st.binary(min_size=4, max_size=4)),
    ),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(_PIECES, max_size=12), st.integers(1, 50))
def test_no_bytes_end_in_anything_but_events_or_a_violation(pieces: list[bytes], cut: int) -> None:
    def outcome(size: int) -> tuple[list[Event], int]:
        reader, events, data = Reader(300), list[Event](), b"".join(pieces)
        try:
            for start in range(0, len(data), size):
                for event in reader.feed(data[start : start + size]):
                    events.append(event)
                    if event.kind == "close":
                        return events, 0
        except Violation as refused:
            return events, refused.code
        return events, 0

    whole = outcome(1 << 20)
    assert outcome(cut) == whole
    assert whole[1] in (0, 1002, 1007, 1009)
