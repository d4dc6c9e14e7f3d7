"""What users install, built once: both wheels, and the server as one file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def public() -> Iterator[Path]:
    """A directory that every user of this machine can get to, unlike those of pytest.

    Not below the temporary directory, which a confined server may read whatever is in it.
    """
    folder = Path(tempfile.mkdtemp(prefix="packaging-", dir="/var/tmp"))
    try:
        os.chmod(folder, 0o755)
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def wheels(public: Path) -> dict[str, Path]:
    """Name of the distribution -> its wheel."""
    folder = public / "wheels"
    for project in (ROOT / "server", ROOT):
        run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", folder, project)
    return {path.name.partition("-")[0]: path for path in folder.iterdir()}


@pytest.fixture(scope="session")
def archive(public: Path) -> Path:
    """The server as one file, made as ``make zipapp`` makes it."""
    target = public / "server.pyz"
    run(sys.executable, ROOT / "scripts" / "onefile.py", target)
    return target


@pytest.fixture(scope="session")
def installed(public: Path, wheels: dict[str, Path]) -> Path:
    """The server's wheel in a directory of its own, taken from nowhere but the file."""
    target = public / "installed"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index")
    run(*pip, "--target", target, wheels["notebook_sandbox_server"])
    return target
