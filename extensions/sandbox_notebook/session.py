"""The sandboxes of one kernel: which there are, which is current, and what was put where."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from .args import quote
from .grammar import Mistake, nearest

if TYPE_CHECKING:
    from sandbox_sdk import CodeContext, Sandbox

DEFAULT_NAME = "local"
_SLACK = timedelta(milliseconds=1)


@dataclass(slots=True)
class Entry:
    """One sandbox, and what this kernel remembers about it."""

    name: str
    sandbox: Sandbox
    options: dict[str, object] = field(default_factory=dict)
    _uploads: dict[str, tuple[int, datetime | None]] = field(default_factory=dict)
    """Remote path → size and time of the file as an upload of ours left it."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Process id → the number under which people know it."""
    titles: dict[str, str] = field(default_factory=dict)
    """Process id → what to call it, where the command line says little."""
    context: CodeContext | None = None
    """Where the code of this notebook keeps its variables."""
    again: str = ""
    """The subcommand that brings it, or another one, when it has ended."""

    def __post_init__(self) -> None:
        self.again = self.again or ("start" if self.name == DEFAULT_NAME else f"start --name {quote(self.name)}")

    def number(self, process_id: str) -> int:
        return self.numbers.setdefault(process_id, len(self.numbers) + 1)

    def relative(self, path: str) -> str:
        """A path in the sandbox as people type it: from the directory where commands run."""
        root = self.sandbox.root.rstrip("/") + "/"
        return path.removeprefix(root) if path != root.rstrip("/") else "."

    def remember(self, path: str, size: int, when: datetime | None) -> None:
        self._uploads[self._full(path)] = size, when

    def uploaded(self, path: str) -> bool:
        """Did an upload of ours put this there?"""
        return self._full(path) in self._uploads

    def unchanged(self, path: str, size: int, when: datetime | None) -> bool:
        """Is it still as an upload of ours left it? Times travel as text and as numbers, so a moment's slack."""
        known = self._uploads.get(self._full(path))
        if known is None or known[1] is None or when is None:
            return False
        return known[0] == size and abs(known[1] - when) < _SLACK

    def _full(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.sandbox.root, path))


@dataclass(slots=True)
class Session:
    entries: dict[str, Entry] = field(default_factory=dict)
    current: str = ""
    downloaded: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Local path → size and time of the file as a download of ours left it."""
    label: str = field(default_factory=lambda: f"notebook-{os.urandom(4).hex()}")
    """Tells the code contexts of this notebook from those of others."""

    def add(self, entry: Entry) -> None:
        self.entries[entry.name] = entry
        self.current = entry.name

    def forget(self, name: str) -> None:
        self.entries.pop(name, None)
        if self.current == name:
            self.current = next(reversed(self.entries), "")

    def find(self, name: str, namespace: Mapping[str, object]) -> Entry:
        """By name, else the current one; a variable that holds a `Sandbox` counts as a name, and so does a kept one."""
        if name in self.entries:
            return self.entries[name]
        if name:
            return self._adopted(name, namespace)
        if self.current:
            return self.entries[self.current]
        raise Mistake("no sandbox is running in this kernel", "%sandbox start")

    def _adopted(self, name: str, namespace: Mapping[str, object]) -> Entry:
        from sandbox_sdk import Sandbox

        value = namespace.get(name)
        if isinstance(value, Sandbox):
            entry = self.entries[name] = Entry(name, value)
            return entry
        if any(one.name == name and one.kept and one.running for one in Sandbox.list_local()):
            entry = self.entries[name] = Entry(name, Sandbox.attach(name))
            return entry
        near = nearest(name, self.entries)
        hint = f'did you mean "{near}"?' if near else "%sandbox list" if self.entries else "%sandbox start"
        raise Mistake(f'no sandbox is called "{name}"', hint)
