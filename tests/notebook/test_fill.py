"""``--fill``: explicit, exact, and loud about a missing name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_notebook.fill import fill
from sandbox_notebook.grammar import Mistake


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
