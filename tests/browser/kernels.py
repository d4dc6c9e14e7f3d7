"""Kernels of other versions than the newest, each laid over this environment: a directory before all others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from .lab import Lab

PLACE = Path(__file__).parents[2] / ".venv-kernels"
# What some of these versions import and the newest does not.
_MORE = ("nest-asyncio", "psutil")


def kernel_of(lab: Lab, version: str) -> str:
    """The name of a kernel with this version of ipykernel, which is fetched once for all runs."""
    name = f"ipykernel-{version}"
    overlay = PLACE / name
    if not overlay.exists():
        _fetch(overlay, version)
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": name,
        "language": "python",
        "env": {"PYTHONPATH": str(overlay)},
    }
    directory = lab.directory / "data/kernels" / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "kernel.json").write_text(json.dumps(spec))
    return name


def _fetch(overlay: Path, version: str) -> None:
    PLACE.mkdir(exist_ok=True)
    made = tempfile.mkdtemp(dir=PLACE)
    try:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", made]
        done = subprocess.run([*pip, f"ipykernel=={version}", *_MORE], capture_output=True, text=True, timeout=120)
        if done.returncode:
            pytest.skip(f"no way here: pip cannot get ipykernel {version}: {done.stderr.strip()[-200:]}")
        if not overlay.exists():  # a run beside this one may have been faster
            os.rename(made, overlay)
    finally:
        shutil.rmtree(made, ignore_errors=True)
