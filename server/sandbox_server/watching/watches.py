"""Every watch of one server: shared by those who watch the same, kept a while for those who come back."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..access import PathRule
from ..guards.below import Below
from ..messages import Refusal
from ..process.wake import Wake

if TYPE_CHECKING:
    from .snapshot import Change
    from .tree import Tree

#: How long a watch lives on after its last reader, in seconds.
LINGER = 60.0
#: Directories under watch at once, and of those without a reader.
MOST_TREES, MOST_LINGERING = 64, 16


class Subject(NamedTuple):
    """What makes two watches the same one."""

    rule: PathRule
    path: str
    recursive: bool
    renames: bool


class Reader:
    """One reader of a watch. `close` it once or more often."""

    def __init__(self, tree: Tree, cursor: str, leave: Callable[[], None]) -> None:
        number = _number(cursor, tree)
        self._tree = tree
        self._position = tree.last if number is None else number
        self._lost = bool(cursor) and number is None
        self._leave = leave
        self._wake = Wake()
        self._closed = False
        tree.listen(self._wake.set)

    @property
    def polls(self) -> bool:
        return self._tree.polls

    @property
    def ended(self) -> str | None:
        """Why nothing comes any more; what came before has to be read first."""
        return self._tree.ended

    @property
    def cursor(self) -> str:
        """Where this reader stands."""
        return self._cursor(self._position)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Readable when `read` may have something to answer."""
        return (self._wake.fileno(), *self._tree.descriptors)

    @property
    def due(self) -> float:
        """When to `read` at the latest."""
        return self._tree.due

    def read(self) -> tuple[str | None, list[tuple[Change, str]]]:
        """The changes since the last call, each with the cursor behind it; first where a gap ends, if some are lost."""
        self._wake.clear()
        self._tree.advance()
        first, found = self._tree.since(self._position)
        lost, self._lost = self._lost or first > self._position, False
        self._position = first + len(found)
        gap = self._cursor(first) if lost else None
        return gap, [(change, self._cursor(number)) for number, change in enumerate(found, first + 1)]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._tree.deafen(self._wake.set)
            self._leave()
            self._wake.close()

    def _cursor(self, number: int) -> str:
        return f"{self._tree.id}-{number}"


class _Shared:
    """One tree and how many read it."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.readers = 1
        self.idle_since = math.inf


class Watches:
    """Thread-safe. One per server."""

    def __init__(self, linger: float = LINGER) -> None:
        self._linger = linger
        self._lock = threading.Lock()
        self._shared: dict[Subject, _Shared] = {}
        self._timer: threading.Timer | None = None
        self._closing = False

    def attach(self, subject: Subject, below: Below, *, interval: float, cursor: str) -> Reader:
        """A reader of changes from now on, or from `cursor` on. Raises what planting a `Tree` raises."""
        while True:
            shared = self._join(subject) or self._plant(subject, below, interval)
            try:
                shared.tree.hasten(interval)
                shared.tree.advance(at_once=True)  # whoever begins now hears nothing of what was before
                if shared.tree.ended is None or self._closing:
                    return Reader(shared.tree, cursor, partial(self._leave, subject, shared))
            except BaseException:
                self._leave(subject, shared)
                raise
            self._leave(subject, shared)  # the directory was removed, and perhaps made again

    def retire(self) -> None:
        """Begin no more, and let those who read know that it is over."""
        with self._lock:
            self._closing = True
            shared = list(self._shared.values())
        for one in shared:
            one.tree.end("shutdown")

    def close(self) -> None:
        with self._lock:
            self._closing = True
            if self._timer is not None:
                self._timer.cancel()
            shared, self._shared = list(self._shared.values()), {}
        for one in shared:
            one.tree.close()

    def _join(self, subject: Subject) -> _Shared | None:
        with self._lock:
            shared = self._shared.get(subject)
            if shared is None or shared.tree.ended is not None:
                return None
            shared.readers += 1
            shared.idle_since = math.inf
            return shared

    def _plant(self, subject: Subject, below: Below, interval: float) -> _Shared:
        from .tree import Tree  # not needed to start a server

        tree = Tree(below, recursive=subject.recursive, renames=subject.renames, interval=interval)
        dropped: list[Tree] = []
        try:
            with self._lock:
                shared = self._shared.get(subject)
                if shared is not None and shared.tree.ended is None:  # somebody else was quicker
                    dropped.append(tree)
                    shared.readers += 1
                    shared.idle_since = math.inf
                    return shared
                if self._closing or (len(self._shared) >= MOST_TREES and not (dropped := self._idle(1))):
                    dropped = [tree]
                    raise Refusal("busy", f"{MOST_TREES} directories are watched already; try again later")
                shared = self._shared[subject] = _Shared(tree)
                return shared
        finally:
            for one in dropped:
                one.close()

    def _leave(self, subject: Subject, shared: _Shared) -> None:
        dropped: list[Tree] = []
        with self._lock:
            shared.readers -= 1
            if not shared.readers:
                shared.idle_since = time.monotonic()
                if shared.tree.ended is not None or self._closing:
                    dropped.append(shared.tree)
                    if self._shared.get(subject) is shared:
                        del self._shared[subject]
                lingering = sum(one.readers == 0 for one in self._shared.values())
                dropped += self._idle(lingering - MOST_LINGERING)
                dropped += self._plan()
        for tree in dropped:
            tree.close()

    def _idle(self, count: int) -> list[Tree]:
        """Take out so many of the trees that nobody reads, the longest idle first. The lock is held."""
        idle = sorted((one.idle_since, subject) for subject, one in self._shared.items() if one.readers == 0)
        return [self._shared.pop(subject).tree for _, subject in idle[: max(0, count)]]

    def _plan(self) -> list[Tree]:
        """See to it that what lingers ends in time; what has to end now. The lock is held."""
        first = min((one.idle_since for one in self._shared.values()), default=math.inf)
        if self._timer is not None or self._closing or first == math.inf:
            return []
        self._timer = threading.Timer(max(0.0, first + self._linger - time.monotonic()), self._expire)
        self._timer.daemon = True
        try:
            self._timer.start()
        except RuntimeError:  # no more threads
            self._timer = None
            return self._idle(len(self._shared))
        return []

    def _expire(self) -> None:
        now = time.monotonic()
        with self._lock:
            self._timer = None
            expired = self._idle(sum(now >= one.idle_since + self._linger for one in self._shared.values()))
            expired += self._plan()
        for tree in expired:
            tree.close()


def _number(cursor: str, tree: Tree) -> int | None:
    """Which change of this tree a cursor stands behind; None when it is of another, or of none."""
    id, _, number = cursor.partition("-")
    if id != tree.id or not (number.isascii() and number.isdigit() and len(number) < 16) or int(number) > tree.last:
        return None
    return int(number)
