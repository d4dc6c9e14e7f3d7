"""The end of an audit log, read piece by piece while it grows, is cut and is replaced."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox_notebook.audit_log import AuditTail, verdict, what
from sandbox_notebook.widgets.panel import _noted
from sandbox_sdk import Sandbox


def line(number: int) -> str:
    return json.dumps({"decision": "deny", "endpoint": f"e{number}", "paths": [f"/{number}"], "refused": None}) + "\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "log"
    path.write_text("")
    box = SimpleNamespace(log=str(path))
    local = SimpleNamespace(box=box, state=SimpleNamespace(directory="/d"))
    monkeypatch.setattr(Sandbox, "list_local", lambda: [local])
    return path


def tail(directory: str = "/d") -> AuditTail:
    sandbox: Any = SimpleNamespace(info=lambda: {"directory": directory})
    return AuditTail(sandbox)


def endpoints(found: list[dict[str, Any]]) -> list[str]:
    return [one["endpoint"] for one in found]


def test_only_whole_lines_of_the_audit_are_told_and_each_once(log: Path) -> None:
    reader = tail()
    assert reader.news() == []
    with log.open("a") as file:
        file.write("WARNING something else\n{not json\n[1]\n" + line(1) + line(2)[:9])
    assert endpoints(reader.news()) == ["e1"]
    with log.open("a") as file:
        file.write(line(2)[9:] + '{"decision": "allow"}\n')
    assert [one["decision"] for one in reader.news()] == ["deny", "allow"]
    assert reader.news() == [] and len(reader.lines) == 3
    assert what(reader.lines[0]) == ["/1"]


def test_a_log_that_was_cut_or_replaced_is_read_anew(log: Path) -> None:
    log.write_text(line(1) + line(2))
    reader = tail()
    assert endpoints(reader.news()) == ["e1", "e2"]
    log.write_text(line(3))
    assert endpoints(reader.news()) == ["e3"]
    other = log.with_name("other")
    other.write_text(line(4) + line(5))
    os.replace(other, log)
    assert endpoints(reader.news()) == ["e4", "e5"]
    for number in range(300):
        with log.open("a") as file:
            file.write(line(number))
    reader.news()
    assert len(reader.lines) == 100 and reader.lines[-1]["endpoint"] == "e299"


def test_without_a_log_it_says_why(log: Path) -> None:
    assert "not on this machine" in tail("/elsewhere").missing and tail("/elsewhere").news() == []
    reader = tail()
    log.unlink()
    assert reader.news() == [] and reader.missing.startswith("cannot be read: ")


def test_a_line_of_nonsense_is_shown_as_far_as_it_goes() -> None:
    shown = _noted({"decision": ["x"], "ts": 1e300, "paths": "no", "program": 7})
    assert (shown["when"], shown["verdict"], shown["what"]) == ("", "allowed", "7")


@pytest.mark.parametrize(
    ("status", "code", "told"),
    [
        (403, "path_not_allowed", "denied"),
        (401, "unauthorized", "denied"),
        (404, "endpoint_disabled", "denied"),
        (413, "payload_too_large", "denied"),
        (421, "host_not_allowed", "denied"),
        (429, "rate_limited", "denied"),
        (101, "missing_scope", "denied"),
        (101, "session_not_found", "missing"),
        (404, "not_found", "missing"),
        (404, "process_not_found", "missing"),
        (404, "unknown_route", "missing"),
        (400, "invalid_argument", "failed"),
        (409, "file_exists", "failed"),
        (500, "internal_error", "failed"),
        (507, "no_space", "failed"),
    ],
)
def test_only_what_was_refused_is_called_denied(status: int, code: str, told: str) -> None:
    noted = {"decision": "deny", "status": status, "code": code}
    assert (verdict(noted), _noted(noted)["verdict"]) == (told, told)
    assert verdict({**noted, "decision": "allow"}) == "allowed"
