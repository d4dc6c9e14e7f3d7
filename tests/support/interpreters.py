"""Every Python of this machine that the server promises to run on."""

from __future__ import annotations

import functools
import glob
import os
import shutil
import subprocess

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


@functools.cache
def interpreters() -> dict[str, str]:
    """version -> path of an interpreter that starts; the one running the tests is always among them."""
    found: dict[str, str] = {}
    for version in VERSIONS:
        name = f"python{version}"
        home = os.path.expanduser("~")
        candidates = [shutil.which(name), *sorted(glob.glob(f"{home}/.pyenv/versions/{version}.*/bin/{name}"))]
        pyenv = os.environ.get("PYENV_ROOT")
        if pyenv:
            candidates += sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/{name}"))
        for candidate in candidates:
            if candidate and _starts(candidate):
                found[version] = candidate
                break
    return found


def _starts(path: str) -> bool:
    try:
        return subprocess.run([path, "-c", "pass"], capture_output=True, timeout=60).returncode == 0
    except OSError:
        return False
