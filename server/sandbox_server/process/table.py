"""The process table of one server: what runs, what ran, whose it is, and how all of it ends."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from contextlib import suppress
from functools import partial

from ..messages import Peer, Refusal, quoted
from . import kernel
from .background import Background
from .children import PATIENCE, Child, Children, Confine
from .helper import Helper
from .pipes import Drains
from .run import Run
from .spawn import Launch
from .stopping import GRACE, destroy
from .supervisor import Supervisor

#: The most commands that may run in the background at once, whatever a policy says.
CEILING = 100
#: What is kept of a finished command, per owner: so long, so many, and so much output.
KEEP_SECONDS = 3600.0
KEEP_RECORDS = 256
KEEP_BYTES = 32 << 20
_LAST_WORDS = 1.0
_ID_LENGTH = 32
_PID = re.compile(r"-?[0-9]{1,18}")


class ProcessTable:
    """Thread-safe. One per server; `close` leaves no process behind."""

    def __init__(self, confine: Confine | None = None, *, open_files: int | None = None) -> None:
        self._children = Children(confine, open_files)
        self.supervisor = Supervisor()
        self._drains = Drains(self.supervisor)
        self._lock = threading.Lock()
        self._records: dict[str, Background] = {}  # oldest first
        self._running = 0  # slots: what runs, and what is about to
        self._closing = False

    def adopt_orphans(self) -> bool:
        """Let children of finished children come to this process; then `reap` must be called after every SIGCHLD."""
        return self._children.adopt_orphans()

    def reap(self) -> None:
        """Take in what has ended. Never blocks: safe in a signal handler."""
        self._children.reap()

    def spawn(self, launch: Launch) -> Child:
        """A child that the caller looks after, by `supervisor` where nobody waits for it; it ends with this table."""
        if self._closing:
            raise Refusal("busy", "the server is stopping")
        try:
            self.supervisor.start()  # first: a child that nobody can watch would be worse than none
        except RuntimeError:
            raise Refusal("busy", "out of threads; try again") from None
        return self._children.start(launch, os.urandom(_ID_LENGTH // 2).hex())

    def run(self, launch: Launch, peer: Peer, *, timeout: float) -> Run:
        """Start a command whose output `peer` waits for."""
        return Run(self.spawn(launch), peer, self.supervisor, self._drains, timeout=timeout)

    def help(self, launch: Launch, timeout: float) -> Helper:
        """Start a program of the server's own, with a standard input to talk to; it lives for at most so long."""
        return Helper(self.spawn(launch), self.supervisor, timeout)

    def start(
        self, launch: Launch, *, owner: str, command: str, capacity: int, limit: int, timeout: float | None
    ) -> Background:
        """Start a command in the background; at most `limit` of them run at once."""
        self._take_slot(min(limit, CEILING))
        try:
            child = self.spawn(launch)
        except BaseException:
            self._free_slot()
            raise
        record = Background(child, owner=owner, command=command, capacity=capacity)
        with self._lock:
            self._records[record.id] = record
        record.watch(self.supervisor, self._note_end)
        if timeout is not None:
            self.supervisor.after(timeout, lambda: self._expire(record))
        return record

    def records(self, owner: str) -> list[Background]:
        """What this owner has started and is still known, oldest first."""
        with self._lock:
            self._forget_old()
            return [record for record in self._records.values() if record.owner == owner]

    def find(self, key: str, owner: str) -> Background:
        """The owner's record with this id or pid. Of several with one pid the running one, else the latest."""
        own = self.records(owner)
        if _PID.fullmatch(key):
            matching = [record for record in own if record.pid == int(key)]
            matching.sort(key=lambda record: record.running)
        elif len(key) == _ID_LENGTH:
            matching = [record for record in own if record.id == key]
        else:
            raise Refusal("invalid_argument", f"{quoted(key, 64)} is neither a process id nor a number", field="pid")
        if not matching:
            raise Refusal("process_not_found", f"no process {quoted(key)} of yours; GET /process/list shows them")
        return matching[-1]

    def running(self) -> int:
        """How many commands run in the background."""
        return self._running

    def retire(self) -> None:
        """Start nothing more and begin to end what runs in the background. Never waits.

        Commands that somebody waits for may finish: `close` comes when that has taken long enough.
        """
        with self._lock:
            self._closing = True
            running = [record for record in self._records.values() if record.running]
        for record in running:
            if record.child.exit() is None:
                record.child.cause = "shutdown"
                with suppress(PermissionError):
                    record.child.signal(signal.SIGTERM)
                self.supervisor.after(GRACE, partial(self._end, record))

    def close(self, grace: float = GRACE) -> None:
        """End everything: SIGTERM, a grace, SIGKILL. Nothing that we started survives, however it hid."""
        with self._lock:
            self._closing = True
        self._terminate()
        self._until_gone(grace, None)
        self._until_gone(PATIENCE, signal.SIGKILL)
        deadline = time.monotonic() + _LAST_WORDS
        while self._children.uncollected() and time.monotonic() < deadline:
            time.sleep(0.005)  # whoever waits for a child is just learning of its end
        self.supervisor.close()
        self.reap()
        self._children.leave_orphans()

    def _terminate(self) -> None:
        sessions = set()
        for child in self._children.uncollected():
            sessions.add(child.pid)
            child.pinned = True
            if child.exit() is None:
                child.cause = "shutdown"
                with suppress(PermissionError):
                    child.signal(signal.SIGTERM)
        for line in self._children.left_behind():
            if line.session not in sessions:
                kernel.send(line, signal.SIGTERM)

    def _until_gone(self, seconds: float, number: int | None) -> None:
        """Wait until nothing of ours is left, at most so long; signal what is left each time."""
        deadline, pause = time.monotonic() + seconds, 0.001
        while (left := self._children.left_behind()) and time.monotonic() < deadline:
            for line in left if number else ():
                kernel.send(line, number or 0)
            time.sleep(pause)
            pause = min(pause * 2, 0.05)

    def _take_slot(self, limit: int) -> None:
        with self._lock:
            if self._running >= limit:
                raise Refusal("too_many_processes", f"{limit} processes run already; end one first", limit=limit)
            self._running += 1

    def _free_slot(self) -> None:
        with self._lock:
            self._running -= 1

    def _note_end(self, record: Background) -> None:
        self._free_slot()
        with self._lock:
            self._forget_old()

    def _expire(self, record: Background) -> None:
        if record.running:
            record.child.cause = "timeout"
            self._end(record)

    def _end(self, record: Background) -> None:
        if record.running:
            destroy(record.child, self.supervisor)

    def _forget_old(self) -> None:
        """Drop finished records that are too old, too many or too large; the latest stay. The lock is held."""
        now = time.time()
        counts: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for record in reversed(list(self._records.values())):
            if record.ended_at is None:
                continue
            owner = record.owner
            counts[owner] = counts.get(owner, 0) + 1
            sizes[owner] = sizes.get(owner, 0) + (record.ring.size if record.ring is not None else 0)
            if counts[owner] > KEEP_RECORDS or sizes[owner] > KEEP_BYTES or now - record.ended_at > KEEP_SECONDS:
                del self._records[record.id]
                self.supervisor.soon(partial(record.let_go, self._drains))
