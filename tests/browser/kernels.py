"""Kernels of other versions than the newest, for JupyterLab to start."""

from __future__ import annotations

import json
import sys

from tests.support.overlays import ipykernel_of

from .lab import Lab


def kernel_of(lab: Lab, version: str) -> str:
    """The name of a kernel with this version of ipykernel."""
    name = f"ipykernel-{version}"
    spec = {
        "argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": name,
        "language": "python",
        "env": {"PYTHONPATH": str(ipykernel_of(version))},
    }
    directory = lab.directory / "data/kernels" / name
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "kernel.json").write_text(json.dumps(spec))
    return name
