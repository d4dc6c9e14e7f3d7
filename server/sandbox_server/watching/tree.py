"""One watched directory: where the kernel says to look, where only polling helps, and the changes found so far.

No thread belongs to it. Whoever reads the changes calls `advance` when `descriptor` is readable or `due` has come.
While nobody does, the kernel's queue keeps what happens.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from ..guards.below import Below
from . import inotify
from .inotify import Inotify
from .snapshot import Change, News, Snapshot, TooLarge, changes

#: Notices that come within so many seconds are told together.
TOGETHER = 0.05
#: Changes that are kept for readers who come back.
KEPT = 10_000
#: Reads of the kernel's queue before somebody else's turn comes.
_READS = 64
#: Somebody who holds the directory open, or renames one above it, keeps the kernel silent; so it is looked after.
_LOOK_AFTER = 5.0
#: Polling rests so many times as long as it works.
_REST = 10


class Tree:
    """Raises `OSError` when the directory cannot be opened, `TooLarge` when it holds more than is kept track of."""

    def __init__(self, below: Below, *, recursive: bool, renames: bool, interval: float) -> None:
        self.id = os.urandom(8).hex()
        self.ended: str | None = None  # why nothing comes any more: "removed", "too_large", "shutdown"
        self.last = 0  # number of the latest change
        self._below = below
        self._renames = renames
        self._interval = interval
        self._lock = threading.Lock()
        self._listeners: set[Callable[[], None]] = set()
        self._kept: deque[Change] = deque(maxlen=KEPT)
        self._dirty: dict[str, dict[str, bool] | None] = {}  # directory -> names to look at, None for all
        self._flush_at = self._poll_at = math.inf
        self._check_at = time.monotonic() + _LOOK_AFTER
        self._watches: dict[str, int] = {}
        self._paths: dict[int, str] = {}
        self._polled: set[str] = set()
        self._queue: Inotify | None = None
        self._snapshot = Snapshot(below, recursive, self)
        with suppress(OSError):  # no such system, or no more of them for this user: polling is left
            self._queue = Inotify()
        try:
            self._identity = self._look_at_top()
            self._snapshot.enter("")
        except BaseException:
            self.close()
            raise
        self.polls = bool(self._polled)  # whether the kernel does not tell, or not everywhere
        self._plan_poll(0.0)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Readable when there is something to do before `due`."""
        waiting = self._queue is not None and self._flush_at == math.inf  # else it can wait until then
        return (self._queue.fileno(),) if self._queue is not None and waiting else ()

    @property
    def due(self) -> float:
        return min(self._flush_at, self._poll_at, self._check_at)

    def hasten(self, interval: float) -> None:
        """Poll at least so often."""
        with self._lock:
            if interval < self._interval:
                self._interval = interval
                self._plan_poll(0.0)

    def listen(self, ring: Callable[[], None]) -> None:
        """`ring` is called when there is news that another reader has found, or `polls` is another than before."""
        with self._lock:
            self._listeners.add(ring)

    def deafen(self, ring: Callable[[], None]) -> None:
        with self._lock:
            self._listeners.discard(ring)
            if self._flush_at < math.inf:  # who leaves may be the only one that knows when to look
                for other in self._listeners:
                    other()

    def advance(self, *, at_once: bool = False) -> None:
        """Take in the kernel's notices and look where it is time to; everywhere noticed with `at_once`."""
        with self._lock:
            if self.ended is not None:
                return
            before = self.last, self.polls
            self._take_notices()
            now = time.monotonic()
            if now >= self._poll_at or (at_once and self._polled):
                polled = set(self._polled)
                self._dirty |= dict.fromkeys(polled)
                self._flush()
                self.polls = not polled.isdisjoint(self._polled)  # where a directory was only moved from, it is over
                self._plan_poll(time.monotonic() - now)
            elif self._dirty and (at_once or now >= self._flush_at):
                self._flush()
            if bool(self._polled) != (self._poll_at < math.inf):
                self._plan_poll(0.0)
            self.polls &= bool(self._polled)
            if self.ended is None and (at_once or now >= self._check_at):
                self._check_top()
            if (self.last, self.polls) != before or self.ended is not None:
                for ring in self._listeners:
                    ring()

    def since(self, number: int) -> tuple[int, list[Change]]:
        """The changes after the one of that number, as far as they are kept, and the number before the first."""
        with self._lock:
            count = min(self.last - number, len(self._kept))
            return self.last - count, list(self._kept)[-count:] if count else []

    def end(self, reason: str) -> None:
        """Nothing more is told, and every listener hears so."""
        with self._lock:
            self.ended = self.ended or reason
            for ring in self._listeners:
                ring()

    def close(self) -> None:
        """Give everything back to the kernel. Nobody waits for `descriptors` any more."""
        with self._lock:
            self.ended = self.ended or "closed"
            if self._queue is not None:
                self._queue.close()
                self._queue = None

    def entered(self, path: str, descriptor: int) -> None:
        """Have the kernel tell about a directory; where it cannot, it will be polled."""
        if self._queue is not None and self._queue.hears(descriptor):
            try:
                watch = self._queue.add(descriptor)
            except OSError:
                pass  # no more watches for this user
            else:
                self._assign(watch, path)
                return
        self._polled.add(path)

    def left(self, path: str) -> None:
        """Called for a directory that is there no longer, under this name at least."""
        self._polled.discard(path)
        watch = self._watches.pop(path, None)
        if watch is not None:
            self._paths.pop(watch, None)
            if self._queue is not None:
                self._queue.remove(watch)

    def _assign(self, watch: int, path: str) -> None:
        other = self._paths.get(watch)
        if other is not None and other != path:
            # One directory in two places: it was moved, and will be found gone there; or it is a bind mount.
            del self._watches[other]
            self._polled.add(other)
        self._paths[watch] = path
        self._watches[path] = watch

    def _take_notices(self) -> None:
        for _ in range(_READS):
            if self._queue is None or not (notices := self._queue.read()):
                break
            for notice in notices:
                if notice.mask & inotify.Q_OVERFLOW:
                    self._tell([Change("overflow", self._below.path, True)])
                    self._dirty |= dict.fromkeys(self._snapshot.directories)
                elif (path := self._paths.get(notice.watch)) is not None:
                    self._mark(path, notice)
        if self._dirty and self._flush_at == math.inf:
            self._flush_at = time.monotonic() + TOGETHER

    def _mark(self, path: str, notice: inotify.Notice) -> None:
        if not notice.name:  # the directory itself: moved, removed, unmounted
            if notice.mask & inotify.IGNORED:
                del self._paths[notice.watch]
                if self._watches.get(path) == notice.watch:
                    del self._watches[path]
                    self._snapshot.doubt(path)
            parent, _, name = path.rpartition("/")
            if path:
                self._touch(parent, name, False)
            elif notice.mask & inotify.IGNORED:
                self.ended = "removed"
            else:
                self._dirty.setdefault("", {})
            return
        self._touch(path, notice.name, bool(notice.mask & inotify.MODIFY))

    def _touch(self, path: str, name: str, written: bool) -> None:
        names = self._dirty.setdefault(path, {})
        if names is not None:
            names[name] = names.get(name, False) or written

    def _flush(self) -> None:
        dirty, self._dirty, self._flush_at = self._dirty, {}, math.inf
        news = News()
        if not self._check_top():
            return
        try:
            for path in sorted(dirty):
                self._snapshot.look(path, dirty[path], news)
        except TooLarge:
            self.ended = "too_large"
        self._tell(changes(news, self._below, self._renames))

    def _tell(self, found: list[Change]) -> None:
        self.last += len(found)
        self._kept.extend(found)

    def _plan_poll(self, took: float) -> None:
        pause = max(self._interval, took * _REST)
        self._poll_at = time.monotonic() + pause if self._polled else math.inf

    def _check_top(self) -> bool:
        """Whether the directory is still the one that was to be watched."""
        self._check_at = time.monotonic() + _LOOK_AFTER
        try:
            if self._look_at_top() == self._identity:
                return True
        except OSError:
            pass
        self.ended = "removed"
        return False

    def _look_at_top(self) -> tuple[int, int]:
        descriptor = self._below.open("")
        try:
            facts = os.fstat(descriptor)
            return facts.st_dev, facts.st_ino
        finally:
            os.close(descriptor)
