"""Deny patterns: what they match, and that no path makes them slow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.guards.globs import DenyRules

VECTORS = Path(__file__).parents[2] / "vectors" / "deny_globs.jsonl"


def vectors() -> list[dict[str, Any]]:
    return [json.loads(line) for line in VECTORS.read_text().splitlines()]


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["name"])
def test_a_deny_pattern_matches_as_recorded(vector: dict[str, Any]) -> None:
    assert DenyRules([vector["pattern"]]).matches(vector["path"]) is vector["denied"]
