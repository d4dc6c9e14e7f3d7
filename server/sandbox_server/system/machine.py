"""Hardware, load, memory and disk as this process may use them."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from . import cgroups
from .reading import text

_MIB = 1 << 20
_GIB = 1 << 30


def info() -> dict[str, Any]:
    """Hardware and software. ``memory_source`` says whether a control group or the machine bounds the memory."""
    total, available, source = _memory()
    size, free = _disk("/")
    system = os.uname()
    return {
        "os": system.sysname,
        "arch": system.machine,
        "cpu_count": os.cpu_count() or 1,
        "cpu_limit": _rounded(cgroups.processors()),
        "memory_total_mb": total // _MIB,
        "memory_available_mb": available // _MIB,
        "memory_source": source,
        "disk_total_gb": round(size / _GIB, 2),
        "disk_free_gb": round(free / _GIB, 2),
        "python_version": ".".join(map(str, sys.version_info[:3])),
        "hostname": system.nodename,
    }


def metrics(started: float) -> dict[str, Any]:
    """Load, memory and disk, now; `started` is when the server did, by `time.monotonic`."""
    total, available, source = _memory()
    used = max(0, total - available)
    size, free = _disk("/")
    one, five, fifteen = _load()
    return {
        "cpu_load_1m": one,
        "cpu_load_5m": five,
        "cpu_load_15m": fifteen,
        "cpu_limit": _rounded(cgroups.processors()),
        "memory_used_mb": used // _MIB,
        "memory_total_mb": total // _MIB,
        "memory_percent": _percent(used, total),
        "memory_source": source,
        "disk_used_gb": round((size - free) / _GIB, 2),
        "disk_total_gb": round(size / _GIB, 2),
        "disk_percent": _percent(size - free, size),
        "uptime_seconds": round(time.monotonic() - started, 1),
    }


def _memory() -> tuple[int, int, str]:
    """Bytes in all, bytes left, and whose limit that is."""
    facts = {}
    for line in text("/proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        figure = value.split()[:1]
        if figure and figure[0].isdecimal():
            facts[name] = int(figure[0]) * 1024
    total = facts.get("MemTotal", 0)
    available = facts.get("MemAvailable", facts.get("MemFree", 0))
    group = cgroups.memory()
    if group is None or (total and group.limit >= total):
        return total, available, "host"
    left = max(0, group.limit - group.used)
    return group.limit, min(left, available) if total else left, "cgroup"


def _disk(path: str) -> tuple[int, int]:
    """Bytes in all, and left for whoever is not the superuser."""
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize


def _load() -> tuple[float, float, float]:
    try:
        return os.getloadavg()
    except OSError:  # a sandbox without /proc
        return 0.0, 0.0, 0.0


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 1) if whole else 0.0


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
