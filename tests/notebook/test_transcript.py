"""Output as lines: what is kept, what is counted, and how carriage returns and colours read."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_notebook.widgets.sgr import spans
from sandbox_notebook.widgets.snapshot import snapshot
from sandbox_notebook.widgets.transcript import Line, Transcript


def texts(transcript: Transcript) -> list[str]:
    return [line.text for line in transcript.since(0, 10_000).lines]


def test_lines_are_numbered_and_the_newest_are_kept() -> None:
    transcript = Transcript(most=3)
    transcript.feed("stdout", b"".join(b"line %d\n" % number for number in range(5)))
    assert transcript.count == 5
    assert transcript.since(0, 100) == (2, [Line("stdout", f"line {number}") for number in (2, 3, 4)])
    assert transcript.since(4, 100) == (4, [Line("stdout", "line 4")])
    assert transcript.since(5, 100) == (5, [])
    assert transcript.since(0, 1) == (4, [Line("stdout", "line 4")])


def test_a_character_cut_in_two_and_a_last_line_without_an_end_arrive_whole() -> None:
    transcript = Transcript()
    transcript.feed("stdout", "naïve".encode()[:3])
    transcript.feed("stderr", b"other\n")
    transcript.feed("stdout", "naïve".encode()[3:])
    assert transcript.open_lines() == [Line("stdout", "naïve")]
    transcript.end()
    assert transcript.since(0, 10).lines == [Line("stderr", "other"), Line("stdout", "naïve")]
    assert transcript.open_lines() == []


def test_a_progress_bar_is_one_line_that_changes() -> None:
    transcript = Transcript()
    transcript.feed("stdout", b" 10%|#   |\r 50%|##  |")
    assert transcript.open_lines() == [Line("stdout", " 50%|##  |")]
    transcript.feed("stdout", b"\r100%|####|\r\nabc\rX\n")
    assert texts(transcript) == ["100%|####|", "Xbc"]


def test_a_line_that_never_ends_takes_bounded_room() -> None:
    transcript = Transcript()
    for _ in range(100):
        transcript.feed("stdout", b"x" * 65536)
    assert len(transcript.open_lines()[0].text) <= 4001


@pytest.mark.field(61)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", [("plain", "")]),
        ("\x1b[1;31mred\x1b[0m!", [("red", "font-weight:600;color:#d1453b"), ("!", "")]),
        ("\x1b[38:2::255:0:0mX", [("X", "color:rgb(255,0,0)")]),
        ("\x1b[38;2;1;2;3;4mX", [("X", "color:rgb(1,2,3);text-decoration:underline")]),
        ("\x1b[38;5;208mX\x1b[39mY", [("X", "color:rgb(255,135,0)"), ("Y", "")]),
        ("\x1b]8;;http://a.example\x07link\x1b]8;;\x07", [("link", "")]),
        ("\x1b[2K\x1b[10;5Hmoved\x07", [("moved", "")]),
        ("half\x1b[3", [("half[3", "")]),
        ("\x1b[" + "9" * 5000 + "mX", [("X", "")]),
    ],
)
def test_field_061_colour_codes_become_styles_and_other_sequences_vanish(
    text: str, expected: list[tuple[str, str]]
) -> None:
    assert list(spans(text)) == expected


@given(st.text(alphabet="\x1b[]0123456789;:?<mK\x07\\ab<\n\r", max_size=60))
def test_no_output_can_leave_its_element(text: str) -> None:
    pieces = list(spans(text))
    assert "\x1b" not in "".join(piece for piece, _ in pieces)
    assert all(re.fullmatch(r"[a-z0-9:;#().,\- %]*", style) for _, style in pieces)


def test_a_finished_process_is_plain_html_with_its_last_lines() -> None:
    transcript = Transcript()
    transcript.feed("stdout", b"".join(b"%d\n" % number for number in range(250)) + b"<script>alert(1)</script>\n")
    transcript.feed("stderr", b"\x1b[31mwarned\x1b[0m\n")
    page, text = snapshot("train & test", "exit code 0", transcript, 61.23)
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "✓ train &amp; test · exit code 0 · 61.2 s" in page
    assert "… 52 earlier lines not shown …" in page and "… 52 earlier lines not shown …" in text
    assert "#dc4a43" in page and "\x1b" not in page
    assert text.splitlines()[-1] == "warned"
    assert "http" not in page
