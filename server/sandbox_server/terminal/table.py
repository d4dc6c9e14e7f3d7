"""The terminals of one server: whose they are, how many there may be, and what is known of those that have ended."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

from ..messages import Refusal, quoted
from ..process.spawn import Launch
from ..process.stopping import GRACE
from ..process.table import ProcessTable
from .session import Session, set_size

#: The most that may be open at once, whatever a policy says, and the most viewers of one.
CEILING = 10
MOST_VIEWERS = 32
#: What is kept of those that have ended by themselves: so long, and so many.
KEEP_SECONDS = 600.0
KEEP_SESSIONS = 16


class Terminals:
    """Thread-safe. One per server; the process table that starts the shells ends whatever is left of them."""

    def __init__(self, processes: ProcessTable) -> None:
        self.port: int | None = None  # of the door that is theirs alone, where there is one
        self._processes = processes
        self._lock = threading.Lock()
        self._sessions: dict[str, Session] = {}  # oldest first
        self._open = 0  # places: what is open, and what is about to be
        self._closing = False

    def open(
        self, launch: Launch, *, owner: str, size: tuple[int, int], limit: int | None, idle_seconds: float | None
    ) -> Session:
        """Start a shell on a terminal of its own; at most `limit` are open at once."""
        self._take_place(CEILING if limit is None else min(limit, CEILING))
        try:
            session = self._start(launch, owner, size, idle_seconds)
        except BaseException:
            self._free_place()
            raise
        with self._lock:
            self._sessions[session.id] = session
            late = self._closing
        session.watch(self._processes.supervisor, self._note_end)
        if late:
            session.hang_up("shutdown")
        return session

    def sessions(self, owner: str) -> list[Session]:
        """The open ones of this owner, oldest first."""
        with self._lock:
            self._forget_old()
            return [session for session in self._sessions.values() if session.owner == owner and session.alive]

    def find(self, id: str, owner: str) -> Session:
        """One of this owner, open or ended not long ago."""
        with self._lock:
            self._forget_old()
            session = self._sessions.get(id)
        if session is None or session.owner != owner:
            raise Refusal("session_not_found", f"no terminal {quoted(id, 64)} of yours; GET /pty/sessions lists them")
        return session

    def close(self, session: Session) -> None:
        """End it and forget it; returns when its shell is gone, or after a while."""
        with self._lock:
            self._sessions.pop(session.id, None)
        session.hang_up("closed")
        session.ended.wait(GRACE + 1)

    def count(self) -> int:
        """How many are open."""
        return self._open

    def retire(self) -> None:
        """Open nothing more and end what is open. Never waits."""
        with self._lock:
            self._closing = True
            sessions = [session for session in self._sessions.values() if session.alive]
        for session in sessions:
            session.hang_up("shutdown")

    def shut_down(self) -> None:
        """End everything and give the shells a moment; who does not go is left to the process table."""
        self.retire()
        deadline = time.monotonic() + GRACE
        for session in list(self._sessions.values()):
            session.ended.wait(max(0.0, deadline - time.monotonic()))

    def _start(self, launch: Launch, owner: str, size: tuple[int, int], idle_seconds: float | None) -> Session:
        try:
            ends = os.openpty()
        except OSError:
            raise Refusal("busy", "out of terminals or descriptors; close a terminal and try again") from None
        try:
            _prepare(ends, size)
            child = self._processes.spawn(launch._replace(terminal=ends[1]))
        except BaseException:
            for descriptor in ends:
                os.close(descriptor)
            raise
        return Session(child, ends, id=os.urandom(16).hex(), owner=owner, size=size, idle_seconds=idle_seconds)

    def _take_place(self, limit: int) -> None:
        with self._lock:
            if self._closing:
                raise Refusal("busy", "the server is stopping")
            if self._open >= limit:
                raise Refusal("too_many_sessions", f"{limit} terminals are open already; close one first", limit=limit)
            self._open += 1

    def _free_place(self) -> None:
        with self._lock:
            self._open -= 1

    def _note_end(self, session: Session) -> None:
        self._free_place()

    def _forget_old(self) -> None:
        """Drop ended ones that are too old or too many. The lock is held."""
        ended = [session for session in self._sessions.values() if session.ended_at is not None]
        oldest = time.time() - KEEP_SECONDS
        for number, session in enumerate(reversed(ended)):
            if number >= KEEP_SESSIONS or (session.ended_at or 0) < oldest:
                del self._sessions[session.id]


def _prepare(ends: tuple[int, int], size: tuple[int, int]) -> None:
    import termios  # with the first terminal

    master, slave = ends
    os.set_blocking(master, False)
    set_size(slave, *size)
    with suppress(termios.error):
        settings = termios.tcgetattr(slave)
        settings[0] |= _IUTF8  # backspace takes a character away, not a byte
        termios.tcsetattr(slave, termios.TCSANOW, settings)


_IUTF8 = 0x4000  # Linux; the module has no name for it
