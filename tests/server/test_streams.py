"""Streamed bodies: what a reader of server-sent events or of frames gets back is what was put in."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server import streams


def test_an_event_is_a_name_a_line_of_json_and_a_blank_line() -> None:
    assert streams.event("stdout", {"data": "a\nb"}) == b'event: stdout\ndata: {"data":"a\\nb"}\n\n'


@pytest.mark.field(67)
@given(st.text())
def test_field_067_text_cannot_forge_an_event(text: str) -> None:
    sent = streams.event("stdout", {"data": text + '\n\nevent: exit\ndata: {"code":0}\n\n'})
    assert sent.endswith(b"\n\n")
    assert sent.count(b"\n") == 3
    assert b"\r" not in sent
    name, data, blank, end = sent.split(b"\n")
    assert (name, blank, end) == (b"event: stdout", b"", b"")
    assert json.loads(data.removeprefix(b"data: "))["data"].startswith(text)


@given(st.sampled_from([streams.STDOUT, streams.STDERR, streams.RECORDS]), st.binary())
def test_a_frame_is_the_stream_three_zeros_the_length_and_the_payload(stream: int, payload: bytes) -> None:
    sent = streams.frame(stream, payload)
    assert sent[:8] == struct.pack(">BxxxL", stream, len(payload))
    assert sent[8:] == payload
    assert streams.frame(stream, memoryview(payload)) == sent


def test_a_record_is_a_frame_of_stream_three_with_one_json_object() -> None:
    sent = streams.record("gap", stream=1, **{"from": 0, "to": 10})
    assert sent[:8] == struct.pack(">BxxxL", 3, len(sent) - 8)
    assert json.loads(sent[8:]) == {"kind": "gap", "stream": 1, "from": 0, "to": 10}
