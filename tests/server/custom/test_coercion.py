"""JSON values made to fit a command's arguments, as recorded."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server import CommandArg, Refusal
from sandbox_server.custom.coercion import coerce

LINES = (Path(__file__).resolve().parents[2] / "vectors" / "coerce.jsonl").read_text().splitlines()
CASES = [json.loads(line) for line in LINES]
CALLS = [case for case in CASES if "args" in case]
DEFINITIONS = [case for case in CASES if "arg_definition" in case]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and one == other


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case["name"])
def test_arguments_are_converted_or_refused_as_recorded(case: dict[str, Any]) -> None:
    declared = [CommandArg(**argument) for argument in case["args"]]
    if "error_type" in case:
        with pytest.raises(Refusal) as refused:
            coerce(declared, case["raw"])
        assert (refused.value.status, refused.value.reason.type) == (400, case["error_type"])
        return
    values = coerce(declared, case["raw"])
    assert values.keys() == case["result"].keys()
    assert all(same(value, values[name]) for name, value in case["result"].items())


@pytest.mark.parametrize("case", DEFINITIONS, ids=lambda case: case["name"])
def test_a_declaration_that_makes_no_sense_is_an_error(case: dict[str, Any]) -> None:
    assert not case["valid"]
    with pytest.raises(ValueError, match="argument '"):
        CommandArg(**case["arg_definition"])


def test_every_line_is_one_of_the_two_kinds() -> None:
    assert len(CALLS) + len(DEFINITIONS) == len(LINES) == 64


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(["string", "integer", "float", "boolean", "string_array"]), JSON)
def test_any_json_value_is_converted_to_the_type_or_refused(kind: str, value: Any) -> None:
    expected = {"string": str, "integer": int, "float": float, "boolean": bool, "string_array": list}[kind]
    try:
        values = coerce([CommandArg("v", kind)], {"v": value})
    except Refusal as refusal:
        assert refusal.code == "wrong_type"
    else:
        assert type(values["v"]) is expected
