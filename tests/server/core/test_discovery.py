"""Health, discovery and checks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_server import __version__
from sandbox_server.catalogue import builtin
from sandbox_server.handlers import HANDLERS
from tests.server.core.harness import JSON, House

Make = Callable[..., House]
TOP = {"api_version", "server_version", "groups", "group_summary", "identity", "policy", "endpoints", "warnings"}
ENTRY = {"method", "path", "group", "summary", "streaming", "enabled", "allowed", "reason", "rule", "scopes"}
WHEN_ALLOWED = {"limits", "params"}
PATHS = {"allow", "read_only", "deny_count", "symlinks"}
POLICY: dict[str, Any] = {
    "auth": {
        "tokens": [
            {"id": "reader", "token_env": "READER", "scopes": ["files:read"]},
            {"id": "admin", "token_env": "ADMIN", "scopes": ["*"]},
        ]
    },
    "endpoints": {
        "shell": {"enabled": False},
        "files_*": {"paths": {"deny": ["*.pem", "secret"], "read_only": True}},
        "files_list": {"limits": {"max_entries": 7}},
        "files_upload_stream": {"params": {"overwrite": False}},
    },
}
ENVIRON = {"READER": "r", "ADMIN": "a"}
READER, ADMIN = ("X-Access-Token", "r"), ("X-Access-Token", "a")


@pytest.fixture
def door(house: Make) -> House:
    return house(POLICY, environ=ENVIRON, allow_anonymous=False)


def caps(door: House, *headers: tuple[str, str]) -> Any:
    answer = door.ask("GET", "/capabilities", None, *headers)
    assert answer.status == 200
    return answer.json


@pytest.mark.finding("R2-C3")
def test_discovery_has_every_recorded_key_and_only_adds(door: House) -> None:
    told = caps(door, READER)
    assert told.keys() >= TOP
    assert set(told["endpoints"]) == set(builtin())
    for id, entry in told["endpoints"].items():
        assert entry.keys() >= ENTRY
        assert (entry.keys() >= WHEN_ALLOWED) is entry["allowed"]
        if entry["allowed"] and builtin()[id].path_bearing:
            assert entry["paths"].keys() >= PATHS
        else:
            assert "paths" not in entry
        assert entry["enabled"] or entry["rule"]
        assert (entry["reason"] is None) is entry["allowed"]
    assert told["policy"].keys() >= {"preset", "revision", "configured"}
    assert told["identity"] == {"id": "reader", "scopes": ["files:read"]}
    assert told["endpoints"]["pty_connect"]["method"] == "WS"


def test_an_entry_says_what_this_caller_may_do_and_why_not(door: House) -> None:
    entries = caps(door, READER)["endpoints"]
    assert entries["files_stat"]["allowed"]
    assert (entries["shell"]["allowed"], entries["shell"]["reason"], entries["shell"]["rule"]) == (
        False, "endpoint_disabled", "policy:endpoints.shell",
    )  # fmt: skip
    assert entries["process_list"]["reason"] == "missing_scope"
    assert entries["code_run"]["reason"] == "endpoint_disabled"
    for id, entry in caps(door, ADMIN)["endpoints"].items():
        assert entry["allowed"] is (entry["enabled"] and id in HANDLERS)


@pytest.mark.finding("R1-F8")
def test_limits_that_a_policy_wrote_and_defaults_are_told_apart(door: House) -> None:
    entry = caps(door, READER)["endpoints"]["files_list"]
    assert entry["limits"] == {"max_entries": 7}
    assert entry["defaults"] == {"max_depth": 3, "max_request_bytes": 10 << 20}


def test_path_rules_are_told_without_their_patterns(door: House, base: Path) -> None:
    entry = caps(door, READER)["endpoints"]["files_stat"]
    assert entry["paths"] == {
        "allow": [], "roots": [str(base)], "read_only": True, "deny_count": 2, "symlinks": "within",
        "hardlinks": "allow", "enforcement": {"allow": "api", "deny": "api"},
    }  # fmt: skip
    assert "pem" not in str(caps(door, ADMIN))


def test_parameters_groups_and_warnings(door: House) -> None:
    told = caps(door, ADMIN)
    assert told["endpoints"]["files_upload_stream"]["params"] == {"overwrite": False}
    assert told["group_summary"]["process"] == {"enabled": 7, "total": 8}
    assert (told["groups"]["process"], told["groups"]["browser"]) == (True, False)
    assert told["warnings"] == ['identity "admin" holds every scope ("*"); give agents narrower ones']
    assert caps(door, READER)["warnings"] == []
    assert (told["server_version"], told["isolation"], told["api_version"]) == (__version__, "none", 2)


def test_anonymous_callers_of_a_server_without_tokens_are_not_warned_about(house: Make) -> None:
    assert caps(house())["warnings"] == []


def test_discovery_never_holds_a_secret(door: House) -> None:
    assert "ADMIN" not in str(caps(door, ADMIN))


# -- check ----------------------------------------------------------------------------------------------------------


def check(door: House, *headers: tuple[str, str], **body: Any) -> Any:
    answer = door.ask("POST", "/capabilities/check", body, JSON, *(headers or (READER,)))
    assert answer.status == 200, answer.body
    return answer.json


@pytest.mark.finding("R1-F5")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"endpoint": "files_stat"}, None),
        ({"endpoint": "files_stat", "path": "there"}, None),
        ({"endpoint": "files_stat", "path": "not-there"}, None),
        ({"endpoint": "files_stat", "path": "a.pem"}, "path_denied"),
        ({"endpoint": "files_stat", "path": "/etc/passwd"}, "path_not_allowed"),
        ({"endpoint": "files_stat", "path": "/no/such/thing"}, "path_not_allowed"),
        ({"endpoint": "files_stat", "path": ""}, "invalid_path"),
        ({"endpoint": "files_stat", "path": "x" * 5000}, "invalid_path"),
        ({"endpoint": "files_stat", "paths": []}, None),
        ({"endpoint": "files_stat", "paths": ["a", "/etc", "a.pem"]}, "path_not_allowed"),
        ({"endpoint": "files_stat", "path": "a.pem", "paths": ["/etc"]}, "path_denied"),
        ({"endpoint": "files_stat", "path": "a", "op": "write"}, "read_only"),
        ({"endpoint": "files_stat", "path": "a", "op": "exec"}, None),
        ({"endpoint": "files_mkdir", "path": "a"}, "missing_scope"),
        ({"endpoint": "shell"}, "endpoint_disabled"),
        ({"endpoint": "no_such"}, "unknown_endpoint"),
        ({"endpoint": "health"}, None),
        ({"endpoint": "health", "path": "/etc"}, "path_not_allowed"),
    ],
)
def test_a_check_tells_what_would_happen_and_why(door: House, base: Path, body: dict[str, Any], code: str) -> None:
    (base / "there").write_text("")
    told = check(door, **body)
    assert (told["endpoint"], told["allowed"], told["code"]) == (body["endpoint"], code is None, code)
    assert (told["reason"] is None) is (code is None)


@pytest.mark.finding("R1-F5")
def test_a_check_never_looks_at_the_disk(door: House, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    check(door, endpoint="files_stat", path="warm-up")
    for name in ("stat", "lstat", "open", "readlink", "access", "scandir"):
        monkeypatch.setattr(os, name, lambda *given, _name=name, **how: looks.append(_name))
    told = [check(door, endpoint="files_stat", path=path) for path in ("there", "not-there", "/etc", "/no/such")]
    assert looks == []
    assert told[0] == told[1]
    assert told[2] == {**told[3], "reason": told[2]["reason"]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "endpoint"),
        ({"endpoint": ""}, "endpoint"),
        ({"endpoint": 5}, "endpoint"),
        ({"endpoint": "shell", "path": 5}, "path"),
        ({"endpoint": "shell", "path": []}, "path"),
        ({"endpoint": "shell", "paths": "a"}, "paths"),
        ({"endpoint": "shell", "paths": ["a", 5]}, "paths"),
        ({"endpoint": "shell", "op": 5}, "op"),
        ({"endpoint": "shell", "op": "look"}, "op"),
    ],
)
def test_a_check_of_a_wrong_shape_is_refused(door: House, body: dict[str, Any], field: str) -> None:
    answer = door.ask("POST", "/capabilities/check", body, JSON, READER)
    assert (answer.status, answer.code, answer.json["field"]) == (400, "invalid_argument", field)


@pytest.mark.finding("R1-U5")
def test_check_and_enforcement_agree(door: House, base: Path) -> None:
    (base / "secret").mkdir()
    (base / "a.pem").write_text("")
    (base / "ok").write_text("")
    for path in (
        "ok",
        "a.pem",
        "secret",
        "secret/x",
        ".",
        "..",
        "/",
        "/etc",
        "/proc/self",
        str(base / "ok"),
        "x\0y",
        "",
    ):
        said = check(door, endpoint="files_stat", path=path)
        done = door.ask("GET", "/files/stat", None, READER, query=[("path", path)])
        if path == "":
            assert done.code == "invalid_argument"  # in a query, blank is absent
        else:
            assert (said["code"], said["allowed"]) == (done.json.get("code"), done.status == 200), path
