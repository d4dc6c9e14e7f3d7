"""Plain calls and the values they answer, against canned answers of any completeness."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import pytest

from sandbox_sdk import (
    CodeResult,
    CommandArgument,
    CommandInfo,
    FileEntry,
    FileInfo,
    GitDiff,
    GitFile,
    GitStatus,
    ListeningPort,
    Package,
    ProcessInfo,
    Receipt,
    SearchHit,
    ServerClient,
    SystemInfo,
    SystemMetrics,
)
from sandbox_sdk import _wire as wire


def answering(body: Any, asked: list[httpx.Request]) -> ServerClient:
    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(200, json=body)

    return ServerClient("http://host", http_client=httpx.Client(transport=httpx.MockTransport(answer)))


Case = tuple[Callable[[ServerClient], Any], dict[str, Any], Any, str, Any]
CASES: dict[str, Case] = {
    "info": (lambda c: c.system.info().hostname, {"hostname": "box", "cpu_count": 2}, "box", "/system/info", None),
    "metrics": (lambda c: c.system.metrics().disk_percent, {"disk_percent": 7.5}, 7.5, "/system/metrics", None),
    "env": (
        lambda c: c.system.env(["A", "B"]),
        {"variables": {"A": "1", "B": 2}},
        {"A": "1"},
        "/env?filter=A%2CB",
        None,
    ),
    "set_env": (lambda c: c.system.set_env({"A": "1"}), {"updated": ["A"]}, ["A"], "/env", {"vars": {"A": "1"}}),
    "ports": (
        lambda c: c.system.ports(),
        {"listening": [{"port": 80, "protocol": "tcp", "address": "[::]", "pid": None}]},
        [ListeningPort(80, "tcp", "[::]")],
        "/ports",
        None,
    ),
    "packages": (
        lambda c: c.system.packages("npm"),
        {"packages": [{"name": "a", "version": "1"}, 7]},
        [Package("a", "1")],
        "/packages?manager=npm",
        None,
    ),
    "code": (
        lambda c: c.code.run("1", "node", timeout=5),
        {"stdout": "x", "stderr": "", "exit_code": 0, "language": "node", "execution_time_ms": 1.5, "_note": "n"},
        CodeResult("x", "", 0, "node", 1.5),
        "/code/run",
        {"code": "1", "language": "node", "timeout": 5},
    ),
    "status": (
        lambda c: c.git.status("repo"),
        {"branch": "main", "clean": False, "files": [{"path": "a", "status": "modified"}]},
        GitStatus("main", False, (GitFile("a", "modified"),)),
        "/git/status?path=repo",
        None,
    ),
    "diff": (
        lambda c: c.git.diff(staged=True, file="a"),
        {"diff": "+", "stats": {"files_changed": 1, "insertions": 2, "deletions": 3}},
        GitDiff("+", 1, 2, 3),
        "/git/diff?path=.&staged=true&file=a",
        None,
    ),
    "commands": (
        lambda c: c.commands.list(),
        {"commands": [{"name": "greet", "description": "d", "args": [{"name": "n", "type": "integer"}]}]},
        [CommandInfo("greet", "d", (CommandArgument("n", "integer"),))],
        "/commands",
        None,
    ),
    "command": (
        lambda c: c.commands.run("with space", n=1, name="x", timeout=3),
        {"result": [1, None]},
        [1, None],
        "/commands/with%20space",
        {"n": 1, "name": "x"},
    ),
    "search": (
        lambda c: c.files.search("d", "*.py", max_depth=2, max_results=3),
        {"results": [{"name": "a.py", "path": "/d/a.py"}], "timed_out": False},
        [SearchHit("a.py", "/d/a.py")],
        "/files/search",
        {"path": "d", "pattern": "*.py", "max_depth": 2, "max_results": 3},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_call_sends_and_reads_what_the_contract_says(name: str) -> None:
    work, body, expected, target, sent = CASES[name]
    asked: list[httpx.Request] = []
    assert work(answering(body, asked)) == expected
    assert asked[0].url.raw_path.decode() == target
    assert (json.loads(asked[0].content) if asked[0].content else None) == sent


@pytest.mark.parametrize(
    "decode",
    [
        CodeResult.from_wire, CommandArgument.from_wire, CommandInfo.from_wire, FileInfo.from_wire, GitDiff.from_wire,
        GitFile.from_wire, GitStatus.from_wire, ListeningPort.from_wire, Package.from_wire, ProcessInfo.from_wire,
        Receipt.from_wire, SearchHit.from_wire, SystemInfo.from_wire, SystemMetrics.from_wire,
        lambda data: FileEntry.from_wire(data, "d"),
    ],
)  # fmt: skip
def test_missing_unknown_and_odd_keys_do_no_harm(decode: Callable[[dict[str, Any]], Any]) -> None:
    full = decode({})
    assert decode({"unknown": 1}) == full
    odd = {name: 7 if isinstance(value, tuple) else [] for name, value in vars(full).items()}
    assert decode(odd) == full


@pytest.mark.field(50)
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-02T03:04:05+00:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)),
        ("2026-01-02T03:04:05.500000Z", datetime(2026, 1, 2, 3, 4, 5, 500_000, tzinfo=timezone.utc)),
        ("2026-01-02T03:04:05", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)),
        ("2026-01-02T05:04:05+02:00", datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)),
        (0, datetime(1970, 1, 1, tzinfo=timezone.utc)),
        (0.5, datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=0.5)),
        ("yesterday", None),
        ("", None),
        (1e300, None),
        (True, None),
        (None, None),
    ],
)
def test_field_050_every_form_of_time_becomes_an_aware_datetime(value: Any, expected: datetime | None) -> None:
    found = wire.moment({"t": value}, "t")
    assert found == expected
    assert found is None or found.tzinfo is timezone.utc


def test_results_know_whether_they_succeeded() -> None:
    assert CodeResult("", "", 0, "python").success
    assert not CodeResult("", "", 1, "python").success
    assert FileInfo.from_wire({"type": "directory"}).is_dir
    assert FileEntry.from_wire({"name": "x", "type": "directory"}, "d").is_dir


def test_code_that_ran_tells_what_it_printed_and_how_much_of_that_is_left_out() -> None:
    shown = str(CodeResult("1\n", "", 0, "python", 1.5))
    assert shown == "CodeResult(exit_code=0, language='python', stdout='1\\n', execution_time_ms=1.5)"
    assert repr(CodeResult("x" * 310, "oops", 3, "node", 2.0, True)) == (
        f"CodeResult(exit_code=3, language='node', stdout='{'x' * 300}'… (10 more characters), stderr='oops', "
        "execution_time_ms=2.0, truncated=True)"
    )
