"""What the control groups around this process leave it: memory and processors. Version 2, and version 1.

A limit may stand at any group on the way up, so the tightest one counts, and usage is that of the group it stands at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .reading import number, text

MOUNT = "/sys/fs/cgroup"
OWN = "/proc/self/cgroup"
#: Version 1 has no word for "no limit": it says the largest number of pages.
_NO_LIMIT = 1 << 60


class Memory(NamedTuple):
    """Bytes that the group may use, and uses; files that the kernel could drop at once are not counted."""

    limit: int
    used: int


def memory(mount: str = MOUNT, own: str = OWN) -> Memory | None:
    """The tightest memory limit; None without one."""
    found: list[Memory] = []
    for group in _groups("", mount, own):
        limit = number(f"{group}/memory.max")
        if limit is not None:
            used = (number(f"{group}/memory.current") or 0) - _figure(f"{group}/memory.stat", "inactive_file")
            found.append(Memory(limit, max(0, used)))
    for group in _groups("memory", mount, own):
        limit = number(f"{group}/memory.limit_in_bytes")
        if limit is not None and limit < _NO_LIMIT:
            cached = _figure(f"{group}/memory.stat", "total_inactive_file")
            used = (number(f"{group}/memory.usage_in_bytes") or 0) - cached
            found.append(Memory(limit, max(0, used)))
    return min(found, default=None)


def processors(mount: str = MOUNT, own: str = OWN) -> float | None:
    """How many processors' worth of time the tightest limit leaves; None without one."""
    found: list[float] = []
    for group in _groups("", mount, own):
        quota, _, period = text(f"{group}/cpu.max", 64).partition(" ")
        if quota.isdecimal() and period.strip().isdecimal() and int(period):
            found.append(int(quota) / int(period))
    for group in _groups("cpu", mount, own):
        microseconds, period_v1 = number(f"{group}/cpu.cfs_quota_us"), number(f"{group}/cpu.cfs_period_us")
        if microseconds is not None and period_v1:
            found.append(microseconds / period_v1)
    return min(found, default=None)


def _groups(controller: str, mount: str, own: str) -> Iterator[str]:
    """The directories of our group and of those above it; of version 2 when `controller` is empty."""
    for line in text(own).splitlines():
        _, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controller not in controllers.split(","):
            continue
        top = f"{mount}/{controllers}" if controller else mount
        parts = [part for part in path.split("/") if part and part != ".."]
        for count in range(len(parts), -1, -1):
            yield "/".join([top, *parts[:count]])
        if controller and controllers != controller:  # co-mounted ones also go by their own names
            yield f"{mount}/{controller}"


def _figure(path: str, name: str) -> int:
    for line in text(path).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return 0
