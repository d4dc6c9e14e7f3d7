"""The recorded runs of the command line, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.vectors.deviations import DEVIATIONS, OURS
from tests.support.server import SYSTEM_PATH, ServerProcess, child_environment, running_server
from tests.support.vectors import Vector, compare, load

CASES = load("cli")
#: The files that the recorded runs name, with contents of the kind the name tells.
FILES = {
    "locked.json": '{"preset": "locked"}',
    "typo.json": '{"preset": "locked", "endpoint": {}}',
    "bad.json": "{",
    "l1.json": '{"endpoints": {"files_*": {"paths": {"read_only": true}}}}',
    "tokenenv.json": '{"auth": {"tokens": [{"id": "a", "token_env": "NOT_SET_ANYWHERE", "scopes": ["*"]}]}}',
    "p.yaml": "preset: locked\n",
    "p.yml": "preset: [locked\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("up")) as server:
        yield server


def run(case: Vector, folder: Path, server: ServerProcess) -> subprocess.CompletedProcess[str]:
    def put(text: str) -> str:
        return text.replace("<tmp>", str(folder)).replace("<port>", str(server.port))

    environ = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8"} | {name: put(value) for name, value in case.environ.items()}
    return subprocess.run(
        [sys.executable, "-m", "sandbox_server", *map(put, case.facts["args"])],
        capture_output=True, text=True, timeout=120, env=child_environment(environ), cwd=folder,
    )  # fmt: skip


def judge(facts: dict[str, Any], done: subprocess.CompletedProcess[str]) -> list[str]:
    found = []
    if done.returncode != facts["exit_code"]:
        found.append(f"exit code {done.returncode} instead of {facts['exit_code']}: {done.stderr}")
    for name, text in (("stdout", done.stdout), ("stderr", done.stderr)):
        if name in facts and bool(text) != facts[name]:
            found.append(f"{name} is {text!r}")
    if "stdout_json_keys" in facts:
        printed = json.loads(done.stdout)
        missing = set(facts["stdout_json_keys"]) - set(printed)
        found += [f"key {key} is missing" for key in sorted(missing)]
        if "endpoint_row_keys" in facts:
            wanted = set(facts["endpoint_row_keys"])
            found += [f"row {row} lacks keys" for row in printed["endpoints"] if not row.keys() >= wanted]
        if "warning_codes" in facts:
            found += compare(facts["warning_codes"], [w["code"] for w in printed["warnings"]], "warnings", frozenset())
        if "decision" in facts:
            found += compare(facts["decision"], printed, "decision", frozenset())
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_command_line_does_as_recorded_or_as_the_deviation_says(
    case: Vector, folder: Path, server: ServerProcess
) -> None:
    done = run(case, folder, server)
    assert "Traceback" not in done.stderr
    found = judge(dict(case.facts), done)
    if case.name not in DEVIATIONS:
        assert not found
        return
    assert found, "listed as a deviation, but done as recorded"
    assert not judge({**case.facts, **OURS[case.name]}, done)


def test_deviations_name_vectors() -> None:
    assert {name for name in DEVIATIONS if name.startswith("cli:")} <= {case.name for case in CASES}
