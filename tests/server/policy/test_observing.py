"""`mode: observe` on a running server: what would be refused is done, and noted with all that a policy would need."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_server import ServerPolicy
from sandbox_server.catalogue import builtin
from tests.support.server import ServerProcess, running_server
from tests.support.waiting import eventually

READER = {"Authorization": "Bearer reader"}
POLICY: dict[str, Any] = {
    "mode": "observe",
    "auth": {
        "tokens": [
            {"id": "reader", "scopes": ["files:read"], "token_sha256": hashlib.sha256(b"reader").hexdigest()}
        ]
    },
    "endpoints": {
        "files_delete": {"enabled": False},
        "files_*": {"paths": {"allow": ["BASE/in"], "deny": ["**/*.pem"], "read_only": True}},
        "shell": {"scopes": [], "params": {"allow_commands": ["date"]}, "paths": {"allow": ["BASE/in"]}},
        "files_upload_stream": {"params": {"deny_extensions": [".exe"]}},
        "env_set": {"params": {"deny_vars": ["X*"]}},
        "code_run": {"params": {"languages": ["bash"]}},
        "process_signal": {"params": {"allowed_signals": [15]}},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Path]]:
    place = tmp_path_factory.mktemp("observing")
    (place / "base" / "in").mkdir(parents=True)
    (place / "base" / "elsewhere").write_text("elsewhere")
    (place / "outside").write_text("outside")
    policy = json.loads(json.dumps(POLICY).replace("BASE", str(place / "base")))
    with running_server(place, policy=policy, allow_anonymous=False) as server:
        yield server, place


@pytest.fixture
def server(running: tuple[ServerProcess, Path]) -> ServerProcess:
    return running[0]


@pytest.fixture
def place(running: tuple[ServerProcess, Path]) -> Path:
    """What is around the server, as every test finds it."""
    inside = running[1] / "base" / "in"
    for left in inside.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    (inside / "key.pem").write_text("key")
    (inside / "file").write_text("in")
    return running[1]


def line(server: ServerProcess, id: str) -> dict[str, Any]:
    """The audit line of a request, which is written a moment after the answer."""
    found: list[dict[str, Any]] = []
    eventually(lambda: found.extend(entry for entry in server.audit_lines() if entry.get("id") == id) or found)
    return found[0]


def noted(
    server: ServerProcess, method: str, target: str, body: Any = None, **query: str
) -> tuple[int, dict[str, Any]]:
    answer = server.request(method, target, body, READER, query=query)
    return answer.status, line(server, answer.headers["x-request-id"])


def test_an_endpoint_that_is_switched_off_runs_and_the_rule_is_named(server: ServerProcess, place: Path) -> None:
    status, entry = noted(server, "DELETE", "/files", path="file")
    assert status == 200
    assert not (place / "base" / "in" / "file").exists()
    assert (entry["decision"], entry["would"], entry["code"]) == ("allow", "deny", "endpoint_disabled")
    assert [one["code"] for one in entry["observed"]] == ["endpoint_disabled", "read_only"]
    assert entry["observed"][0]["rule"] == "policy:endpoints.files_delete"
    assert entry["paths"] == [str(place / "base" / "in" / "file")]


def test_a_scope_that_is_missing_is_noted(server: ServerProcess, place: Path) -> None:
    status, entry = noted(server, "POST", "/files/mkdir", {"path": "new"})
    assert status in (200, 201) and (place / "base" / "in" / "new").is_dir()
    assert (entry["endpoint"], entry["identity"]) == ("files_mkdir", "reader")
    assert {"code": "missing_scope", "scope": "files:write"}.items() <= entry["observed"][0].items()
    assert entry["observed"][1]["code"] == "read_only"


@pytest.mark.parametrize(("path", "code"), [("key.pem", "path_denied"), ("BASE/elsewhere", "path_not_allowed")])
def test_a_denied_path_is_read_and_noted(server: ServerProcess, place: Path, path: str, code: str) -> None:
    path = path.replace("BASE", str(place / "base"))
    status, entry = noted(server, "GET", "/files/stat", path=path)
    assert status == 200
    assert (entry["would"], entry["code"], entry["refused"]) == ("deny", code, path)
    assert entry["rule"] == f"policy:endpoints.files_*.paths.{'deny' if code == 'path_denied' else 'allow'}"
    assert entry["paths"][0].endswith(path)


def test_a_command_that_no_rule_allows_runs_where_it_would_run(server: ServerProcess, place: Path) -> None:
    status, entry = noted(server, "POST", "/shell", {"command": "cat file ../elsewhere", "env": {"LD_X": "1"}})
    assert status == 200
    assert (entry["program"], entry["code"]) == ("/usr/bin/cat", "env_var_not_allowed")
    assert [one["code"] for one in entry["observed"]] == ["env_var_not_allowed", "command_not_allowed"]
    assert {one["rule"] for one in entry["observed"]} == {"policy:endpoints.shell.params.allow_commands"}
    answer = server.request("POST", "/shell", {"command": "cat file ../elsewhere"}, READER)
    assert answer.json()["stdout"] == "inelsewhere"


@pytest.mark.parametrize(
    ("target", "body", "code"),
    [
        ("/files/upload-stream", {"path": "x.exe", "content_base64": ""}, "extension_not_allowed"),
        ("/env", {"vars": {"XY": "1"}}, "env_var_not_allowed"),
        ("/code/run", {"code": "print(1)", "language": "python"}, "language_not_allowed"),
    ],
)
def test_what_a_handler_would_refuse_by_a_rule_is_done_and_noted(
    server: ServerProcess, place: Path, target: str, body: dict[str, Any], code: str
) -> None:
    status, entry = noted(server, "POST", target, body)
    assert status == 200
    assert code in [one["code"] for one in entry["observed"]]


def test_what_the_policy_allows_is_noted_as_allowed(server: ServerProcess) -> None:
    status, entry = noted(server, "POST", "/shell", {"command": "date"})
    assert (status, entry["decision"], "would" in entry, entry["code"]) == (200, "allow", False, None)


def test_a_signal_that_no_rule_allows_is_sent_and_noted(server: ServerProcess) -> None:
    pid = server.request("POST", "/process/start", {"command": "sleep 60"}, READER).json()["id"]
    status, entry = noted(server, "POST", f"/process/{pid}/signal", {"signal": 9})
    assert status == 200
    assert [one["code"] for one in entry["observed"]] == ["missing_scope", "signal_not_allowed"]


@pytest.mark.parametrize(
    "path", ["OUT/outside", "/etc/passwd", "/proc/self/environ", "/sys", "/dev/null", "../../outside"]
)
def test_the_boundary_is_never_relaxed(server: ServerProcess, place: Path, path: str) -> None:
    status, entry = noted(server, "GET", "/files/stat", path=path.replace("OUT", str(place)))
    assert (status, entry["decision"], entry["status"]) == (403, "deny", 403)


def test_a_link_out_of_the_boundary_stays_shut(server: ServerProcess, place: Path) -> None:
    (place / "base" / "in" / "way-out").symlink_to(place)
    assert noted(server, "GET", "/files/stat", path="way-out/outside")[0] == 403


def test_programs_stay_inside_the_boundary_by_the_kernel(server: ServerProcess, place: Path) -> None:
    answer = server.request("POST", "/shell", {"command": f"cat {place}/outside"}, READER)
    assert answer.json()["stdout"] == ""


def test_authentication_framing_and_sizes_are_never_relaxed(server: ServerProcess) -> None:
    assert server.request("GET", "/files/list").status == 401
    assert server.request("GET", "/files/list", headers={"Authorization": "Bearer wrong"}).status == 401
    assert server.request("GET", "/capabilities", headers={**READER, "Host": "evil.example"}).status == 421
    assert server.request("GET", "/capabilities", headers={**READER, "Origin": "http://evil.example"}).status == 403
    assert server.request("POST", "/shell", b"not json", {**READER, "Content-Type": "application/json"}).status == 400
    too_large = b'{"command": "' + b"x" * (10 << 20) + b'"}'
    answer = server.request("POST", "/shell", too_large, {**READER, "Content-Type": "application/json"})
    assert answer.status in (0, 413)


def test_discovery_and_check_say_so_loudly(server: ServerProcess, place: Path) -> None:
    told = server.request("GET", "/capabilities", headers=READER).json()
    assert told["policy"]["mode"] == "observe"
    assert any('mode "observe"' in warning for warning in told["warnings"])
    assert (told["endpoints"]["files_delete"]["allowed"], told["endpoints"]["files_delete"]["would"]) == (
        True, "endpoint_disabled",
    )  # fmt: skip
    answer = server.request("POST", "/capabilities/check", {"endpoint": "files_stat", "path": "/etc"}, READER)
    assert answer.json()["allowed"] is False
    answer = server.request("POST", "/capabilities/check", {"endpoint": "files_stat", "path": "key.pem"}, READER)
    assert (answer.json()["allowed"], answer.json()["would"]) == (True, "path_denied")
    assert "L13" in server.log.read_text()


def test_enforcing_says_nothing_of_it() -> None:
    bound = ServerPolicy.from_dict({}).bind(builtin(), environ={}, allow_anonymous=True)
    assert bound.mode == "enforce"
    assert bound.anonymous is not None
    grant = bound.admit(bound.anonymous, builtin()["shell"])
    assert (grant.strict, grant.would) == (None, None)
    assert bound.explain("shell") == {"endpoint": "shell", "allowed": True, "code": None, "reason": None}
