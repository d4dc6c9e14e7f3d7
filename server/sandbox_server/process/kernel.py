"""What the kernel knows about processes: /proc, pidfds, adoption of orphans. Linux first; elsewhere it knows less.

Everything here copes with processes that vanish meanwhile, and with a /proc that is missing or hidden.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import NamedTuple

#: In the environment of every child: the ids of the commands it descends from, innermost last.
MARKER = "NSB_PROCESS"

_PR_SET_CHILD_SUBREAPER = 36
#: More descriptors than all connections of a server and their commands take.
_OPEN_FILES = 1 << 16

_stamping = threading.Lock()


class Stat(NamedTuple):
    """One line of the process table. `pid` and `started` together never come twice."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    dead: bool  # a zombie: it only waits for its parent


def adopt_orphans(adopt: bool = True) -> bool:
    """Make this process the parent of every orphan among its descendants, or not any more; False where impossible."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_PR_SET_CHILD_SUBREAPER, int(adopt), 0, 0, 0) == 0)


def pass_over(number: int) -> None:
    """Let a signal do what it does by default, and interrupt nobody, until `signal.signal` is called again.

    Python does not know of it: a signal that came a moment before is still handled. After `signal.signal` with SIG_DFL
    it would be told of on the standard error, as an exception that was ignored.
    """
    ctypes.CDLL(None).signal(int(number), None)


def stat(pid: int) -> Stat | None:
    """The process's line, None when it is gone."""
    text = _read(f"/proc/{pid}/stat")
    # The name in parentheses may hold anything, parentheses and blanks too; what follows the last one is numbers.
    fields = text[text.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return Stat(pid, int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]), fields[0] in (b"Z", b"X"))


def processes() -> Iterator[Stat]:
    """Everything that can be seen. Nothing where there is no /proc."""
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (found := stat(int(name))):
                yield found


class Census:
    """The process table at one moment, without this process; read once, however many look for their own in it."""

    def __init__(self) -> None:
        self.table = {line.pid: line for line in processes()}
        self.table.pop(os.getpid(), None)
        self._markers: dict[int, bytes] = {}
        self._limits: dict[int, bytes] = {}

    def marked(self, pid: int, text: bytes) -> bool:
        """Whether the process's environment carries `text` in its marker."""
        marker = self._markers.get(pid)
        if marker is None:
            prefix = MARKER.encode() + b"="
            lines = _read(f"/proc/{pid}/environ").split(b"\0")
            marker = self._markers[pid] = b"\0".join(line for line in lines if line.startswith(prefix))
        return text in marker

    def stamped(self, pid: int, number: int) -> bool:
        """Whether the process, or one that it descends from, was given this mark."""
        limits = self._limits.get(pid)
        if limits is None:
            limits = self._limits[pid] = _read(f"/proc/{pid}/limits")
        return f" {number} ".encode() in limits


@contextlib.contextmanager
def stamping(number: int) -> Iterator[None]:
    """Give whatever this process starts meanwhile a mark that its descendants inherit.

    It is a limit on real-time computing, of so many microseconds that no machine lives to see it. An environment can be
    emptied, a session and a parent be left; this stays. One thread at a time: the limit is that of the whole process.
    """
    with _stamping:
        try:
            soft, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
            resource.setrlimit(resource.RLIMIT_RTTIME, (number, hard))
        except (OSError, ValueError, AttributeError):  # not every system has it, or grants it
            yield
            return
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_RTTIME, (soft, hard))


def raise_open_files() -> int | None:
    """Let this process open as many files as it may, within reason; the former limit, None where it stays.

    The convention that programs find a low limit, since some close everything up to it, or select on it, stays for
    children: see `limit_open_files`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return None
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft


def limit_open_files(pid: int, soft: int) -> None:
    """Give a process just started the soft limit that it would have had."""
    # It has ended; it is another user's; the system has no such call.
    with contextlib.suppress(OSError, AttributeError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))


def with_descendants(pids: set[int], table: Mapping[int, Stat]) -> list[Stat]:
    """The living among `pids` and everything that descends from one of them."""
    children: dict[int, list[int]] = {}
    for line in table.values():
        children.setdefault(line.parent, []).append(line.pid)
    found, queue = set(pids), list(pids)
    while queue:
        new = [pid for pid in children.get(queue.pop(), ()) if pid not in found]
        found.update(new)
        queue += new
    return [table[pid] for pid in found if not table[pid].dead]


def send(target: Stat, number: int) -> None:
    """Signal exactly this process, never a later one with the same pid."""
    if not hasattr(os, "pidfd_open"):
        if stat(target.pid) == target:
            with contextlib.suppress(OSError):
                os.kill(target.pid, number)
        return
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(target.pid)
        try:
            # The descriptor pins whoever has the pid now; the start time tells whether that is the one meant.
            now = stat(target.pid)
            if now is not None and now.started == target.started:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _read(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    parts = []
    try:
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    except OSError:  # the process ended while it was read
        return b""
    finally:
        os.close(descriptor)
    return b"".join(parts)
