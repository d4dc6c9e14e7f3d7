"""Threads that the kernel keeps inside a path scope, and on which the children of that scope are started.

Landlock binds a thread and whatever it starts, never the whole process. So each distinct scope has a few threads of its
own, restricted once, and starting a child there costs what it costs anywhere. All threads of a scope descend from one
that restricted itself, so they share one domain: children of one scope may signal each other, and nobody else.

Children only. What the server itself does with paths goes through the path door, which follows no link and can be
raced by nobody; and it must reach directories of several rules in one call.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from . import confine
from .access import Scope
from .guards.tree import remove_entry
from .messages import Refusal

log = logging.getLogger("sandbox_server")

THREADS = 2
#: Files that the kernel keeps for real: before this version anything outside could still be cut to nothing.
COMPLETE_ABI = 3

_Job = Callable[[], None]


class Confinement:
    """The pools of one server.

    `programs` are directories like those of PATH. `scratch` are directories where all children may write; without them
    each scope has a temporary directory of its own. Terminals and shared memory, in which children would meet each
    other and whatever else runs on this machine, are open only where they are among those.
    """

    def __init__(self, *, programs: Iterable[str] = (), scratch: Iterable[str] = ()) -> None:
        self._programs = tuple(programs)
        self._scratch = tuple(scratch)
        self._lock = threading.Lock()
        self._pools: dict[Scope, _Pool] = {}
        self._closed = False

    @cached_property
    def available(self) -> bool:
        """Whether the kernel keeps a whole path rule; asked by whoever has one, since it costs part of a start."""
        return _works()

    def run(self, scope: Scope, work: Callable[[], Any]) -> Any:
        """What `work` answers or raises on a thread of this scope. Never runs it unconfined."""
        return self._pool(scope).run(work)

    def temporary(self, scope: Scope) -> str | None:
        """The directory for temporary files of this scope's children, which nobody else's can reach."""
        return self._pool(scope).temporary if self.available else None

    def close(self) -> None:
        """End the threads and remove temporary files. No child of theirs runs any more."""
        with self._lock:
            self._closed = True
            pools = list(self._pools.values())
            self._pools.clear()
        for pool in pools:
            pool.close()

    def _pool(self, scope: Scope) -> _Pool:
        with self._lock:
            if self._closed:
                raise Refusal("busy", "the server is stopping")
            pool = self._pools.get(scope)
            if pool is not None and pool.stands_for == _objects(scope):
                return pool
            # The first child of this scope; or a directory has been made since, and the old rules do not know it.
            try:
                new = self._pools[scope] = self._new_pool(scope)
            except (OSError, RuntimeError) as error:
                log.warning("no child can be confined now: %s", error)
                raise Refusal("busy", "the kernel confines no program now; try again") from None
        if pool is not None:
            pool.close()
        return new

    def _new_pool(self, scope: Scope) -> _Pool:
        temporary = None if self._scratch else _make_temporary()
        places = self._scratch if temporary is None else (temporary,)
        # A program's directory is the "bin" of a prefix, which also holds its libraries.
        prefixes = {os.path.dirname(place.rstrip("/")) for place in self._programs if place.endswith("/bin")}
        programs = (*self._programs, *(path for prefix in prefixes for path in confine.installed(prefix)))
        return _Pool(
            scope,
            temporary,
            read_write=[*places, *([] if scope.read_only else scope.directories)],
            read_execute=scope.directories if scope.read_only else (),
            optional=(*confine.interpreter(), *confine.SYSTEM, *confine.SYSTEM_FILES, *programs),
            devices=confine.PRIVATE_DEVICES,
        )


class _Pool:
    """The threads of one scope. They wait in a queue and hold nothing meanwhile."""

    def __init__(self, scope: Scope, temporary: str | None, **reach: Any) -> None:
        self.stands_for = _objects(scope)
        self.temporary = temporary
        self._lock = threading.Lock()
        self._closed = False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        ready: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        try:
            ruleset = confine.Ruleset(**reach)
            try:
                self._thread(lambda: self._begin(ruleset, ready))
                if (failure := ready.get()) is not None:
                    raise failure
            finally:
                ruleset.close()
        except BaseException:
            self._remove_temporary()
            raise

    def run(self, work: Callable[[], Any]) -> Any:
        done: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

        def job() -> None:
            try:
                done.put((work(), None))
            except BaseException as error:
                done.put((None, error))

        with self._lock:  # whoever ends the threads lets no job come after that
            if self._closed:
                raise Refusal("busy", "the directories of this rule were exchanged; try again")
            self._jobs.put(job)
        answer, failure = done.get()
        if failure is not None:
            raise failure
        return answer

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for _ in range(THREADS):
                self._jobs.put(None)
        self._remove_temporary()

    def _begin(self, ruleset: confine.Ruleset, ready: queue.SimpleQueue[BaseException | None]) -> None:
        """The first thread: restrict it, then let it start the others, which inherit that."""
        try:
            ruleset.enforce()
            confine.drop_powers()
            for _ in range(THREADS - 1):
                self._thread(self._work)
        except BaseException as error:
            for _ in range(THREADS):
                self._jobs.put(None)
            ready.put(error)
            return
        ready.put(None)
        self._work()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # it holds the answer, and whatever the work held

    @staticmethod
    def _thread(target: Callable[[], None]) -> None:
        threading.Thread(target=target, name="confined", daemon=True).start()

    def _remove_temporary(self) -> None:
        if self.temporary is None:
            return
        parent, _, name = self.temporary.rpartition("/")
        with contextlib.suppress(OSError, Refusal):
            directory = os.open(parent, os.O_PATH | os.O_DIRECTORY)
            try:
                remove_entry(directory, name)
            finally:
                os.close(directory)


def _objects(scope: Scope) -> tuple[tuple[int, int], ...]:
    """Which directories the descriptors of a scope stand for at this moment."""
    return tuple((found.st_dev, found.st_ino) for found in map(os.fstat, scope.directories))


def _make_temporary() -> str | None:
    import tempfile  # costs a good part of a start

    try:
        return tempfile.mkdtemp(prefix="nsb-")
    except OSError:  # nowhere to write: the children can do without
        return None


def _works() -> bool:
    """Whether this kernel keeps whole path rules; a strict container may forbid the calls."""
    try:
        confine.Ruleset(devices=()).close()
        return confine.version() >= COMPLETE_ABI
    except OSError:
        return False
