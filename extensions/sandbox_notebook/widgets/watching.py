"""Which directories have changed, told a few times a second at most, for as long as somebody looks."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING

from sandbox_sdk import SandboxError

from .page import start_thread

if TYPE_CHECKING:
    from sandbox_sdk import FileWatch, Sandbox

_PAUSE = 0.3
_MANY = 100


class Watching:
    """Follows everything below `path`, which the policy server calls `place`. Where it may not, it says so and ends.

    `changed` gets directories below `place`, and none where all of them may have changed.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        path: str,
        place: str,
        changed: Callable[[list[str]], None],
        live: Callable[[bool], None],
    ) -> None:
        self._sandbox = sandbox
        self._path = path
        self._place = place
        self._changed = changed
        self._live = live
        self._lock = threading.Lock()
        self._found: set[str] = set()
        self._news = threading.Event()
        self._watch: FileWatch | None = None
        self.over = threading.Event()

    def start(self, context: Context) -> None:
        start_thread(context.copy(), self._follow, "file browser watch")
        start_thread(context.copy(), self._tell, "file browser news")

    def close(self) -> None:
        self.over.set()
        self._news.set()
        with self._lock:
            watch = self._watch
        if watch is not None:
            watch.close()

    def _follow(self) -> None:
        try:
            watch = self._sandbox.files.watch(self._path, recursive=True)
            with self._lock:
                self._watch = watch
            with watch:
                if self.over.is_set():
                    return
                self._live(True)
                for change in watch:
                    self._note(change.path, change.old_path, whole=change.type == "overflow")
        except SandboxError:
            pass  # forbidden, or the sandbox has ended: one refreshes by hand
        finally:
            if not self.over.is_set():
                self._live(False)
            self.over.set()
            self._news.set()

    def _note(self, path: str, old: str | None, *, whole: bool) -> None:
        with self._lock:
            if whole:
                self._found.add("*")
            else:
                self._found.update(self._parent(one) for one in (path, old) if one)
        self._news.set()

    def _parent(self, path: str) -> str:
        """The directory a path lies in, from ours on."""
        full = posixpath.normpath(posixpath.join(self._place, path))
        parent = posixpath.relpath(posixpath.dirname(full), self._place)
        return "" if parent == "." or parent.startswith("..") else parent

    def _tell(self) -> None:
        while not self.over.is_set():
            self._news.wait()
            self.over.wait(_PAUSE)  # what comes at once is told at once
            with self._lock:
                found, self._found = self._found, set()
                self._news.clear()
            if found and not self.over.is_set():
                self._changed([] if "*" in found or len(found) > _MANY else sorted(found))
