"""How a process ended, and what tells that it has. The process stays as it is: a zombie until somebody collects it."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from typing import NamedTuple


class Exit(NamedTuple):
    """How a process ended: its exit code, or minus the signal; None when somebody else took the status."""

    code: int | None

    @property
    def signal(self) -> int | None:
        return -self.code if self.code is not None and self.code < 0 else None


def status_of(pid: int) -> Exit | None:
    """How a child ended; None while it runs."""
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return Exit(None)
    if ended is None:
        return None
    return Exit(ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status)


def exit_descriptor(pid: int) -> int:
    """A descriptor that becomes readable when the process ends."""
    if hasattr(os, "pidfd_open"):
        try:
            return os.pidfd_open(pid)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM):  # an old kernel, a strict container
                raise
    reading, writing = os.pipe()

    def watch() -> None:
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        os.close(writing)

    threading.Thread(target=watch, name=f"watch-{pid}", daemon=True).start()
    return reading
