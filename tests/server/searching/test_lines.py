"""Lines that match: where they are, how they are shown, the same by bytes and by expression."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server.searching.lines import MOST_TEXT, MOST_TEXT_TOLD, Hit, expression, hits, literal

CONTENT = st.lists(st.sampled_from([b"a", b"b", b"ab", b"\n", b"\r\n", b"\xff", "é€".encode(), b" "])).map(b"".join)
NEEDLES = st.text(st.sampled_from("ab é"), min_size=1, max_size=3)


def by_hand(data: bytes, needle: str) -> list[tuple[int, int, str]]:
    """Line, column and text of each line that holds it, the slow way."""
    lines = [line.removesuffix(b"\r").decode("utf-8", "surrogateescape") for line in data.split(b"\n")]
    shown = [(line, re.sub("[\udc80-\udcff]", "\ufffd", line)) for line in lines]
    return [(n, line.index(needle) + 1, text) for n, (line, text) in enumerate(shown, 1) if needle in line]


@given(CONTENT, NEEDLES)
def test_bytes_and_expressions_find_what_a_reader_finds(data: bytes, needle: str) -> None:
    expected = by_hand(data, needle)
    for find in (literal(needle.encode()), expression(re.compile(re.escape(needle)))):
        assert [(hit.line, hit.column, hit.text) for hit in hits(data, find, 0, 1000)] == expected


@given(CONTENT, st.integers(0, 3))
def test_context_is_the_lines_around(data: bytes, context: int) -> None:
    lines = [line.removesuffix(b"\r").decode("utf-8", "surrogateescape") for line in data.split(b"\n")]
    lines = [re.sub("[\udc80-\udcff]", "\ufffd", line) for line in lines]
    if not lines[-1]:
        del lines[-1]  # what follows the last line end is no line
    for hit in hits(data, literal(b"a"), context, 1000):
        assert hit.before == lines[max(0, hit.line - 1 - context) : hit.line - 1]
        assert hit.after == lines[hit.line : hit.line + context]


def test_a_long_line_is_cut_around_the_hit_and_says_so() -> None:
    line = "x" * 5000 + "needle" + "y" * 5000
    (hit,) = hits(line.encode(), literal(b"needle"), 0, 10)
    assert (hit.column, hit.cut, len(hit.text)) == (5001, True, MOST_TEXT)
    assert hit.text[hit.column - hit.start :].startswith("needle")
    (hit,) = hits(b"needle" + b"z" * 5000, literal(b"needle"), 0, 10)
    assert (hit.start, hit.text) == (1, "needle" + "z" * (MOST_TEXT - 6))
    (hit,) = hits(b"z" * 5000 + b"needle", literal(b"needle"), 0, 10)
    assert hit.text == "z" * (MOST_TEXT - 6) + "needle"


def test_what_is_not_utf8_is_replaced_and_flagged_and_columns_still_count() -> None:
    (hit,) = hits(b"\xff\xfe\xc3 needle", literal(b"needle"), 0, 10)
    assert hit == Hit(1, 5, "\ufffd\ufffd\ufffd needle", 1, False, True, [], [])
    (hit,) = hits("é needle".encode(), literal(b"needle"), 0, 10)
    assert (hit.column, hit.damaged) == (3, False)


def test_a_needle_is_found_across_the_strides_of_the_search() -> None:
    for place in range((1 << 20) - 7, (1 << 20) + 2):
        data = b"\n" * place + b"needle\n"
        assert [(hit.line, hit.column) for hit in hits(data, literal(b"needle"), 0, 10)] == [(place + 1, 1)]


def test_one_file_fills_no_more_than_an_answer() -> None:
    found = hits((b"a" * 900 + b"\n") * 10_000, literal(b"a"), 20, 100_000)
    assert sum(hit.size for hit in found) < MOST_TEXT_TOLD + 50_000
    assert len(hits(b"a\n" * 100, literal(b"a"), 0, 7)) == 7


@pytest.mark.parametrize("pattern", ["^$", "b*", "$"])
def test_an_expression_may_match_an_empty_line(pattern: str) -> None:
    found = hits(b"\nx\r\n\r\n", expression(re.compile(pattern)), 0, 100)
    assert [hit.line for hit in found] == ([1, 3] if pattern == "^$" else [1, 2, 3])
