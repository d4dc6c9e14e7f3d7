"""The server's own secrets: taken out of what other processes can read of it.

Deleting a variable from ``os.environ`` leaves the bytes that the kernel shows in ``/proc/PID/environ``, because those
are the strings on the process's first stack page. They are overwritten in place here, which costs microseconds, where
a second ``exec`` with a clean environment would cost a second interpreter start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, MutableMapping

PR_SET_DUMPABLE = 4


def hide(names: Iterable[str], environ: MutableMapping[str, str] = os.environ) -> None:
    """Remove `names` from the environment and from ``/proc/self/environ``; close ptrace and core dumps (Linux).

    Silently does less where there is no ``/proc``.
    """
    import ctypes

    hidden = {name.encode() for name in names if name in environ}
    try:
        with open("/proc/self/environ", "rb") as file:
            block = file.read()
        with open("/proc/self/stat", "rb") as file:
            start = int(file.read().rpartition(b")")[2].split()[47])  # field 50, env_start (proc(5))
    except (OSError, IndexError, ValueError):
        block, start = b"", 0
    offset = 0
    for entry in block.split(b"\0") if start else []:
        name, _, value = entry.partition(b"=")
        if name in hidden:
            ctypes.memset(start + offset + len(name) + 1, 0, len(value))
        offset += len(entry) + 1
    for name in hidden:
        environ.pop(name.decode(), None)
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(libc, "prctl"):
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
