"""What a custom command may ask for while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Lock

from ..access import Op
from ..guards.location import Location
from ..messages import Refusal


class CommandCall:
    """Given to a command that has a parameter named ``call``.

    A thread cannot be killed. A command that takes long looks at `cancelled` now and then, and returns.
    """

    def __init__(
        self,
        *,
        identity: str,
        guard: Callable[[str, Op], Location],
        gone: Callable[[], bool],
        deadline: float | None,
    ) -> None:
        self.identity = identity  # the caller's name
        self.deadline = deadline  # by time.monotonic; None without a limit
        self._guard = guard
        self._gone = gone
        self._over = False

    @property
    def cancelled(self) -> bool:
        """True once nobody waits for the result any more: the time is over, or the caller has left."""
        if not self._over:
            self._over = self.deadline is not None and time.monotonic() >= self.deadline or self._gone()
        return self._over

    def guard(self, path: str, op: Op = "read") -> Location:
        """A path judged by the policy's rule for custom commands. Raises `Refusal`.

        `op` is ``read``, ``write``, ``delete`` or ``exec``. What comes back is closed when the call is over.
        """
        if self._over:
            raise Refusal("timeout", "the call is over; nothing may be opened for it any more")
        return self._guard(path, op)

    def end(self) -> None:
        """The call is over, whatever the command still does."""
        self._over = True


class Abandoned:
    """Commands that go on although nobody waits for them any more. A thread cannot be killed, so they are few."""

    def __init__(self) -> None:
        self._ends: list[Event] = []
        self._lock = Lock()

    def add(self, ended: Event) -> None:
        with self._lock:
            self._ends.append(ended)

    def __len__(self) -> int:
        with self._lock:
            self._ends = [ended for ended in self._ends if not ended.is_set()]
            return len(self._ends)
