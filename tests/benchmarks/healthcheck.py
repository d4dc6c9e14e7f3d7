"""How long the health check takes, from its command line to its exit, as an image would run it.

python tests/benchmarks/healthcheck.py [--rounds 50] [--python /usr/bin/python3]
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET_MS = 100.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "server.pyz")
        subprocess.run([sys.executable, ROOT / "scripts" / "onefile.py", file], check=True, stdout=subprocess.DEVNULL)
        ways = {
            "bare interpreter": [options.python, "-I", "-S", "-c", "pass"],
            "module": [options.python, "-m", "sandbox_server", "healthcheck"],
            "zipapp": [options.python, "-I", "-S", str(file), "healthcheck"],
        }
        serve = ["serve", "--port", "0", "--allow-anonymous", "--base-dir", folder]
        server = subprocess.Popen(
            [*ways["zipapp"][:-1], *serve], stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
        )
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip().rpartition(":")[2]
            ways = {name: [*way, "--port", port] if way[-1] == "healthcheck" else way for name, way in ways.items()}
            taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
            for _ in range(options.rounds):
                for name, way in ways.items():
                    taken[name].append(milliseconds(way))
        finally:
            server.terminate()
            server.wait()
    medians = {name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in taken.items()}
    for name, (wall, cpu) in medians.items():
        print(f"{name:<18} median {wall:6.1f} ms, of which {cpu:5.1f} ms CPU")
    held = all(wall < TARGET_MS for wall, _ in medians.values())
    print(f"below {TARGET_MS:.0f} ms: {'held' if held else 'MISSED'}")
    return int(not held)


def milliseconds(command: list[str]) -> tuple[float, float]:
    """Wall and CPU time of one run. The second is the one to believe on a busy machine."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, cwd=ROOT / "server")
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall * 1000, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


if __name__ == "__main__":
    raise SystemExit(main())
