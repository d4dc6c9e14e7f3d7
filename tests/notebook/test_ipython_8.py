"""IPython 8, which Python 3.10 has, beside 9, with which all other tests run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.overlays import ipython_of

VERSION = "8.39.0"
HERE = Path(__file__).parent
HELD = ("test_extension.py", "test_displays.py")


@pytest.mark.timeout(600)  # two files of tests, after a download
def test_loading_completion_errors_and_displays_are_the_same_with_ipython_8() -> None:
    environ = {**os.environ, "PYTHONPATH": str(ipython_of(VERSION))}
    found = [sys.executable, "-c", "import IPython; print(IPython.__version__)"]
    assert subprocess.run(found, env=environ, capture_output=True, text=True).stdout.strip() == VERSION
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(str(HERE / name) for name in HELD)]
    done = subprocess.run(tests, cwd=HERE.parents[1], env=environ, capture_output=True, text=True, timeout=480)
    assert done.returncode == 0, done.stdout
