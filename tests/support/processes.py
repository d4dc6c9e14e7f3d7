"""The processes of this machine, as tests look for them."""

from __future__ import annotations

import os
from pathlib import Path


def processes_with(word: str) -> list[int]:
    """Those that have this word on their command line; zombies have none."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path("/proc", name, "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        if word.encode() in line:
            found.append(int(name))
    return found
