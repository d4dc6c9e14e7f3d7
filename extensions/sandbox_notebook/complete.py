"""Tab in a ``%sandbox`` line: a matcher of IPython's second generation.

Names that lie in the sandbox are asked for in the background and kept for 5 seconds; a Tab never waits for them
longer than 150 ms.
"""

from __future__ import annotations

import os
import posixpath
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher

from .config import SETTINGS
from .grammar import Mistake, Offers
from .session import Session
from .suggest import suggest
from .vocabulary import commands

if TYPE_CHECKING:
    from .magics import SandboxMagics

_LINE = re.compile(r"\s*(?:[\w.\[\]'\", ]+=\s*)?(?P<percent>%%?)sandbox[ \t]+(?P<rest>.*)$", re.DOTALL)
_KEPT = 5.0
_PATIENCE = 0.15


class _Nothing(list[SimpleCompletion]):
    """Nothing fits, and nobody else knows better: IPython heeds ``suppress`` only where it counts a completion."""

    def __len__(self) -> int:
        return 1


class SandboxMatcher:
    """Completes for one loaded extension."""

    def __init__(self, magics: SandboxMagics) -> None:
        self._magics = magics
        self._remote = Answers()

    def as_matcher(self) -> Any:
        def sandbox_matcher(context: CompletionContext) -> dict[str, Any]:
            return self._match(context)

        return context_matcher(identifier="sandbox_notebook", priority=100)(sandbox_matcher)

    def _match(self, context: CompletionContext) -> dict[str, Any]:
        line = context.text_until_cursor
        match = _LINE.match(line)
        cell = match is not None and match["percent"] == "%%"
        if match is None or (cell and context.cursor_line):
            return {"completions": []}
        found = suggest(match["rest"], self._offered, cell=cell)
        completions = [SimpleCompletion(text=word, type="magic") for word in found.words]
        if not completions and not found.foreign:
            completions = _Nothing()
        return {"completions": completions, "matched_fragment": found.fragment, "suppress": True}

    def _offered(self, offers: Offers, typed: str, sandbox: str) -> Iterable[str]:
        session: Session = self._magics.session
        match offers:
            case "sandbox":
                return session.entries
            case "command":
                return commands()
            case "setting":
                return SETTINGS
            case "variable":
                return self._magics.variables()
            case "local":
                return local_paths(typed)
            case "endpoint":
                from sandbox_sdk._contract import ENDPOINTS

                return ENDPOINTS
            case "environment":
                return sorted(os.environ)
        ask = _ASKED.get(offers)
        return self._asked(sandbox, posixpath.dirname(typed) if offers == "remote" else "", ask) if ask else ()

    def _asked(self, name: str, directory: str, ask: Callable[[Any, str], Sequence[str]]) -> Iterable[str]:
        try:
            entry = self._magics.session.find(name, self._magics.namespace)
        except Mistake:
            return ()
        return self._remote.get((entry.name, ask.__name__, directory), lambda: ask(entry, directory))


def local_paths(typed: str) -> list[str]:
    """What lies beside the path typed so far; directories end in a separator."""
    head, tail = os.path.split(typed)
    found = []
    try:
        with os.scandir(os.path.expanduser(head) or ".") as entries:
            for entry in entries:
                if entry.name.startswith(tail) and (tail.startswith(".") or not entry.name.startswith(".")):
                    found.append(os.path.join(head, entry.name) + (os.sep if entry.is_dir() else ""))
    except OSError:
        return []
    return sorted(found)


def remote_paths(entry: Any, directory: str) -> list[str]:
    found = entry.sandbox.files.list(directory or ".")
    return [posixpath.join(directory, one.name) + ("/" if one.is_dir else "") for one in found]


def processes(entry: Any, directory: str) -> list[str]:
    return [str(entry.number(process.id)) for process in entry.sandbox.process.list()]


def terminals(entry: Any, directory: str) -> list[str]:
    return [terminal.id for terminal in entry.sandbox.pty.list()]


_ASKED: dict[Offers, Callable[[Any, str], Sequence[str]]] = {
    "remote": remote_paths, "process": processes, "terminal": terminals,
}  # fmt: skip


class Answers:
    """Remembers answers for a while, and waits for new ones only a moment."""

    def __init__(self, kept: float = _KEPT, patience: float = _PATIENCE) -> None:
        self._kept = kept
        self._patience = patience
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, ...], tuple[float, Sequence[str]]] = {}
        self._asking: dict[tuple[str, ...], threading.Thread] = {}

    def get(self, key: tuple[str, ...], ask: Callable[[], Sequence[str]]) -> Sequence[str]:
        with self._lock:
            when, answer = self._answers.get(key, (float("-inf"), ()))
            if time.monotonic() - when < self._kept:
                return answer
            thread = self._asking.get(key)
            if thread is None:
                thread = threading.Thread(target=self._ask, args=(key, ask), name="sandbox-complete", daemon=True)
                self._asking[key] = thread
                thread.start()
        thread.join(self._patience)
        with self._lock:
            return self._answers.get(key, (0.0, ()))[1]

    def _ask(self, key: tuple[str, ...], ask: Callable[[], Sequence[str]]) -> None:
        try:
            answer = ask()
        except Exception:  # a Tab has no place to show an error; the command itself will
            answer = ()
        with self._lock:
            self._answers[key] = (time.monotonic(), answer)
            self._asking.pop(key, None)
