"""Binding policies in tests, and the vectors they come from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sandbox_server.catalogue import builtin
from sandbox_server.policy import BoundPolicy, ServerPolicy

VECTORS = Path(__file__).resolve().parents[2] / "vectors"
ENDPOINTS = builtin()


def vectors(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (VECTORS / f"{file}.jsonl").read_text().splitlines()]


def bound(document: object, **more: Any) -> BoundPolicy:
    """The policy of a server with the built-in endpoints and, unless told otherwise, an empty environment."""
    return ServerPolicy.from_dict(document).bind(ENDPOINTS, **{"environ": {}, **more})


def codes(document: object, **more: Any) -> list[str]:
    return [warning.code for warning in bound(document, **more).lint()]
