"""Run the server's tests on the lowest and the highest Python of this machine, each in an environment of its own."""

from __future__ import annotations

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


def main() -> int:
    found = interpreters()
    order = sorted(found, key=lambda version: tuple(map(int, version.split("."))))
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    wanted = [version for version in dict.fromkeys((order[0], order[-1])) if version != running]
    if not wanted:
        print(f"only Python {running} was found; the suite has run on it")
    for version in wanted:
        home = ROOT / f".venv-{version}"
        python = home / "bin" / "python"
        if not python.exists():
            subprocess.run([found[version], "-m", "venv", home], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e"]
            subprocess.run([*pip, str(ROOT / "server"), *NEEDED], check=True)
        print(f"the server's tests on Python {version}", flush=True)
        options = "addopts=-ra --strict-markers --import-mode=importlib"
        tests = [str(python), "-m", "pytest", "-q", "-o", options, "tests/server"]
        if code := subprocess.run(tests, cwd=ROOT).returncode:
            return code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
