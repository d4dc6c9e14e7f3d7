"""What the server sees of the browser. Nothing of it is loaded, let alone started, before a page is wanted."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from ..messages import Peer, Refusal, quoted

if TYPE_CHECKING:
    from ..guards.urls import UrlGuard
    from .engine import Engine
    from .page import Page

T = TypeVar("T")

EXECUTABLE_VARIABLE = "ABX_SERVER_CHROMIUM"
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


class Browser:
    """One per server, thread-safe. `close` ends Chromium and its thread."""

    def __init__(self, program_path: Sequence[str], environ: Mapping[str, str], guard: Callable[[], UrlGuard]) -> None:
        self._program_path = program_path
        self._environ = {name: value for name, value in environ.items() if name != EXECUTABLE_VARIABLE}
        self._named = environ.get(EXECUTABLE_VARIABLE)
        self._guard = guard
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._closed = False

    def use(self, owner: str, work: Callable[[Page], Awaitable[T]], peer: Peer) -> T:
        """Do something with an identity's page; `browser_unavailable` says what is missing for that.

        `Aborted` once the peer has gone; the page does not work on for nobody.
        """
        return self._started().use(owner, work, peer)

    def console(self, owner: str) -> list[dict[str, str]]:
        """What an identity's page has logged since somebody asked; nothing is started for it."""
        return [] if self._engine is None else self._engine.take_logs(owner)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._engine is not None:
                self._engine.close()

    def _started(self) -> Engine:
        with self._lock:
            if self._closed:
                raise Refusal("busy", "the server is stopping")
            if self._engine is None:
                executable = self._executable()
                from .engine import Engine  # asyncio costs a server half of its start

                self._engine = Engine(executable, self._environ, self._guard)
            return self._engine

    def _executable(self) -> str:
        from importlib.util import find_spec

        if find_spec("playwright") is None:
            raise _unavailable("the Python package playwright is missing; install it with: pip install playwright")
        places = [self._named] if self._named else [f"{path}/{name}" for name in _NAMES for path in self._program_path]
        for place in places:
            if os.access(place, os.X_OK):
                return place
        where = quoted(self._named) if self._named else f"none of {', '.join(_NAMES)}"
        raise _unavailable(f"no Chromium is installed ({where}); install one, or name it in {EXECUTABLE_VARIABLE}")


def _unavailable(message: str) -> Refusal:
    return Refusal("browser_unavailable", message)
