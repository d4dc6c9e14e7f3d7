"""Hold coverage where it was promised: lines of server and client, branches of what decides over access.

Every branch of the latter is meant to be covered, and those that are not are named; the gate falls below
`LEAST_BRANCHES`.
"""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINES = {"server/sandbox_server/*": 95.0, "sandbox_sdk/*": 95.0}
LEAST_BRANCHES = 98.0
BRANCHES = (
    "server/sandbox_server/policy/*",
    "server/sandbox_server/guards/*",
    "server/sandbox_server/auth.py",
    "server/sandbox_server/arguments.py",
)


def main() -> int:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [sys.executable, "-m", "coverage", "json", "-q", "-o", file.name]
        subprocess.run(command, cwd=ROOT, check=True)
        files = json.loads(Path(file.name).read_text())["files"]
    failed = False
    for pattern, least in LINES.items():
        rows = [facts["summary"] for name, facts in files.items() if fnmatch.fnmatch(name, pattern)]
        covered, total = sum(r["covered_lines"] for r in rows), sum(r["num_statements"] for r in rows)
        share = 100 * covered / max(total, 1)
        print(f"{pattern}: {share:.1f} % of {total} lines (at least {least:.0f} %)")
        failed |= share < least
    covered = total = 0
    for name, facts in sorted(files.items()):
        if any(fnmatch.fnmatch(name, pattern) for pattern in BRANCHES):
            summary = facts["summary"]
            covered, total = covered + summary["covered_branches"], total + summary["num_branches"]
            if summary["num_branches"] > summary["covered_branches"] or summary["missing_lines"]:
                print(f"{name}: lines {facts['missing_lines']}, branches {facts['missing_branches']} are not covered")
    share = 100 * covered / max(total, 1)
    print(f"what decides over access: {share:.1f} % of {total} branches (at least {LEAST_BRANCHES:.0f} %)")
    return int(failed or share < LEAST_BRANCHES)


if __name__ == "__main__":
    raise SystemExit(main())
