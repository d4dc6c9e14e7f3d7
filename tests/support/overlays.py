"""Other versions of a package than the newest, each laid over this environment: a directory before all others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PLACE = Path(__file__).parents[2] / ".venv-kernels"


def ipykernel_of(version: str) -> Path:
    """The directory with this version of ipykernel, for PYTHONPATH; fetched once for all runs."""
    return _overlay("ipykernel", version, "nest-asyncio", "psutil")


def ipython_of(version: str) -> Path:
    """The same for IPython."""
    return _overlay("ipython", version, "decorator")


def _overlay(package: str, version: str, *more: str) -> Path:
    """``more``: what some versions import and the newest does not."""
    overlay = PLACE / f"{package}-{version}"
    if not overlay.exists():
        _fetch(overlay, f"{package}=={version}", *more)
    return overlay


def _fetch(overlay: Path, *packages: str) -> None:
    PLACE.mkdir(exist_ok=True)
    made = tempfile.mkdtemp(dir=PLACE)
    try:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", made]
        try:
            done = subprocess.run([*pip, *packages], capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            pytest.skip(f"no way here: pip does not get {packages[0]}")
        if done.returncode:
            pytest.skip(f"no way here: pip cannot get {packages[0]}: {done.stderr.strip()[-200:]}")
        try:
            os.rename(made, overlay)
        except OSError:
            if not overlay.exists():  # a run beside this one may have been faster
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
