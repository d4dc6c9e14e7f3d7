"""Run the server's tests on the lowest and the highest Python of this machine, each in an environment of its own.

Fuzzing takes a share of its full length there: how far it gets depends on the server, and `make fuzz` goes all the way
on the Python of all other tests.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.interpreters import interpreters  # noqa: E402  # the tests are no installed package

#: What the server's tests import, beside the server.
NEEDED = (
    "pytest>=8",
    "hypothesis>=6.100",
    "pytest-timeout>=2.3",
    "PyYAML>=6",
    "prometheus-client>=0.20",
    "playwright>=1.50",
)
#: Per cent of the attempts that fuzzing makes.
EFFORT = "15"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="?", choices=("lowest", "highest"), help="one of them only")
    which = parser.parse_args().which
    found = interpreters()
    order = sorted(found, key=lambda version: tuple(map(int, version.split("."))))
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    ends = {"lowest": order[0], "highest": order[-1]}
    for version in dict.fromkeys([ends[which]] if which else ends.values()):
        if version == running:
            print(f"Python {running} is the one that all tests run on")
            continue
        home = ROOT / f".venv-{version}"
        python = home / "bin" / "python"
        if not (ready := home / ".ready").exists():  # nor half of it, after a run that was broken off
            subprocess.run([found[version], "-m", "venv", "--clear", home], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e"]
            subprocess.run([*pip, str(ROOT / "server"), *NEEDED], check=True)
            ready.touch()
        print(f"the server's tests on Python {version}, fuzzing at {EFFORT} %", flush=True)
        options = "addopts=-ra --strict-markers --import-mode=importlib"
        tests = [str(python), "-m", "pytest", "-q", "-o", options, "tests/server"]
        if code := subprocess.run(tests, cwd=ROOT, env={**os.environ, "TESTS_EFFORT": EFFORT}).returncode:
            return code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
