"""Only what is safe is sent again."""

from __future__ import annotations

import pytest

from sandbox_sdk import _retry as retry


def test_a_get_is_repeated_a_few_times_after_a_broken_connection() -> None:
    waits = [retry.after_failure("GET", attempt) for attempt in range(4)]
    assert waits == [0.05, 0.25, None, None]


@pytest.mark.field(124)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_field_124_nothing_that_changes_something_is_repeated(method: str) -> None:
    assert retry.after_failure(method, 0) is None
    assert retry.after_refusal(method, 503, 0.1, 0) is None


def test_a_short_wait_that_the_server_asks_for_is_kept() -> None:
    assert retry.after_refusal("GET", 429, 1.0, 0) == 1.0
    assert retry.after_refusal("GET", 503, 0.0, 1) == 0.0


@pytest.mark.parametrize(
    ("status", "wait", "attempt"), [(429, None, 0), (429, 60.0, 0), (429, 1.0, 2), (500, 1.0, 0), (404, 1.0, 0)]
)
def test_everything_else_is_the_callers_decision(status: int, wait: float | None, attempt: int) -> None:
    assert retry.after_refusal("GET", status, wait, attempt) is None
