"""Ending a child that nobody waits for: SIGTERM, a grace, then SIGKILL until its whole family is gone."""

from __future__ import annotations

import signal
import time
from contextlib import suppress

from .children import Child
from .supervisor import Supervisor

GRACE = 2.0
#: Even what cannot be killed now is not forgotten: a process stuck in the kernel is asked this often, in seconds.
_RARELY = 1.0


def stop(child: Child, supervisor: Supervisor, *, grace: float = GRACE) -> None:
    """Answer at once; the supervisor does it, and releases the child at the end."""
    child.pinned = True
    supervisor.soon(_Stop(child, supervisor, time.monotonic() + grace).begin)


def destroy(child: Child, supervisor: Supervisor, pause: float = 0.01, *, again: bool = False) -> None:
    """SIGKILL to the family until it is gone; somebody else releases the child. Never waits."""
    if child.strike(supervisor.census() if again else None):
        supervisor.after(pause, lambda: destroy(child, supervisor, min(pause * 2, _RARELY), again=True))


class _Stop:
    def __init__(self, child: Child, supervisor: Supervisor, deadline: float) -> None:
        self._child = child
        self._supervisor = supervisor
        self._deadline = deadline
        self._pause = 0.01

    def begin(self) -> None:
        self._child.family(
            self._supervisor.census()
        )  # remembered: once the leader is gone, its detached children are orphans like any other
        with suppress(PermissionError):
            self._child.signal(signal.SIGTERM)
        self.step()

    def step(self) -> None:
        late, census = time.monotonic() >= self._deadline, self._supervisor.census()
        if (late and self._child.strike(census)) or self._child.exit() is None or self._child.family(census):
            self._pause = min(self._pause * 2, _RARELY if late else 0.1)
            self._supervisor.after(self._pause, self.step)
        else:
            self._child.release()
