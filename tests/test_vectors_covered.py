"""No recorded case is left out: each is replayed by a test, or told by a table of deviations."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.sdk.deviations import DEVIATIONS as CLIENT
from tests.support.deviations import all_deviations

ROOT = Path(__file__).resolve().parents[1]
VECTORS = ROOT / "tests" / "vectors"
#: Where the cases of a file are replayed. A test's parameters name the case.
REPLAYED = {
    "audit": "server/vectors/test_replay.py",
    "auth": "server/vectors/test_replay.py",
    "browser": "server/vectors/test_replay.py",
    "cli": "server/vectors/test_command_line.py",
    "client_errors": "sdk/test_refusals.py",
    "coerce": "server/custom/test_coercion.py",
    "command_patterns": "server/guards/test_commands_contract.py",
    "commands": "server/vectors/test_replay.py",
    "core": "server/vectors/test_replay.py",
    "deny_globs": "server/guards/test_globs.py",
    "devtools": "server/vectors/test_replay.py",
    "env_rules": "server/guards/test_commands_contract.py",
    "explain": "server/policy/test_vectors.py",
    "files": "server/vectors/test_replay.py",
    "files_watch_changes": "server/vectors/test_replay.py",
    "framing": "server/http/test_framing.py",
    "layers": "server/policy/test_vectors.py",
    "limits": "server/vectors/test_replay.py",
    "limits_concurrency": "server/vectors/test_replay.py",
    "lint": "server/policy/test_vectors.py",
    "path_guard": "server/guards/test_paths_contract.py",
    "policy_errors": "server/policy/test_vectors.py",
    "presets": "server/policy/test_vectors.py",
    "process": "server/vectors/test_replay.py",
    "pty_ws": "server/vectors/test_terminals.py",
    "scopes": "server/policy/test_vectors.py",
    "sizes": "server/policy/test_vectors.py",
    "system": "server/vectors/test_replay.py",
    "terminal": "server/vectors/test_replay.py",
    "url_rules": "server/guards/test_urls.py",
}
NUMBER = 1298


def recorded() -> dict[str, list[str]]:
    """File -> the names of its cases."""
    return {
        path.stem: [json.loads(line)["name"] for line in path.read_text(encoding="utf-8").splitlines()]
        for path in sorted(VECTORS.glob("*.jsonl"))
    }


@pytest.fixture(scope="module")
def parameters() -> dict[str, set[str]]:
    """Module below tests/ -> the parts of all its tests' parameters."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    modules = [f"tests/{module}" for module in sorted(set(REPLAYED.values()))]
    done = subprocess.run([*command, *modules], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    found: dict[str, set[str]] = defaultdict(set)
    for line in done.stdout.splitlines():
        if match := re.fullmatch(r"tests/(.+?)::\w+\[(.*)\]", line):
            found[match[1]] |= {match[2], *match[2].split("-")}
    return found


def deviating() -> dict[str, set[str]]:
    found = {file: set(cases) for file, cases in all_deviations().items()}
    for name in CLIENT:
        file, _, case = name.partition(":")
        found.setdefault(file, set()).add(case)
    return found


def test_every_file_has_its_test_and_no_case_got_lost() -> None:
    cases = recorded()
    assert set(cases) == set(REPLAYED)
    assert sum(map(len, cases.values())) == NUMBER
    assert all(len(names) == len(set(names)) for names in cases.values())


@pytest.mark.parametrize("file", REPLAYED)
def test_every_case_is_replayed_or_told_as_a_deviation(file: str, parameters: dict[str, set[str]]) -> None:
    listed, tried = deviating().get(file, set()), parameters[REPLAYED[file]]
    names = set(recorded()[file])
    assert listed <= names
    assert {name for name in names if name not in tried and f"{file}:{name}" not in tried} <= listed
