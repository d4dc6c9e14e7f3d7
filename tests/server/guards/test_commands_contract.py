"""The recorded answers of the command and environment guards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.access import PathRule
from sandbox_server.guards.commands import CommandGuard
from sandbox_server.guards.environment import EnvGuard
from sandbox_server.guards.paths import PathGuards
from sandbox_server.guards.patterns import expand_flags
from sandbox_server.messages import Refusal

from .deviations import DEVIATIONS

VECTORS = Path(__file__).parents[2] / "vectors"


def vectors(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (VECTORS / f"{name}.jsonl").read_text().splitlines()]


def words(argv: Any) -> list[str]:
    if isinstance(argv, dict):
        return argv["head"] + [argv["repeat"]] * (argv["length"] - len(argv["head"]))
    return [word if isinstance(word, str) else word["repeat"] * word["length"] for word in argv]


def filled(value: Any, root: Path) -> Any:
    return json.loads(json.dumps(value).replace("<root>", str(root)))


@pytest.mark.parametrize("vector", vectors("command_patterns"), ids=lambda vector: vector["name"])
def test_a_command_is_judged_as_recorded(vector: dict[str, Any], tmp_path: Path) -> None:
    if "expand_short_flags" in vector:
        assert expand_flags(vector["expand_short_flags"]) == vector["expanded"]
        return
    if vector.get("pattern_error"):
        with pytest.raises(ValueError, match="command pattern"):
            CommandGuard(vector["allow"], vector["deny"], ())
        return
    guard = CommandGuard(vector["allow"], vector["deny"], ("/usr/bin", "/bin"))
    scope = vector.get("path_scope")
    paths = PathGuards(str(tmp_path)) if scope else None
    for name in (scope or {}).get("files", ()):
        (tmp_path / name).write_text("x")
    argv = words(filled(vector["argv"], tmp_path))
    answer: Any
    try:
        command = guard.admit(argv, "text", paths.of(PathRule(deny=tuple(scope["deny"]))) if paths else None)
        answer = True
        if "admitted_argv" in vector:
            assert list(command.argv) == filled(vector["admitted_argv"], tmp_path)
    except Refusal as refusal:
        answer = refusal.code
    finally:
        if paths:
            paths.close()
    expected = True if vector["allowed"] else vector["code"]
    if f"command_patterns:{vector['name']}" in DEVIATIONS:
        assert answer != expected
    else:
        assert answer == expected


@pytest.mark.parametrize("vector", vectors("env_rules"), ids=lambda vector: vector["name"])
def test_variables_are_judged_as_recorded(vector: dict[str, Any]) -> None:
    try:
        answer: Any = EnvGuard(()).admit(vector["updates"], restricted=False)
    except Refusal as refusal:
        answer = refusal.code
    assert answer == (vector["updates"] if vector["admitted"] else vector["code"])
