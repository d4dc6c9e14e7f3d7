"""The comparison behind the replay finds what is missing or different, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.server import Reply
from tests.support.vectors import Vector, compare, differences, events

NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1}, {"a": 1, "more": 2}), ({"a": [1, {"b": None}]}, {"a": [1, {"b": None, "c": 0}]}),
        ("<str>", ""), ("<int>", 0), ("<float>", 1), ("<float>", 0.5), ("<iso8601>", "2026-01-01T00:00:00+00:00"),
        ("<hex16>", "0123456789abcdef"), ("<base64>", "YQ=="), ("<array>", []),
        ("<array of {n: int}>", []), ("<object: see there>", {}),
        ("<bool>", False),
    ],
)  # fmt: skip
def test_more_than_expected_is_fine(expected: Any, actual: Any) -> None:
    assert compare(expected, actual, "", NONE) == []


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ({"a": 1}, {}), ({"a": 1}, {"a": 2}), ({"a": 1}, {"a": True}), ({"a": 1}, {"a": 1.0}), ({"a": None}, {}),
        ([1], [1, 2]), ([1, 2], [2, 1]), ([], None), ({}, []), ("x", "y"), ({"a": {"b": 1}}, {"a": None}),
        ("<str>", 5), ("<int>", True), ("<int>", 1.5), ("<float>", "1"), ("<iso8601>", "2026-01-01T00:00:00Z"),
        ("<hex16>", "0123"), ("<hex12>", "0123456789AB"), ("<array>", {}), ("<object>", []), ("<bool>", 1),
    ],
)  # fmt: skip
def test_anything_missing_or_different_is_found(expected: Any, actual: Any) -> None:
    assert compare(expected, actual, "", NONE)


def test_lists_are_compared_in_order_unless_their_order_is_free() -> None:
    expected, actual = {"e": [{"n": "a"}, {"n": "<str>"}]}, {"e": [{"n": "b"}, {"n": "a"}]}
    assert compare(expected, actual, "", NONE)
    assert not compare(expected, actual, "", frozenset({"e"}))
    assert compare(expected, {"e": [{"n": "b"}, {"n": "b"}]}, "", frozenset({"e"}))


def test_status_headers_and_events_count_too(tmp_path: Path) -> None:
    body = b'event: stdout\ndata: {"data":"a"}\n\n: beat\n\nevent: exit\ndata: {"exit_code":0}\n\n'
    assert list(events(body)) == [("stdout", {"data": "a"}), ("exit", {"exit_code": 0})]
    facts = {
        "name": "n", "status": 200, "content_type": "text/event-stream", "response_headers": {"retry-after": "<int>"},
        "response_sse": [["stdout", {"data": "a"}], ["exit", {"exit_code": 0}]],
    }  # fmt: skip
    headers = {"content-type": "text/event-stream; charset=utf-8", "retry-after": "7"}
    right = Reply(200, headers, body)
    assert differences(Vector("f", facts), right, tmp_path) == []
    for wrong in (
        Reply(201, headers, body), Reply(200, {**headers, "retry-after": "x"}, body), Reply(200, headers, body[34:]),
        Reply(200, {"retry-after": "7"}, body),
    ):  # fmt: skip
        assert differences(Vector("f", facts), wrong, tmp_path)
