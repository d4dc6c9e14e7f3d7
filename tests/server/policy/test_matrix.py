"""The whole policy at once: `agent-sandbox-server matrix`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.access import OPS
from sandbox_server.cli import main
from sandbox_server.policy import BoundPolicy, ServerPolicy
from sandbox_server.policy.matrix import identities, matrix
from sandbox_server.settings import Settings, bind_policy

DIGESTS = [hashlib.sha256(name).hexdigest() for name in (b"agent", b"boss")]
DOCUMENT: dict[str, Any] = {
    "preset": "workspace",
    "auth": {
        "tokens": [
            {"id": "agent", "scopes": ["files:read", "files:write"], "token_sha256": DIGESTS[0],
             "paths": {"allow": ["/workspace/in"]}},
            {"id": "boss", "scopes": ["*"], "token_sha256": DIGESTS[1]},
        ],
        "allow_anonymous": True,
        "anonymous_scopes": [],
    },
    "endpoints": {
        "files_delete": {"enabled": False},
        "files_upload_stream": {"limits": {"max_bytes": 10}, "params": {"allow_extensions": [".csv"]}},
    },
}  # fmt: skip


def bound(document: dict[str, Any]) -> BoundPolicy:
    return bind_policy(Settings(policy=ServerPolicy.from_dict(document), environ={}, base_dir="/workspace"))


def test_every_identity_has_an_answer_for_every_endpoint_and_explain_gives_the_same() -> None:
    policy = bound(DOCUMENT)
    found = matrix(policy, paths=["/workspace/in/a", "/workspace/b", "/etc/passwd"])
    assert [one["id"] for one in found["identities"]] == ["agent", "boss", "anonymous"]
    assert set(found["cells"]) == set(policy.catalogue) == {one["id"] for one in found["endpoints"]}
    for endpoint, row in found["cells"].items():
        for who in identities(policy):
            decision = policy.explain(endpoint, identity=who)
            assert {name: row[who.id][name] for name in ("allowed", "code", "reason")} == {
                name: decision[name] for name in ("allowed", "code", "reason")
            }
            for asked in row[who.id].get("asked", ()):
                assert asked["allowed"] == policy.explain(endpoint, identity=who, path=asked["path"])["allowed"]


def test_the_deciding_rule_the_limits_and_who_enforces_them_are_told() -> None:
    cells = matrix(bound(DOCUMENT), paths=["/workspace/in/a", "/workspace/b"])["cells"]
    delete = cells["files_delete"]["boss"]
    assert (delete["allowed"], delete["code"]) == (False, "endpoint_disabled")
    assert delete["rule"] == "policy:endpoints.files_delete"
    upload = cells["files_upload_stream"]["agent"]
    assert upload["limits"] == {"max_bytes": 10} and upload["params"]["allow_extensions"] == [".csv"]
    assert upload["paths"]["within"] == [["/workspace/in"]] and upload["paths"]["enforcement"] == "api"
    assert upload["paths"]["bounded"] and not matrix(bound({}))["cells"]["files_list"]["server"]["paths"]["bounded"]
    assert [one["allowed"] for one in upload["asked"]] == [True, False]
    assert cells["shell"]["agent"]["code"] == "missing_scope" and "limits" not in cells["shell"]["agent"]
    assert cells["shell"]["boss"]["paths"]["enforcement"] == "kernel"  # the preset bounds programs


def test_an_operation_can_be_asked_about() -> None:
    document = {**DOCUMENT, "defaults": {"paths": {"read_only": True}}}
    for op in OPS:
        asked = matrix(bound(document), paths=["/workspace/in/a"], op=op)["cells"]["files_list"]["boss"]["asked"]
        assert asked[0]["allowed"] == (op in ("read", "exec"))


def test_a_policy_without_identities_is_judged_for_whoever_holds_the_servers_token() -> None:
    assert [(one.id, one.scopes) for one in identities(bound({}))] == [("server", {"*"})]


def test_the_command_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(DOCUMENT))
    assert main(["matrix", "--policy", str(policy), "--base-dir", "/workspace", "--path", "a", "--path", "/b"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(matrix(bound(DOCUMENT), paths=["a", "/b"])))
    policy.write_text("{")
    assert main(["matrix", "--policy", str(policy)]) == 1
    assert "policy: is not JSON" in capsys.readouterr().err
