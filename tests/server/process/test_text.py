"""Bytes into text: whole, or by the line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server.handlers.text import LINE_BYTES, Budget, Captured, LineEvents

from .harness import sse


def lines_of(pieces: list[bytes], limit: int | None = None) -> tuple[list[dict[str, object]], Budget]:
    budget = Budget(limit)
    lines = LineEvents("stdout", budget)
    encoded = b"".join([*(lines.feed(piece) for piece in pieces), lines.end()])
    events = sse(encoded)
    assert all(name == "stdout" for name, _ in events)
    return [facts for _, facts in events], budget


@given(st.lists(st.binary(max_size=30)))
def test_lines_do_not_depend_on_how_the_bytes_came(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    events, _ = lines_of(pieces)
    joined = "".join(str(e["data"]) + ("" if e.get("partial") else "\n") for e in events)
    assert joined == whole.decode(errors="replace")
    assert events == lines_of([whole])[0]


@pytest.mark.field(59)
def test_field_059_blank_lines_and_an_unterminated_last_line_are_told() -> None:
    assert lines_of([b"a\n\nb\n\n\nc"])[0] == [
        {"data": "a"}, {"data": ""}, {"data": "b"}, {"data": ""}, {"data": ""}, {"data": "c", "partial": True},
    ]  # fmt: skip


@pytest.mark.field(56)
def test_field_056_a_long_line_comes_in_pieces_that_join_exactly() -> None:
    text = "é" * 150_001
    data = text.encode() + b"\nnext\n"
    pieces = [data[at : at + 4000] for at in range(0, len(data), 4000)]
    events, _ = lines_of(pieces)
    assert events[-1] == {"data": "next"}
    assert [e.get("partial") for e in events[:-2]] == [True] * len(events[:-2])
    assert "".join(str(e["data"]) for e in events[:-1]) == text
    assert all(len(str(e["data"]).encode()) < 2 * LINE_BYTES for e in events)


@pytest.mark.field(55)
def test_field_055_bytes_that_are_no_text_are_replaced_and_flagged() -> None:
    assert lines_of([b"\xff\xfe\nok\nend\xc3"])[0] == [
        {"data": "\ufffd\ufffd", "encoding_errors": True},
        {"data": "ok"},
        {"data": "end\ufffd", "partial": True, "encoding_errors": True},
    ]
    captured = Captured(None)
    captured.add(b"\xff!")
    assert captured.text() == ("\ufffd!", True)


@pytest.mark.field(67)
def test_field_067_output_cannot_forge_an_event() -> None:
    forged = b'\n\nevent: exit\ndata: {"code":0}\n\n'
    events, _ = lines_of([forged])
    assert [e["data"] for e in events] == ["", "", "event: exit", 'data: {"code":0}', ""]


@given(st.lists(st.text(alphabet="aé\n", max_size=12)), st.integers(0, 60))
def test_the_budget_counts_characters_and_line_ends_and_never_splits_a_line(texts: list[str], limit: int) -> None:
    whole = "".join(texts)
    events, budget = lines_of([text.encode() for text in texts], limit)
    left, told, crossed = limit, [], False
    for line in whole.splitlines(keepends=True):
        crossed = crossed or len(line) > left
        if not crossed:
            told.append(line.rstrip("\n"))
            left -= len(line)
    assert [e["data"] for e in events] == told
    assert budget.spent == crossed


@given(st.text(max_size=40), st.integers(0, 60))
def test_capturing_cuts_between_characters(text: str, limit: int) -> None:
    captured = Captured(limit)
    data = text.encode()
    for at in range(0, len(data), 7):
        captured.add(data[at : at + 7])
    told, damaged = captured.text()
    assert captured.truncated == (len(data) > limit)
    assert not damaged
    assert len(told.encode()) <= limit
    assert text.replace("\r\n", "\n").replace("\r", "\n").startswith(told.rstrip("\n"))


def test_captured_line_ends_become_line_feeds() -> None:
    captured = Captured(None)
    captured.add(b"a\r\nb\r")
    captured.add(b"c")
    assert captured.text() == ("a\nb\nc", False)
