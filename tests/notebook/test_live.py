"""Live output: nothing lost, no character broken, and no flood."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from sandbox_notebook.live import LiveText


def shown(chunks: list[bytes], max_lines: int = 1000) -> str:
    sink = io.StringIO()
    live = LiveText(sink, max_lines=max_lines)
    for chunk in chunks:
        live.feed(chunk)
    live.close()
    return sink.getvalue()


@given(st.text(max_size=200), st.integers(1, 7))
def test_any_cut_of_the_bytes_gives_the_same_text(text: str, step: int) -> None:
    data = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").encode()
    chunks = [data[start : start + step] for start in range(0, len(data), step)]
    assert shown(chunks) == data.decode()


def test_half_a_character_at_the_end_is_shown_as_such() -> None:
    assert shown(["é".encode()[:1]]) == "\ufffd"


def test_output_appears_while_it_arrives() -> None:
    sink = io.StringIO()
    live = LiveText(sink, max_lines=10)
    live.feed(b"no newline yet")
    assert sink.getvalue() == "no newline yet"


def test_a_flood_is_cut_and_its_end_is_kept() -> None:
    lines = [f"line {number}\n" for number in range(1000)]
    text = shown([line.encode() for line in lines], max_lines=5)
    assert text == "".join(lines[:5]) + "… 975 lines not shown; --out VAR keeps the output …\n" + "".join(lines[-20:])


@given(st.lists(st.integers(1, 400), min_size=1, max_size=20))
def test_the_cut_falls_at_the_same_place_however_the_bytes_arrive(sizes: list[int]) -> None:
    data = "".join(f"line {number}\n" for number in range(100)).encode()
    chunks, start = [], 0
    for size in sizes:
        chunks.append(data[start : start + size])
        start += size
    chunks.append(data[start:])
    assert shown(chunks, max_lines=7) == shown([data], max_lines=7)


def test_a_few_lines_too_many_are_simply_shown() -> None:
    text = "".join(f"{number}\n" for number in range(12))
    assert shown([text.encode()], max_lines=5) == text


def test_one_endless_line_is_cut_as_well() -> None:
    text = shown([b"x" * 100_000 for _ in range(20)], max_lines=5)
    assert len(text) < 12_000
    assert text.startswith("x" * 1000 + "\n")


def test_an_unfinished_last_line_is_kept() -> None:
    assert shown([b"1\n2\n3\n4"], max_lines=2) == "1\n2\n3\n4"
