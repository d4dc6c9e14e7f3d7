"""The gate of the coverage: what it lets pass, and what it says of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.coverage_gate import EVERYTHING, LINES, judged


def measured(
    lines: int = 100, missing: tuple[int, ...] = (), branches: tuple[tuple[int, int], ...] = ()
) -> dict[str, Any]:
    """One file in coverage's report."""
    summary = {"num_statements": lines, "covered_lines": lines - len(missing), "num_branches": 10}
    return {"summary": summary, "missing_lines": list(missing), "missing_branches": list(map(list, branches))}


def files() -> dict[str, Any]:
    return {
        "server/sandbox_server/policy/rules.py": measured(),
        "server/sandbox_server/guards/paths.py": measured(),
        "server/sandbox_server/auth.py": measured(),
        "server/sandbox_server/arguments.py": measured(),
        "server/sandbox_server/json_body.py": measured(),
        "server/sandbox_server/cli.py": measured(missing=(1, 2, 3)),
        "sandbox_sdk/_call.py": measured(missing=(7, 8, 9, 10, 11)),
    }


def broken(found: dict[str, Any]) -> list[str]:
    return [verdict for verdict, held in judged(found) if not held]


def test_what_keeps_every_promise_passes() -> None:
    verdicts = list(judged(files()))
    assert all(held for _, held in verdicts)
    assert [verdict for verdict, _ in verdicts[:3]] == [
        "server/sandbox_server/*: 99.5 % of 600 lines (at least 95 %)",
        "sandbox_sdk/*: 95.0 % of 100 lines (at least 95 %)",
        "server/sandbox_server/policy/*: 100 lines and 10 branches, all covered (all must be)",
    ]
    assert len(verdicts) == len(LINES) + len(EVERYTHING)


def test_too_few_lines_fail() -> None:
    found = {**files(), "sandbox_sdk/_call.py": measured(missing=(1, 2, 3, 4, 5, 6))}
    assert broken(found) == ["sandbox_sdk/*: 94.0 % of 100 lines (at least 95 %)"]


@pytest.mark.parametrize(
    ("facts", "gaps"),
    [
        (measured(10_000, missing=(7,)), ["line 7 never runs"]),
        (measured(branches=((5, 6),)), ["line 5 never goes on to line 6"]),
        (measured(branches=((5, -2),)), ["line 5 never goes on to the end of its function"]),
        (
            measured(missing=(6, 9), branches=((5, 6), (5, 8), (9, 10))),
            ["line 6 never runs", "line 9 never runs", "line 5 never goes on to line 8"],
        ),
    ],
)
def test_one_line_or_branch_of_what_decides_over_access_fails_and_is_named(
    facts: dict[str, Any], gaps: list[str]
) -> None:
    name = "server/sandbox_server/guards/urls.py"
    said = broken({**files(), name: facts})
    total = 100 + facts["summary"]["num_statements"]
    head = f"server/sandbox_server/guards/*: {total} lines and 20 branches, {len(gaps)} not covered (all must be)"
    assert said == ["\n  ".join((head, *(f"{name}: {gap}" for gap in gaps)))]


def test_what_was_not_measured_is_not_held() -> None:
    assert len(broken({})) == len(LINES) + len(EVERYTHING)
    found = files()
    del found["server/sandbox_server/auth.py"]
    assert broken(found) == ["server/sandbox_server/auth.py: 0 lines and 0 branches, none measured (all must be)"]
