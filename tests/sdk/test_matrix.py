"""What policies say, asked without starting a sandbox."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox_sdk import MatrixCell, PolicyMatrixData, SandboxError, policy_matrix

AGENTS: dict[str, Any] = {
    "preset": "workspace",
    "auth": {
        "tokens": [
            {
                "id": "agent",
                "scopes": ["files:read"],
                "token_env": "AGENT_TOKEN",
                "paths": {"allow": ["/workspace/in"]},
            },
            {"id": "boss", "scopes": ["*"], "token_env": "BOSS_TOKEN"},
        ]
    },
    "endpoints": {"files_upload_stream": {"limits": {"max_bytes": 10}}},
}


@pytest.fixture(scope="module")
def three() -> PolicyMatrixData:
    return policy_matrix(["workspace", "transfer-only", AGENTS], paths=["/workspace/in/a", "/etc/passwd"])


def test_columns_are_the_identities_of_every_policy(three: PolicyMatrixData) -> None:
    assert [(column.title, column.policy, column.identity) for column in three.columns] == [
        ("workspace", "workspace", "server"),
        ("transfer-only", "transfer-only", "server"),
        ("workspace and more: agent", "workspace and more", "agent"),
        ("workspace and more: boss", "workspace and more", "boss"),
    ]
    assert [column.title for column in policy_matrix(AGENTS).columns] == ["agent", "boss"]
    assert [column.title for column in policy_matrix([{}, {}]).columns] == ["custom", "custom (2)"]


def test_a_cell_tells_the_verdict_the_reason_the_rule_and_the_bounds(three: PolicyMatrixData) -> None:
    denied = three.cell("shell", "transfer-only")
    assert (denied.verdict, denied.code) == ("denied", "endpoint_disabled") and denied.rule
    assert three.cell("shell", "workspace and more: agent").code == "missing_scope"
    limited = three.cell("files_upload_stream", "workspace and more: boss")
    assert (limited.verdict, limited.limits) == ("limited", {"max_bytes": 10})
    assert three.cell("shell").enforcement == "kernel" and three.cell("files_list").enforcement == "api"
    assert three.cell("health").verdict == "allowed"


def test_paths_are_judged_for_everything_that_takes_them(three: PolicyMatrixData) -> None:
    cell = three.cell("files_list", 2)
    assert [(one.path, one.allowed, one.code) for one in cell.asked] == [
        ("/workspace/in/a", True, None),
        ("/etc/passwd", False, "path_not_allowed"),
    ]
    assert three.cell("health").asked == ()
    asked = policy_matrix("workspace", paths="--help", op="delete", root="/elsewhere").cell("files_list").asked
    assert [(one.path, one.allowed) for one in asked] == [("--help", True)]


def test_a_comparison_tells_what_becomes_allowed_denied_and_limited(three: PolicyMatrixData) -> None:
    changes = {change.endpoint: change for change in three.diff("workspace", "transfer-only")}
    assert changes["shell"].becomes == "denied" and "health" not in changes
    assert {change.becomes for change in three.diff(1, 0)} >= {"limited"}
    assert [change.endpoint for change in three.diff(0, 3)] == ["files_upload_stream"]
    assert three.diff(0, 0) == ()


def test_what_is_not_there_is_a_key_error(three: PolicyMatrixData) -> None:
    with pytest.raises(KeyError, match="no_such"):
        three.cell("no_such")
    with pytest.raises(KeyError, match='no column "x"; there are workspace, '):
        three.cell("shell", "x")


def test_it_shows_itself_and_becomes_a_frame(three: PolicyMatrixData, monkeypatch: pytest.MonkeyPatch) -> None:
    text = three._repr_mimebundle_()["text/plain"]
    assert next(line for line in text.splitlines() if line.startswith("shell ")).split() == [
        *("shell", "◐", "limited", "✗", "denied", "✗", "denied", "◐", "limited")
    ]
    assert "◐ limited" in three.cell("shell")._repr_mimebundle_()["text/plain"]
    assert repr(three).startswith("<PolicyMatrixData: ")
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))  # type: ignore[arg-type]
    assert {row["endpoint"]: row["transfer-only"] for row in three.to_pandas()}["shell"] == "denied"


def test_a_policy_of_a_file_needs_no_secrets_and_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "agents.json"
    file.write_text(json.dumps(AGENTS))
    assert policy_matrix(file) == policy_matrix(str(file)) and "agent" in [
        c.identity for c in policy_matrix(file).columns
    ]
    assert [one.name for one in tmp_path.iterdir()] == ["agents.json"]


def test_a_policy_that_is_wrong_says_where() -> None:
    with pytest.raises(
        SandboxError, match=r'^the policy "custom" is not valid: policy\.endpoints\.shel: unknown endpoint'
    ):
        policy_matrix({"endpoints": {"shel": {"enabled": False}}})
    with pytest.raises(SandboxError, match='the policy "nonsense" is not valid: '):
        policy_matrix("nonsense")
    with pytest.raises(SandboxError, match="no policy was given"):
        policy_matrix([])


def test_an_answer_of_another_version_does_not_raise() -> None:
    cell = MatrixCell.from_json("x", {"paths": [], "limits": None, "asked": "no"})
    assert (cell.verdict, cell.asked) == ("denied", ())
