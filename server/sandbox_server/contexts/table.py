"""The code contexts of one server: whose they are, how many there may be, and when unused ones end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..messages import Refusal, quoted
from ..process.spawn import Launch
from ..process.table import ProcessTable

if TYPE_CHECKING:
    from .context import Context

#: The most contexts of one server, whatever a policy says.
CEILING = 10


class ContextTable:
    """Thread-safe. One per server. The programs are children of the process table and end with it."""

    def __init__(self, processes: ProcessTable) -> None:
        self._processes = processes
        self._lock = threading.Lock()
        self._contexts: dict[str, Context] = {}  # oldest first
        self._opening = 0

    def open(self, launch: Launch, *, owner: str, name: str, limit: int | None, idle_seconds: float | None) -> Context:
        """A new context; `launch` names the Python. It is closed once it has not been used for so many seconds."""
        most = CEILING if limit is None else min(limit, CEILING)
        with self._lock:
            if len(self._contexts) + self._opening >= most:
                raise Refusal("too_many_sessions", f"{most} code contexts are open; close one first", limit=most)
            self._opening += 1
        try:
            from .context import Context  # not needed to start a server

            context = Context(launch, _program(), self._processes, owner=owner, name=name)
        except BaseException:
            with self._lock:
                self._opening -= 1
            raise
        with self._lock:
            self._opening -= 1
            self._contexts[context.id] = context
        if idle_seconds is not None:
            self._expect(context, idle_seconds)
        return context

    def of(self, owner: str) -> list[Context]:
        """This owner's, oldest first."""
        with self._lock:
            return [context for context in self._contexts.values() if context.owner == owner]

    def count(self) -> int:
        """How many are open, whose ever they are."""
        return len(self._contexts)

    def find(self, id: str, owner: str) -> Context:
        context = self._contexts.get(id)
        if context is None or context.owner != owner:
            raise Refusal(
                "context_not_found", f"no code context {quoted(id, 64)} of yours; GET /code/contexts lists them"
            )
        return context

    def close(self, context: Context, cause: str = "closed") -> None:
        """End it, and everything it started; a run that goes on is told."""
        with self._lock:
            self._contexts.pop(context.id, None)
        context.close(cause)

    def shut_down(self) -> None:
        """End all of them."""
        with self._lock:
            contexts = list(self._contexts.values())
        for context in contexts:
            self.close(context, "shutdown")

    def _expect(self, context: Context, seconds: float) -> None:
        """Look again when it may have been unused for so long. Running code is use."""
        left = context.expire(seconds)
        if not left:
            threading.Thread(target=self.close, args=(context, "idle"), name="close-context", daemon=True).start()
        elif context.id in self._contexts:
            self._processes.supervisor.after(left, lambda: self._expect(context, seconds))


def _program() -> bytes:
    """What runs inside: as text, so that it needs no file where the program is confined."""
    import pkgutil  # not needed to start a server

    program = pkgutil.get_data(__package__, "runner.py")
    assert program is not None
    return program
