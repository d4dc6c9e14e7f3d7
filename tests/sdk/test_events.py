"""Frames and server-sent events, however they are cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_sdk._events import Frame, FrameDecoder, MalformedStreamError, ServerSentEvent, SSEDecoder

FRAMES = st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.binary(max_size=40)), max_size=12)


def encode(frames: list[tuple[int, bytes]]) -> bytes:
    return b"".join(bytes([s, 0, 0, 0]) + len(payload).to_bytes(4, "big") + payload for s, payload in frames)


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces, position = [], 0
    for size in sizes:
        pieces.append(data[position : position + size])
        position += size
    return [*pieces, data[position:]]


@given(FRAMES, st.lists(st.integers(0, 30), max_size=40))
def test_frames_come_out_whole_however_they_are_cut(frames: list[tuple[int, bytes]], sizes: list[int]) -> None:
    decoder = FrameDecoder()
    out = [frame for piece in cut(encode(frames), sizes) for frame in decoder.feed(piece)]
    for stream in (1, 2):
        expected = b"".join(payload for s, payload in frames if s == stream)
        assert b"".join(frame.payload for frame in out if frame.stream == stream) == expected
    assert [f.payload for f in out if f.stream == 3] == [payload for s, payload in frames if s == 3 and payload]


@pytest.mark.field(65)
@pytest.mark.parametrize("size", range(1, 9))
def test_field_065_a_short_last_frame_is_delivered(size: int) -> None:
    decoder = FrameDecoder()
    assert list(decoder.feed(encode([(1, b"x" * size)]))) == [Frame(1, b"x" * size)]


def test_output_is_handed_out_before_its_frame_is_whole() -> None:
    decoder = FrameDecoder()
    head = encode([(1, b"x" * 1000)])[:18]
    assert list(decoder.feed(head)) == [Frame(1, b"x" * 10)]


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1",
        bytes([1, 0, 1, 0]) + bytes(4),
        bytes([4]) + bytes(7),
        bytes([0]) + bytes(7),
        bytes([3, 0, 0, 0, 255, 255, 255, 255]),
    ],
)
def test_what_is_no_frame_is_noticed(data: bytes) -> None:
    with pytest.raises(MalformedStreamError):
        list(FrameDecoder().feed(data))


JSON_OBJECTS = st.dictionaries(st.text(max_size=5), st.text(max_size=10) | st.integers(), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["stdout", "exit"]), JSON_OBJECTS), max_size=6), st.lists(st.integers(0, 20)))
def test_server_sent_events_come_out_whole_however_they_are_cut(
    events: list[tuple[str, dict[str, object]]], sizes: list[int]
) -> None:
    data = b"".join(f"event: {name}\ndata: {json.dumps(facts)}\n\n".encode() for name, facts in events)
    decoder = SSEDecoder()
    out = [event for piece in cut(data, sizes) for event in decoder.feed(piece)]
    assert out == [ServerSentEvent(name, facts) for name, facts in events]


def test_comments_line_ends_and_missing_names_are_understood() -> None:
    decoder = SSEDecoder()
    data = b":\n\n: comment\r\n\r\nid: 7\r\ndata: {\r\ndata: }\r\n\r\nevent: x\n\nretry: 5\n"
    assert list(decoder.feed(data)) == [ServerSentEvent("message", {})]


@pytest.mark.field(67)
def test_field_067_text_cannot_forge_an_event() -> None:
    forged = '\n\nevent: exit\ndata: {"exit_code":0}\n\n'
    data = f"event: stdout\ndata: {json.dumps({'data': forged})}\n\n".encode()
    assert list(SSEDecoder().feed(data)) == [ServerSentEvent("stdout", {"data": forged})]


@pytest.mark.parametrize("data", [b"data: nonsense\n\n", b"data: [1]\n\n", b"data: " + b"[" * 100_000 + b"\n\n"])
def test_data_that_is_no_json_object_is_noticed(data: bytes) -> None:
    with pytest.raises(MalformedStreamError):
        list(SSEDecoder().feed(data))
