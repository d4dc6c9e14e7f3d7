"""The door to the file system: an untrusted path becomes a judged `Location`, or a refusal.

Nothing else in the server turns a caller's text into a place.
"""

from __future__ import annotations

import os
from contextlib import suppress
from threading import Lock

from ..access import PathRule
from ..messages import Refusal
from .door import Door
from .location import Location
from .openat2 import OpenAt2
from .parts import is_part
from .path_guard import PathGuard, normalised
from .replace import Replacement
from .root import Root
from .tree import each_directory, remove_stale_part
from .turns import Turns

__all__ = ["Location", "PathGuard", "PathGuards", "Replacement"]


class _Enough(Exception):
    """The sweep has seen as much as it may."""


class PathGuards:
    """One guard per path rule, over directories that are opened once."""

    def __init__(self, base_dir: str) -> None:
        openat2 = OpenAt2()
        top = os.open("/", os.O_PATH | os.O_DIRECTORY)
        try:
            self._door = Door(openat2 if openat2.works(top) else None)
        finally:
            os.close(top)
        self._turns = Turns()
        self._lock = Lock()
        self._sweeping = Lock()
        self._closing = False
        self._roots: dict[str, Root] = {}
        self._guards: dict[PathRule, PathGuard] = {}
        self._base = self._root(base_dir)

    def of(self, rule: PathRule) -> PathGuard:
        guard = self._guards.get(rule)
        if guard is None:
            with self._lock:
                guard = self._guards.setdefault(rule, PathGuard(rule, self._roots_of(rule), self._door, self._turns))
        return guard

    def close(self) -> None:
        """Let go of every directory; a sweep that is under way ends first."""
        self._closing = True
        with self._sweeping:
            for root in self._roots.values():
                root.close()

    def sweep(self, most_entries: int = 100_000) -> int:
        """Remove parts that no living process writes, below every directory known so far; how many there were.

        Not below ``/``, which would be a walk through the whole machine.
        """
        seen = removed = 0

        def look(descriptor: int, path: str, names: list[str]) -> None:
            nonlocal seen, removed
            seen += len(names)
            removed += sum(remove_stale_part(descriptor, name) for name in names if is_part(name))
            if seen > most_entries or self._closing:
                raise _Enough

        with self._sweeping:
            for root in [root for path, root in self._roots.items() if path != "/" and not self._closing]:
                with suppress(_Enough, OSError, Refusal):
                    each_directory(root.fd, ".", root.resolved, look, skip_unreadable=True)
        return removed

    def _roots_of(self, rule: PathRule) -> list[Root]:
        """The directories that every list of the rule agrees on: the narrower one of each nested pair."""
        roots = [self._base] if rule.allow is None else [self._root(path) for path in rule.allow]
        for narrower in rule.within:
            others = [self._root(path) for path in narrower]
            roots = [both for root in roots for other in others if (both := _common(root, other)) is not None]
        return list(dict.fromkeys(roots))

    def _root(self, path: str) -> Root:
        # A trailing "/**" says what every directory here means anyway: all below it.
        name = normalised("/" + path.removesuffix("/**"))
        root = self._roots.get(name)
        if root is None:
            root = self._roots[name] = Root(name, self._door)
        return root


def _common(one: Root, other: Root) -> Root | None:
    if one.resolved == other.resolved or one.resolved.startswith(other.prefix):
        return one
    return other if other.resolved.startswith(one.prefix) else None
