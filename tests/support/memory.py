"""Resident memory of a process, its high-water mark included (proc(5))."""

from __future__ import annotations

import re
from pathlib import Path

MIB = 1 << 20


def resident(pid: int) -> int:
    """Bytes of resident memory now."""
    return _field(pid, "VmRSS")


def reset_peak(pid: int) -> int:
    """Start a new high-water mark; answers the resident memory it starts from, in bytes."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return resident(pid)


def peak(pid: int) -> int:
    """Bytes of resident memory at most, since the last reset."""
    return _field(pid, "VmHWM")


def _field(pid: int, name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found, name
    return int(found[1]) * 1024
