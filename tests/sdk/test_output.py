"""The course of output: offsets, gaps, ends, and text across pieces."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_sdk import Event
from sandbox_sdk._output import Course, EventCourse, FramedCourse, Kept
from tests.sdk.test_events import cut, encode


def record(kind: str, **facts: object) -> tuple[int, bytes]:
    return 3, json.dumps({"kind": kind, **facts}).encode()


def run(*frames: tuple[int, bytes]) -> tuple[Course, list[Event]]:
    course = Course()
    return course, list(FramedCourse(course).feed(encode(list(frames))))


def test_every_event_knows_its_offset_and_the_end_tells_how_it_ended() -> None:
    course, events = run(
        record("start", id="p1", pid=7, stdout=0, stderr=0),
        (1, b"ab"),
        (2, b"x"),
        record("heartbeat"),
        (1, b"c"),
        record("held"),
        record("end", exit_code=3, signal=None, reason="exit", stdout=3, stderr=1),
    )
    assert [(e.kind, e.stream, e.data, e.offset) for e in events] == [
        ("output", "stdout", b"ab", 0),
        ("output", "stderr", b"x", 0),
        ("output", "stdout", b"c", 2),
        ("held", "", b"", 0),
        ("exit", "", b"", 0),
    ]
    assert (course.pid, course.id, course.exit_code, course.signal, course.held) == (7, "p1", 3, None, True)


@pytest.mark.field(82)
@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"exit_code": -15, "signal": 15}, (-15, 15)),
        ({"exit_code": -9}, (-9, 9)),
        ({"exit_code": None, "signal": 2}, (-2, 2)),
        ({"exit_code": 0, "signal": None}, (0, None)),
    ],
)
def test_field_082_exit_code_and_signal_are_both_defined(
    facts: dict[str, int | None], expected: tuple[int, int | None]
) -> None:
    course, _ = run(record("end", **facts))
    assert (course.exit_code, course.signal) == expected


@pytest.mark.finding("R-A1")
def test_a_gap_moves_the_offset_and_tells_what_is_lost() -> None:
    course, events = run((1, b"ab"), record("gap", stream="stdout", **{"from": 2, "to": 10}), (1, b"cd"))
    assert [(e.kind, e.offset, e.lost) for e in events] == [("output", 0, 0), ("gap", 10, 8), ("output", 10, 0)]
    assert course.truncated


@given(st.text(), st.lists(st.integers(0, 5), max_size=30))
def test_characters_survive_cuts_between_their_bytes(text: str, sizes: list[int]) -> None:
    text = text.encode("utf-8", "replace").decode()
    course = Course()
    events = [course.output("stdout", piece) for piece in cut(text.encode(), sizes)]
    assert "".join(event.text for event in events) == text
    assert b"".join(event.data for event in events) == text.encode()


@pytest.mark.field(55)
def test_field_055_bytes_that_are_no_text_are_exact_and_shown_as_replacements() -> None:
    event = Course().output("stdout", b"\xff\xfe\n")
    assert (event.data, event.text) == (b"\xff\xfe\n", "\ufffd\ufffd\n")


def test_server_sent_lines_get_their_line_ends_back() -> None:
    course = Course()
    reader = EventCourse(course)
    lines = b'event: stdout\ndata: {"data":"a"}\n\nevent: stderr\ndata: {"data":""}\n\n'
    events = list(reader.feed(lines + b'event: exit\ndata: {"exit_code":-9}\n\n'))
    assert [(e.kind, e.stream, e.data) for e in events] == [
        ("output", "stdout", b"a\n"),
        ("output", "stderr", b"\n"),
        ("exit", "", b""),
    ]
    assert (course.exit_code, course.signal, course.ended) == (-9, 9, True)


def test_a_command_that_could_not_start_has_no_exit_code() -> None:
    course = Course()
    list(EventCourse(course).feed(b'event: error\ndata: {"error":"no such program"}\n\n'))
    assert (course.ended, course.exit_code, course.reason) == (True, None, "no such program")


def test_a_timeout_is_told_with_the_exit() -> None:
    course = Course()
    reader = EventCourse(course)
    assert list(reader.feed(b'event: error\ndata: {"error":"timeout"}\n\n')) == []
    list(reader.feed(b'event: exit\ndata: {"exit_code":-9}\n\n'))
    assert (course.reason, course.exit_code) == ("timeout", -9)


def test_nothing_follows_the_end() -> None:
    course = Course()
    data = b'event: error\ndata: {"error":"broken"}\n\nevent: exit\ndata: {"exit_code":0}\n\n'
    assert [event.kind for event in EventCourse(course).feed(data)] == ["exit"]
    assert course.exit_code is None


@pytest.mark.field(58)
@given(st.lists(st.binary(max_size=50)), st.integers(0, 60))
def test_field_058_only_the_last_bytes_are_kept(pieces: list[bytes], limit: int) -> None:
    kept = Kept(limit)
    for piece in pieces:
        kept.add(piece)
    whole = b"".join(pieces)
    assert kept.data() == (whole[-limit:] if limit else b"")
    assert kept.cut == (len(whole) > limit)
