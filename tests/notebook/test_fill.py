"""``--fill``: explicit, exact, and loud about a missing name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_notebook.fill import fill, forgotten
from sandbox_notebook.grammar import Mistake
from sandbox_notebook.vocabulary import commands


@pytest.mark.field(170)
def test_field_170_names_become_their_values() -> None:
    assert fill("head -n {n} {path}", {"n": 3, "path": "my file.csv"}) == "head -n 3 my file.csv"


@pytest.mark.field(169)
def test_field_169_a_missing_name_is_an_error_that_names_it() -> None:
    with pytest.raises(Mistake) as caught:
        fill("{here} {gone}", {"here": 1})
    assert caught.value.message == '--fill found {gone}, and there is no variable "gone"'
    assert caught.value.hint == "set gone first, or write {{gone}} for the braces themselves"


def test_doubled_braces_stand_for_braces() -> None:
    assert fill("f'{{x}}' {n}", {"n": 1}) == "f'{x}' 1"


def test_other_braces_stay_as_they_are() -> None:
    for body in ('{"k": 1}', "{x.y} {0} {}", "${HOME:-x}", "d = {1: 2}"):
        assert fill(body, {}) == body


@given(st.text(max_size=60))
def test_a_value_is_never_read_again(value: str) -> None:
    assert fill("<{v}>", {"v": value}) == f"<{value}>"


def test_every_line_that_names_something_can_be_filled_but_code() -> None:
    bare = {name for name, command in commands().items() if command.option("--fill") is None}
    assert bare == {"list", "code", "config", "help"}


@pytest.mark.parametrize(
    ("line", "message", "again"),
    [
        ("upload {n} --to in", 'no file "{n}" on this side', "upload --fill {n} --to in"),
        ("upload --fill {{n}}", 'no file "{n}" on this side', ""),
        ("upload {other}", 'no file "{other}" on this side', ""),
        ("upload {n} gone", 'no file "gone" on this side', ""),
        ("cat {0}", 'no file at "{0}"', ""),
    ],
)
def test_a_variable_that_was_not_filled_in_is_noticed(line: str, message: str, again: str) -> None:
    assert forgotten(line, message, {"n": 1}) == again
