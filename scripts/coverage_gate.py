"""Hold coverage where it was promised: of server and client most lines, of what decides over access everything."""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: Files, and the share of their lines that tests must run, in percent.
LINES = {"server/sandbox_server/*": 95.0, "sandbox_sdk/*": 95.0}
#: Files of which tests must run every line and every branch.
EVERYTHING = (
    "server/sandbox_server/policy/*",
    "server/sandbox_server/guards/*",
    "server/sandbox_server/auth.py",
    "server/sandbox_server/arguments.py",
    "server/sandbox_server/json_body.py",
)

Files = Mapping[str, Mapping[str, Any]]


def main() -> int:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "coverage", "json", "-q", "-o", file.name]
        subprocess.run(command, cwd=ROOT, check=True)
        verdicts = list(judged(json.loads(Path(file.name).read_text())["files"]))
    for verdict, _ in verdicts:
        print(verdict)
    return int(not all(held for _, held in verdicts))


def judged(files: Files) -> Iterator[tuple[str, bool]]:
    """What was measured, promise by promise: in words, and whether it is held."""
    for pattern, least in LINES.items():
        rows = [facts["summary"] for facts in _matching(files, pattern).values()]
        covered, total = sum(r["covered_lines"] for r in rows), sum(r["num_statements"] for r in rows)
        share = 100 * covered / max(total, 1)
        yield f"{pattern}: {share:.1f} % of {total} lines (at least {least:.0f} %)", share >= least
    for pattern in EVERYTHING:
        found = _matching(files, pattern)
        gaps = [f"\n  {name}: {gap}" for name, facts in sorted(found.items()) for gap in _gaps(facts)]
        lines, branches = (sum(f["summary"][key] for f in found.values()) for key in ("num_statements", "num_branches"))
        state = f"{len(gaps)} not covered" if gaps else "all covered" if lines else "none measured"
        held = bool(lines) and not gaps
        yield f"{pattern}: {lines} lines and {branches} branches, {state} (all must be){''.join(gaps)}", held


def _matching(files: Files, pattern: str) -> Files:
    return {name: facts for name, facts in files.items() if fnmatch.fnmatch(name, pattern)}


def _gaps(facts: Mapping[str, Any]) -> Iterator[str]:
    """What no test ran in one file. A branch that begins or ends in a missing line is told by the line."""
    missing = set(facts["missing_lines"])
    for line in sorted(missing):
        yield f"line {line} never runs"
    for start, end in facts["missing_branches"]:
        if start not in missing and end not in missing:
            yield f"line {start} never goes on to " + (f"line {end}" if end > 0 else "the end of its function")


if __name__ == "__main__":
    raise SystemExit(main())
