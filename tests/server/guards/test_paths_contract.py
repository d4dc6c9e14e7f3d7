"""The recorded answers of the path guard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.access import PathRule
from sandbox_server.guards.paths import PathGuards
from sandbox_server.messages import Refusal

from .deviations import DEVIATIONS

VECTORS = Path(__file__).parents[2] / "vectors" / "path_guard.jsonl"


def vectors() -> list[dict[str, Any]]:
    return [json.loads(line) for line in VECTORS.read_text().splitlines()]


@pytest.fixture(params=["openat2", "walk"])
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "walk":
        monkeypatch.setattr("sandbox_server.guards.openat2.OpenAt2.works", lambda self, directory: False)


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["name"])
def test_a_path_is_judged_as_recorded(vector: dict[str, Any], tmp_path: Path, quick: None) -> None:
    def real(text: str) -> str:
        return text.replace("<t>", str(tmp_path))

    for name in vector["files"]:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    for name, target in vector["links"].items():
        (tmp_path / name).symlink_to(real(target))
    rule = vector["rule"]
    guards = PathGuards(real(rule.get("base_dir", "<t>")))
    allow = rule.get("allow")
    guard = guards.of(
        PathRule(
            allow=None if allow is None else tuple(map(real, allow)),
            deny=tuple(map(real, rule.get("deny", ()))),
            read_only=rule.get("read_only", False),
            symlinks=rule.get("symlinks", "within"),
        )
    )
    raw = vector["path"]
    path = real(raw) if isinstance(raw, str) else real(raw["prefix"]) + raw["repeat"] * raw["length_of_repeat"]
    try:
        with guard.locate(path, vector["op"]) as location:
            answer: tuple[bool, str] = (True, location.path)
    except Refusal as refusal:
        answer = (False, refusal.code)
    finally:
        guards.close()
    expected = (True, real(vector["resolved"])) if vector["allowed"] else (False, vector["code"])
    if f"path_guard:{vector['name']}" in DEVIATIONS:
        assert answer == (False, "path_not_allowed") != expected
    else:
        assert answer == expected
