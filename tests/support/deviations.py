"""Where this server answers otherwise than the recorded contract, gathered from all replay tests."""

from __future__ import annotations

import runpy
from collections import defaultdict
from pathlib import Path

SERVER_TESTS = Path(__file__).resolve().parent.parent / "server"


def all_deviations() -> dict[str, dict[str, str]]:
    """File of vectors -> case -> reason, from the ``DEVIATIONS`` of every ``tests/server/*/deviations.py``."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for module in sorted(SERVER_TESTS.glob("*/deviations.py")):
        for vector, reason in runpy.run_path(str(module))["DEVIATIONS"].items():
            file, _, case = vector.partition(":")
            if case in found[file]:
                raise ValueError(f"{vector} deviates twice; see {module}")
            found[file][case] = reason
    return dict(found)
