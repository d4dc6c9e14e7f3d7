"""A program that the server runs for itself, and talks to. It starts no others, and leaves nothing to wait for."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from .children import Child
from .stopping import stop
from .supervisor import Supervisor

_PATIENCE = 0.2  # what is killed is gone sooner than that, as a rule


class Helper:
    """Its two pipes, which never block. It is killed after `timeout` seconds, and by `close`, which must be called."""

    def __init__(self, child: Child, supervisor: Supervisor, timeout: float) -> None:
        self.stdin = child.pipes.stdin
        self.stdout = child.pipes.stdout
        self._child = child
        self._supervisor = supervisor
        os.close(child.pipes.stderr)
        self._timer = supervisor.after(timeout, self._kill)

    def close(self) -> None:
        self._timer.cancel()
        self._kill()
        os.close(self.stdin)
        os.close(self.stdout)
        if self._child.wait(_PATIENCE) is None:
            stop(self._child, self._supervisor, grace=0.0)
        else:
            self._child.release()

    def _kill(self) -> None:
        if self._child.exit() is None:
            with suppress(PermissionError):
                self._child.signal(signal.SIGKILL)
