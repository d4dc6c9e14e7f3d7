"""What a script answered, as JSON; without a browser."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from sandbox_server.browser.values import plain
from sandbox_server.messages import Refusal


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"a": [1, None, True, "ü"]}, {"a": [1, None, True, "ü"]}), ([math.nan, -math.inf, 1.5], [None, None, 1.5]),
        ({"\ud800": "\udfff"}, {"?": "?"}), (b"bytes", "b'bytes'"),
    ],
)  # fmt: skip
def test_a_value_becomes_what_json_can_hold(value: Any, told: Any) -> None:
    assert plain(value, 100) == told
    json.dumps(plain(value, 100), allow_nan=False).encode()


@pytest.mark.parametrize("value", ["x" * 100, ["x" * 50] * 2, {"x" * 100: None}, list(range(100)), {1: "x" * 100}])
def test_a_value_that_needs_more_bytes_than_allowed_is_refused(value: Any) -> None:
    with pytest.raises(Refusal) as refused:
        plain(value, 100)
    assert (refused.value.code, refused.value.facts["limit"]) == ("payload_too_large", 100)
    assert plain(value, 200)


def test_an_object_that_is_found_at_many_places_counts_at_each() -> None:
    """What a script of one line makes: a hundred small lists, and more elements than there are atoms."""
    value: list[Any] = [1]
    for _ in range(90):
        value = [value, value]
    with pytest.raises(Refusal, match="more than 10000 bytes"):
        plain(value, 10_000)


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(Refusal, match="more than 100 levels, or holds itself"):
        plain(value, 1 << 20)
