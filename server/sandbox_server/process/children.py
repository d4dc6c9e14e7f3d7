"""Everything this server has started, and the one lock under which children are signalled and reaped.

A child stays a zombie until it is *collected*; so long its pid, process group and session mean this child and nothing
else, and the group may be signalled. Collecting and signalling exclude each other, so a recycled pid is never hit.
After that, what the child left behind is known by two marks, and signalled one by one: a variable in its environment,
and a limit that no ordinary program changes.

Where orphans are adopted (`Children.adopt_orphans`) they have to be reaped too. `reap` does that, and leaves alone what
is not ours: an orphan lives in a session that we made, a helper that the server runs for itself in the server's own.
"""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

from ..access import Scope
from ..messages import Refusal
from . import kernel
from .exits import Exit, exit_descriptor, status_of
from .spawn import Launch, Pipes, spawn

#: How long `Child.kill` waits for the killed to be gone. Only a process stuck in the kernel takes that long.
PATIENCE = 5.0


class Child:
    """One command: the leader of its own session, and whatever descends from it."""

    def __init__(self, children: Children, pid: int, pipes: Pipes, id: str, stamp: int) -> None:
        self.id = id
        self.pid = pid
        self.pipes = pipes
        self.started_at = time.time()
        self.exit_descriptor = -1  # readable once the leader has ended
        self.cause = "exit"  # of its end: "timeout", "output_limit" or "shutdown" when we brought it about
        self.pinned = False  # its end is being brought about: not to be collected by `Children.reap`
        self.collected = False
        self._children = children
        self._stamp = stamp
        self._exit: Exit | None = None
        self._seen: set[tuple[int, int]] = set()  # (pid, start time) of members, who may lose all other signs

    def exit(self) -> Exit | None:
        """How the leader ended; None while it runs."""
        with self._children.guarded():
            return self._peek()

    def signal(self, number: int) -> bool:
        """Signal the group, or what is left of the family once the leader has ended; False when nobody is left."""
        with self._children.guarded():
            if self._peek() is None:
                os.killpg(self.pid, number)
                return True
            self.pinned = True
        family = self.family()
        for member in family:
            kernel.send(member, number)
        return bool(family)

    def strike(self, census: kernel.Census | None = None) -> bool:
        """SIGKILL to the whole family, once; True while somebody of it is left."""
        self.pinned = True
        family = self.family(census)  # before the kill: the orphans of the killed are harder to recognise
        with self._children.guarded():
            if not self.collected:
                with suppress(PermissionError):  # of a program that changed its user
                    os.killpg(self.pid, signal.SIGKILL)
        for member in family:
            kernel.send(member, signal.SIGKILL)
        return bool(family)

    def kill(self) -> bool:
        """SIGKILL until nobody is left; False if somebody outlives our patience."""
        deadline, pause = time.monotonic() + PATIENCE, 0.001
        while self.strike():
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)  # the dying need a moment; a fork bomb needs several rounds
            pause = min(pause * 2, 0.05)
        return True

    def wait(self, seconds: float) -> Exit | None:
        """How the leader ended, waiting up to `seconds` for it."""
        poll = select.poll()
        poll.register(self.exit_descriptor, select.POLLIN)
        poll.poll(max(0, int(seconds * 1000)))
        return self.exit()

    def family(self, census: kernel.Census | None = None) -> list[kernel.Stat]:
        """The living: of its group and session, with its marks, seen before, and all descendants of those."""
        census = census or kernel.Census()
        pid = -1 if self.collected else self.pid
        marker = self.id.encode()
        fosterers = (os.getpid(), os.getppid(), 1)  # orphans come to one of these; who is no orphan descends from one
        own = self._children.session  # nobody comes back into it; a helper started beside the command has its mark, too
        found = {
            line.pid
            for line in census.table.values()
            if pid in (line.session, line.group) or (line.pid, line.started) in self._seen
            or census.marked(line.pid, marker)
            or (line.parent in fosterers and line.session != own and census.stamped(line.pid, self._stamp))
        }  # fmt: skip
        family = kernel.with_descendants(found, census.table)
        self._seen.update((member.pid, member.started) for member in family)
        return family

    def release(self) -> None:
        """Collect the exit status and close the descriptor. The leader has ended."""
        with self._children.guarded():
            self.collect()
            descriptor, self.exit_descriptor = self.exit_descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def discard(self) -> None:
        """Close the pipes and release; for a child that nobody reads."""
        for descriptor in (self.pipes.stdin, self.pipes.stdout, self.pipes.stderr):
            if descriptor >= 0:
                os.close(descriptor)
        self.release()

    def collect(self) -> None:
        """Reap the leader and keep its status. The lock is held, the leader has ended."""
        if not self.collected:
            self._peek()
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG)
            self.collected = True
            self._children.forget(self)

    def _peek(self) -> Exit | None:
        if self._exit is None:
            self._exit = status_of(self.pid)
        return self._exit


#: Does the work on a thread that the kernel keeps inside the scope.
Confine = Callable[[Scope, Callable[[], tuple[int, Pipes]]], tuple[int, Pipes]]


class Children:
    """The registry. `mark` sets its children apart from those of any other server.

    A launch with a scope is started through `confine`; every other one on the thread of whoever calls.
    """

    def __init__(self, confine: Confine | None = None, open_files: int | None = None) -> None:
        self._confine = confine
        self._open_files = open_files  # the soft limit of children, where it is not the server's
        self.mark = os.urandom(8).hex()
        self._above = os.environ.get(kernel.MARKER, "")  # where this server is itself a command of another
        self._lock = threading.Lock()
        self._guard = _Guard(self._lock.acquire, self._leave)
        self._own: dict[int, Child] = {}
        self._starting = 0  # forked perhaps, but not registered yet
        self._adopting = False
        self._again = False  # a `reap` found the lock taken
        self._blocked = False  # a `reap` found a child that it had to leave
        self.session = os.getsid(0)

    def start(self, launch: Launch, id: str) -> Child:
        """A running child that is registered; `Refusal` when it cannot be started."""
        marker = f"{self._above} {self.mark}.{id}".lstrip()
        child = None
        with self.guarded():
            self._starting += 1
        try:
            stamp = 1 << 61 | int.from_bytes(os.urandom(7), "big")  # unlike that of any other command
            with kernel.stamping(stamp):
                pid, pipes = self._spawn(launch, {kernel.MARKER: marker})
            if self._open_files is not None:
                kernel.limit_open_files(pid, self._open_files)
            child = Child(self, pid, pipes, id, stamp)
            # Before it is registered: from then on `reap` may collect it, and its pid means nothing any more.
            with suppress(OSError):
                child.exit_descriptor = exit_descriptor(pid)
        finally:
            with self.guarded():
                self._starting -= 1
                if child is not None:
                    self._own[child.pid] = child
        if child.exit_descriptor < 0:
            child.kill()
            child.discard()
            raise Refusal("busy", "out of file descriptors; try again")
        return child

    def _spawn(self, launch: Launch, extra: Mapping[str, str]) -> tuple[int, Pipes]:
        if launch.scope is None:
            return spawn(launch, extra)
        if self._confine is None:
            raise Refusal("forbidden", "this server cannot keep a program inside the path rule that holds here")
        return self._confine(launch.scope, lambda: spawn(launch, extra))

    def uncollected(self) -> list[Child]:
        with self._lock:
            return list(self._own.values())

    def forget(self, child: Child) -> None:
        """Called with the lock held, in the same breath as the reaping: the pid is free from here on."""
        self._own.pop(child.pid, None)

    def left_behind(self) -> list[kernel.Stat]:
        """Everything alive that descends from a child of ours, as far as that can be known."""
        census = kernel.Census()
        table, own = census.table, os.getpid()
        mark = self.mark.encode()
        adopted = {p for p, s in table.items() if self._adopting and s.parent == own and s.session != self.session}
        return kernel.with_descendants(adopted | {p for p in table if census.marked(p, mark)}, table)

    def adopt_orphans(self) -> bool:
        """From now on orphans come to this process, and `reap` must be called after every SIGCHLD."""
        self._adopting = kernel.adopt_orphans()
        return self._adopting

    def leave_orphans(self) -> None:
        """From now on they go where they always went."""
        if self._adopting:
            self._adopting = False
            kernel.adopt_orphans(False)

    def reap(self) -> None:
        """Take in what has ended. Never blocks: safe in a signal handler, whatever was interrupted."""
        if not self._adopting:
            return
        self._again = True
        while self._again and self._lock.acquire(blocking=False):
            try:
                self._again = False
                self._blocked = self._starting > 0 or not self._reaped_all()
            finally:
                self._lock.release()

    def guarded(self) -> _Guard:
        """The lock; whoever lets go of it does the reaping that was called for meanwhile."""
        return self._guard

    def _leave(self) -> None:
        self._lock.release()
        if self._again or self._blocked:
            self.reap()

    def _reaped_all(self) -> bool:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return True
            if ended is None:
                return True
            child = self._own.get(ended.si_pid)
            if child is not None and child.pinned:
                return False
            if child is not None:
                child.collect()
            else:
                # Whoever runs the server in a program of its own has children of its own, and may just take one in.
                with suppress(ProcessLookupError, ChildProcessError):
                    if os.getsid(ended.si_pid) == self.session:
                        return self._reaped_behind()
                    os.waitid(os.P_PID, ended.si_pid, os.WEXITED | os.WNOHANG)

    def _reaped_behind(self) -> bool:
        """The orphans, where a child that is not ours stands first, and the kernel names no other one."""
        for line in kernel.processes():
            if line.dead and line.parent == os.getpid() and line.session != self.session and line.pid not in self._own:
                with suppress(ChildProcessError):
                    os.waitid(os.P_PID, line.pid, os.WEXITED | os.WNOHANG)
        return True


class _Guard:
    """A context manager that costs little: every command passes it several times."""

    __slots__ = ("_enter", "_leave")

    def __init__(self, enter: Callable[[], object], leave: Callable[[], None]) -> None:
        self._enter = enter
        self._leave = leave

    def __enter__(self) -> None:
        self._enter()

    def __exit__(self, *error: object) -> None:
        self._leave()
