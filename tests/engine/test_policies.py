"""What `policy=` and `only=` of a local sandbox stand for."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from sandbox_sdk._errors import SandboxError
from sandbox_sdk.sandbox.policies import load_policy, only_policy, token_variables, with_own_token


def test_presets_go_by_name() -> None:
    assert load_policy("workspace") == ({"preset": "workspace"}, "workspace")
    assert load_policy("transfer-only") == ({"preset": "transfer-only"}, "transfer-only")


def test_a_document_is_taken_as_it_is() -> None:
    assert load_policy({"preset": "hardened"}) == ({"preset": "hardened"}, "hardened")
    document = {"preset": "hardened", "groups": {"process": True}}
    assert load_policy(document) == (document, "hardened and more")
    assert load_policy({"groups": {}}) == ({"groups": {}}, "custom")


def test_a_file_is_read_whether_it_is_named_by_text_or_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"preset": "locked"}))
    assert load_policy(path) == load_policy(str(path)) == ({"preset": "locked"}, "mine.json")


def test_yaml_is_read_where_it_can_be(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("preset: locked\n")
    assert load_policy(path)[0] == {"preset": "locked"}
    path.write_text("a: [")
    with pytest.raises(SandboxError, match="is not YAML"):
        load_policy(path)

    def refuse(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(SandboxError, match="needs PyYAML"):
        load_policy(path)


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), ("[]", "holds no object")])
def test_a_file_that_is_no_document_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    with pytest.raises(SandboxError, match=message):
        load_policy(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r'cannot read the policy file ".*mine.json": No such file'):
        load_policy(tmp_path / "mine.json")


@pytest.mark.finding("R1-F1")
def test_only_switches_everything_else_off_and_binds_transfers_to_directories() -> None:
    assert only_policy("transfer", "/workspace", download_from="out") == {
        "endpoints": {
            "*": {"enabled": False},
            "files_upload_stream": {"enabled": True},
            "files_download_stream": {"enabled": True, "paths": {"allow": ["/workspace/out"]}},
        }
    }
    assert only_policy(["files_list", "upload"], "/workspace", upload_to="/workspace/in") == {
        "endpoints": {
            "*": {"enabled": False},
            "files_list": {"enabled": True},
            "files_upload_stream": {"enabled": True, "paths": {"allow": ["/workspace/in"]}},
        }
    }
    assert "files_download_stream" in only_policy([], "/w", download_from="out")["endpoints"]


def test_a_policy_with_identities_gets_this_notebook_as_one_more() -> None:
    document = {"auth": {"tokens": [{"id": "a", "scopes": ["*"], "token_env": "A_TOKEN"}], "allow_anonymous": False}}
    changed = with_own_token(document)
    assert changed["auth"]["tokens"][1] == {"id": "notebook", "scopes": ["*"], "token_env": "ABX_SERVER_TOKEN"}
    assert changed["auth"]["allow_anonymous"] is False
    assert with_own_token(changed) == changed
    assert token_variables(changed) == ["A_TOKEN"]


@pytest.mark.parametrize(
    "document", [{}, {"auth": {}}, {"auth": {"tokens": []}}, {"auth": "x"}, {"auth": {"tokens": 1}}]
)
def test_a_policy_without_identities_is_left_alone(document: dict[str, Any]) -> None:
    assert with_own_token(document) == document
    assert token_variables(document) == []
