"""Previews: each file is shown as what it is, within bounds, whatever lies in it."""

from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_notebook.widgets.preview import HEX, IMAGE, TEXT, Preview, preview

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


def of(name: str, data: bytes) -> Preview:
    return preview(name, len(data), lambda length: data[:length])


def test_text_is_shown_up_to_a_bound_that_cuts_no_character() -> None:
    data = ("x" * (TEXT - 1) + "é" * 5).encode()
    shown = of("a.txt", data)
    assert shown.kind == "text"
    assert shown.facts == {"text": "x" * (TEXT - 1), "note": "the first 65.5 kB of 65.5 kB"}
    assert of("empty", b"") == Preview("text", {"text": ""})


def test_what_is_no_text_is_shown_as_numbers() -> None:
    shown = of("a.txt", bytes(range(256)) * 3)
    assert shown.kind == "binary"
    assert shown.facts["note"] == f"the first {HEX} B of 768 B"
    lines = shown.facts["text"].splitlines()
    assert len(lines) == HEX // 16
    assert lines[4] == "00000040  40 41 42 43 44 45 46 47  48 49 4a 4b 4c 4d 4e 4f  @ABCDEFGHIJKLMNO"


def test_text_with_a_byte_order_mark_is_text() -> None:
    assert of("a.txt", "\ufeffgrün".encode()).facts["text"] == "grün"
    assert of("a.txt", "grün".encode("utf-16")).facts["text"] == "grün"


@pytest.mark.parametrize(
    ("name", "data", "rows"),
    [
        ("a.csv", b'a,b\r\n"x, y","say ""hi"""\r\n', [["a", "b"], ["x, y", 'say "hi"']]),
        ("a.tsv", b"a\tb\n1,5\t2\n", [["a", "b"], ["1,5", "2"]]),
        ("a.csv", b"a;b\n1;2\n", [["a", "b"], ["1", "2"]]),
        ("a.csv", b'a,b\n"two\nlines",2\n', [["a", "b"], ["two\nlines", "2"]]),
        ("a.csv", b"only\n", [["only"]]),
        ("a.csv", b"a,b\n1\n1,2,3\n", [["a", "b"], ["1"], ["1", "2", "3"]]),
    ],
)
def test_tables_are_read_as_their_quotes_say(name: str, data: bytes, rows: list[list[str]]) -> None:
    assert of(name, data) == Preview("table", {"rows": rows, "note": ""})


def test_of_a_long_table_the_first_hundred_rows_are_shown() -> None:
    shown = of("a.csv", b"n,square\n" + b"".join(b"%d,%d\n" % (n, n * n) for n in range(100_000)))
    assert shown.facts["note"] == "the first 100 rows"
    assert len(shown.facts["rows"]) == 101 and shown.facts["rows"][-1] == ["99", "9801"]


def test_of_a_table_with_long_rows_no_half_row_is_shown() -> None:
    row = b"x" * 1000 + b",end\n"
    shown = of("a.csv", b"a,b\n" + row * 90)
    assert {tuple(row) for row in shown.facts["rows"][1:]} == {("x" * 200 + "…", "end")}
    assert shown.facts["note"] == f"the first {len(shown.facts['rows']) - 1} rows"


def test_numbers_in_json_keep_every_digit() -> None:
    shown = of("a.json", b'{"big": 9007199254740993, "exact": 1.10, "no": NaN, "list": [true, null, "\\u00e9"]}')
    assert shown.facts["tree"] == [
        None,
        "object",
        4,
        [
            ["big", "number", "9007199254740993"],
            ["exact", "number", "1.10"],
            ["no", "number", "NaN"],
            ["list", "list", 3, [["0", "word", "true"], ["1", "word", "null"], ["2", "string", '"é"']]],
        ],
    ]


def test_json_that_is_none_is_shown_as_text() -> None:
    assert of("a.json", b"{oops").kind == "text"
    assert of("a.json", b"[" * 100_000).kind == "text"
    assert of("a.json", json.dumps(["x" * 40] * 40_000).encode()).kind == "text", "too long to be read whole"


def test_of_deep_and_wide_json_a_bounded_part_is_told() -> None:
    shown = of("a.json", json.dumps(list(range(50_000))).encode())
    assert shown.facts["note"] == "the first 2,000 values"
    assert shown.facts["tree"][2] == 50_000 and len(shown.facts["tree"][3]) == 1999
    assert of("a.json", b'{"a":' * 300 + b"1" + b"}" * 300).kind == "json"


def test_pictures_are_told_by_their_first_bytes() -> None:
    assert of("a.png", PNG) == Preview("image", {"media": "image/png"}, (PNG,))
    assert of("a.PNG", PNG).kind == "image"
    assert of("a.png", b"<html>").kind == "text"
    assert of("a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>").facts["media"] == "image/svg+xml"


def test_a_picture_that_is_too_large_is_not_read() -> None:
    def read(length: int) -> bytes:
        raise AssertionError("read")

    assert preview("a.png", IMAGE + 1, read).facts["note"].startswith("pictures are shown up to 8.4 MB")


def test_notebooks_are_shown_without_their_markup() -> None:
    outputs = [
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mred\x1b[0m", "line"]},
        {"output_type": "execute_result", "data": {"text/html": "<b>", "text/plain": ["a", "b"]}},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(PNG).decode(), "text/plain": "x"}},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(b"no").decode(), "text/plain": "x"}},
    ]
    cell = {"cell_type": "code", "execution_count": 2, "source": ["a\n", "b"], "outputs": outputs}
    shown = of("a.ipynb", json.dumps({"cells": [cell, "no cell"]}).encode())
    assert shown.kind == "notebook" and shown.buffers == (PNG,)
    assert shown.facts["cells"] == [
        {
            "type": "code",
            "count": "2",
            "source": "a\nb",
            "outputs": [
                {"text": "red\nline", "error": True},
                {"text": "ab", "error": False},
                {"picture": 0, "type": "image/png"},
                {"text": "x", "error": False},
            ],
        }
    ]
    assert of("a.ipynb", b'{"cells": 3}').kind == "text"


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["cells", "outputs", "data"]), inner),
    max_leaves=20,
)


@given(
    st.sampled_from(["a", "a.txt", "a.csv", "a.tsv", "a.json", "a.ipynb", "a.png", "a.svg", "a.webp"]),
    st.binary()
    | st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))
    | values.map(json.dumps).map(str.encode),
)
def test_whatever_lies_in_a_file_the_page_gets_plain_values(name: str, data: bytes) -> None:
    shown = of(name, data)
    assert shown.kind in ("image", "table", "json", "notebook", "text", "binary", "none")
    json.dumps(shown.facts, ensure_ascii=False, allow_nan=False).encode()


@given(
    st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
)
def test_notebooks_of_any_shape_are_shown_or_not(value: object) -> None:
    for cells in (value, [value], [{"cell_type": "code", "outputs": [value]}, {"outputs": [{"data": value}]}]):
        shown = of("a.ipynb", json.dumps({"cells": cells}).encode())
        json.dumps(shown.facts, ensure_ascii=False, allow_nan=False).encode()


def test_half_a_character_in_json_does_not_break_the_message() -> None:
    shown = of("a.json", b'{"\\ud800": "\\udc00", "\\ud83d\\ude00": 1}')
    json.dumps(shown.facts, ensure_ascii=False).encode()
    assert [child[0] for child in shown.facts["tree"][3]] == ["?", "😀"]
