"""JSON bodies: RFC 8259 to the letter, one object, no two ways to read it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server.json_body import parse_object
from sandbox_server.messages import Refusal


def refusal_of(data: bytes) -> Refusal:
    with pytest.raises(Refusal) as refused:
        parse_object(data)
    assert (refused.value.code, refused.value.status) == ("bad_body", 400)
    return refused.value


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"{}", {}),
        (b' \t\r\n{"a" : [1, 2.5, -3e2, true, false, null, "x"]}\n ', {"a": [1, 2.5, -300.0, True, False, None, "x"]}),
        ('{"日本": "é"}'.encode(), {"日本": "é"}),
        (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        (b'{"a": "\\\\ud800"}', {"a": "\\ud800"}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
        (b'{"a": 1e400}', {"a": float("inf")}),
        (b'{"": {"": {}}}', {"": {"": {}}}),
    ],
)
def test_an_object_is_read_as_the_standard_says(data: bytes, value: object) -> None:
    assert parse_object(data) == value


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[]", "the body must be a JSON object"),
        (b"null", "the body must be a JSON object"),
        (b'"text"', "the body must be a JSON object"),
        (b"7", "the body must be a JSON object"),
        (b"", "the body is not JSON (line 1, column 1)"),
        (b'{"a": 1 2}', "the body is not JSON (line 1, column 9)"),
        (b'{"a":\n 1 b}', "the body is not JSON (line 2, column 4)"),
        (b"{'a': 1}", "the body is not JSON (line 1, column 2)"),
        (b'{"a": 01}', "the body is not JSON (line 1, column 8)"),
        (b'{"a": "tab\there"}', "the body is not JSON (line 1, column 11)"),
        (b"{}{}", "the body is not JSON (line 1, column 3)"),
        (b"{}\0", "the body is not JSON (line 1, column 3)"),
        (b'{"a": 1, "a": 2}', "the body repeats a name within one object"),
        (b'{"a": {"b": 1, "\\u0062": 2}}', "the body repeats a name within one object"),
        (b'{"a": NaN}', "the body holds NaN, which is not JSON"),
        (b'{"a": Infinity}', "the body holds Infinity, which is not JSON"),
        (b'{"a": [-Infinity]}', "the body holds -Infinity, which is not JSON"),
        (b'{"a": "\\ud800"}', "the body holds a lone surrogate escape, which is no character"),
        (b'{"\\udfff": 1}', "the body holds a lone surrogate escape, which is no character"),
        (b'{"a": [{"b": ["x\\udc00\\ud800y"]}]}', "the body holds a lone surrogate escape, which is no character"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "the body holds an unusable number"),
    ],
)
def test_what_is_not_one_plain_object_is_refused_with_the_place(data: bytes, message: str) -> None:
    if message.endswith("number") and not hasattr(__import__("sys"), "set_int_max_str_digits"):
        pytest.skip("no way here: this Python reads numbers of any length")
    assert refusal_of(data).message == message


@pytest.mark.parametrize("depth", [100, 300, 5_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_deep_nesting_is_refused_not_crashed_upon(depth: int, opening: bytes, closing: bytes) -> None:
    refusal_of(b'{"a": ' + opening * depth + b"1" + closing * depth + b"}")
    refusal_of(b'{"a": ' + opening * depth)


def test_a_hundred_levels_and_any_number_of_neighbours_are_fine() -> None:
    deep = b'{"a": ' + b"[" * 99 + b"1" + b"]" * 99 + b"}"
    assert parse_object(deep)["a"][0][0]
    assert len(parse_object(b'{"a": [' + b"[[1], {}, []]," * 500 + b"1]}")["a"]) == 501


@pytest.mark.parametrize("item", [b"[]", b"{}", b"1", b'""', b'{"a":1}', b'"\\\\"', b'"\\""', b"[[]]"])
def test_more_values_than_a_call_can_need_are_refused_before_they_are_made(item: bytes) -> None:
    body = b'{"a": [' + b",".join([item] * 150_000) + b"]}"
    assert refusal_of(body).message == "the JSON body holds too many values; use at most 100000"
    assert refusal_of(body[:-1] + b"!").message == "the JSON body holds too many values; use at most 100000"


def test_commas_and_brackets_in_texts_are_no_values() -> None:
    for text in ('[{,"' * 100_000, "\\" * 300_001, '"' * 300_000, '\\",[' * 100_000, ",\\" * 200_000):
        for ascii_only in (True, False):
            value = {"a": text, "b": [text, 1], text[:9]: {}}
            assert parse_object(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"])
def test_encodings_are_never_guessed(encoding: str) -> None:
    refusal_of('{"path": "/a"}'.encode(encoding))


@pytest.mark.parametrize(
    "broken",
    [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"],
    ids=["no byte of UTF-8", "overlong slash", "encoded surrogate", "beyond Unicode", "cut short"],
)
def test_bytes_that_are_not_utf_8_are_refused(broken: bytes) -> None:
    message = refusal_of(b'{"a": "' + broken + b'"}').message
    assert message == "the body is not UTF-8 text; send application/json; charset=utf-8"


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":,\\u0123456789dDeE+-. nulltrfase\ud800', max_size=60).map(
    lambda text: text.encode("utf-8", "surrogatepass")))  # fmt: skip
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        assert isinstance(parse_object(data), dict)
    except Refusal as refusal:
        assert refusal.code == "bad_body"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON_VALUES, max_size=5), st.booleans())
def test_every_object_comes_back_as_it_was_sent(value: dict[str, object], ascii_only: bool) -> None:
    assert parse_object(json.dumps(value, ensure_ascii=ascii_only).encode()) == value
