"""One terminal: a shell on a pseudo-terminal that is always read, whoever looks.

The pump is the supervisor's thread: it moves output into the replay buffer and notes the end. Viewers read from that
buffer at their own pace, each on a thread of its own, and write straight into the terminal.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from ..process import kernel
from ..process.children import Child
from ..process.exits import Exit
from ..process.stopping import GRACE, destroy
from ..process.supervisor import Supervisor
from .replay import Replay

#: What is kept of the output, for whoever comes later.
REPLAY_BYTES = 256 << 10
#: A shell that writes faster than its fastest viewer reads waits for that one, as long as it reads so many bytes in so
#: many seconds. A slower one misses something, and is told.
_PATIENCE = 0.5
_PACE_BYTES = REPLAY_BYTES // 4
_LAG_BYTES = REPLAY_BYTES // 2
_READ_BYTES = 1 << 16
#: What is still read once the shell has ended, should something that it left behind go on writing.
_LAST_BYTES = 1 << 20
_LEAST, _MOST = 1, 1000


class Viewer(Protocol):
    """Who looks at a terminal. Called from any thread; nothing here waits."""

    @property
    def position(self) -> int:
        """The offset that it has read up to."""

    def rouse(self) -> None:
        """There is something to see."""

    def dismiss(self, code: int, reason: str) -> None:
        """Go: a WebSocket close code, and why."""


def is_size(*numbers: object) -> bool:
    """Whether a terminal can have so many columns or rows."""
    return all(type(number) is int and _LEAST <= number <= _MOST for number in numbers)


class Session:
    """Safe from any thread. It ends with its shell; `hang_up` brings that about."""

    def __init__(
        self,
        child: Child,
        ends: tuple[int, int],
        *,
        id: str,
        owner: str,
        size: tuple[int, int],
        idle_seconds: float | None,
    ) -> None:
        self.id = id
        self.owner = owner
        self.pid = child.pid
        self.child = child
        self.created_at = child.started_at
        self.ended_at: float | None = None
        self.exit: Exit | None = None  # set after the last output is in the buffer
        self.reason = ""  # why we ended it; "" when it did by itself
        self.replay = Replay(REPLAY_BYTES)
        self.ended = threading.Event()
        self.cols, self.rows = size
        self._master, self._slave = ends  # the other end stays open here too, so that reading never fails
        self._idle_seconds = idle_seconds
        self._used = time.monotonic()
        self._viewers: list[Viewer] = []
        self._lock = threading.RLock()
        self._waits_until = 0.0  # the pump has paused for the fastest viewer
        self._waits_from = 0  # where that one was
        self._hurried = False  # it was too slow, and is not waited for until it has caught up

    def watch(self, supervisor: Supervisor, ended: Callable[[Session], None]) -> None:
        """Hand over to the supervisor; `ended` is called on its thread, once."""
        self._supervisor = supervisor
        self._note_end = ended
        supervisor.soon(self._register)

    @property
    def alive(self) -> bool:
        return self.exit is None

    @property
    def master(self) -> int:
        """To poll for room to write; -1 once the terminal is closed."""
        return self._master

    def attach(self, viewer: Viewer) -> None:
        with self._lock:
            self._viewers.append(viewer)
            self._used = time.monotonic()

    def detach(self, viewer: Viewer) -> None:
        with self._lock:
            self._viewers.remove(viewer)
            self._used = time.monotonic()
        self.moved()

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    def dismiss_others(self, viewer: Viewer | None, code: int, reason: str) -> None:
        """Dismiss all viewers but this one. Waits for none of them."""
        with self._lock:
            for other in self._viewers:
                if other is not viewer:
                    other.dismiss(code, reason)

    def write(self, data: bytes | bytearray) -> int:
        """Type; answers how many bytes the terminal took, 0 when it has no room, and all of them once it is closed."""
        with self._lock:
            if self._master < 0:
                return len(data)
            self._used = time.monotonic()
            try:
                return os.write(self._master, data)
            except BlockingIOError:
                return 0
            except OSError:  # hung up meanwhile
                return len(data)

    def resize(self, cols: int, rows: int) -> None:
        """Both are sizes that `is_size` knows."""
        with self._lock:
            self.cols, self.rows = cols, rows
            if self._master >= 0:
                set_size(self._master, cols, rows)

    def signal(self, number: int) -> None:
        """To the job in the foreground, like a key would do it: never to a group of another session."""
        with self._lock:
            if self._master < 0:
                return
            group = 0
            with suppress(OSError):
                group = os.tcgetpgrp(self._master)
        if group <= 0:  # nobody has taken the terminal, so there are no jobs
            self.child.signal(number)
            return
        for line in kernel.processes():
            if line.session == self.pid and line.group == group:
                kernel.send(line, number)

    def hang_up(self, reason: str) -> None:
        """End the shell and everything that descends from it: SIGHUP, a grace, SIGKILL. Never waits.

        Of a shell that has ended by itself, what it left behind.
        """
        with self._lock:
            if self.reason:
                return
            if self.alive:
                self.reason = reason
        self._supervisor.soon(self._begin_end)

    def moved(self) -> None:
        """A viewer has read on, or gone; from any thread."""
        if (self._waits_until or self._hurried) and not self._lead() > _LAG_BYTES:
            self._hurried = False
            self._supervisor.soon(self._resume)

    def _register(self) -> None:
        self._supervisor.watch(self._master, self._read)
        self._supervisor.watch(self.child.exit_descriptor, self._end)
        self._expect_use()

    def _read(self) -> None:
        """Move what is there into the buffer, unless the fastest viewer needs a moment."""
        if self._master < 0:  # told of together with the end, which came first
            return
        if not self._hurried and self._lead() > _LAG_BYTES:
            self._supervisor.unwatch(self._master)
            self._waits_from = self.replay.end - self._lead()
            self._waits_until = time.monotonic() + _PATIENCE
            self._supervisor.after(_PATIENCE, self._resume)
            return
        self._move(_READ_BYTES)
        self._rouse()

    def _move(self, most: int) -> int:
        try:
            data = os.read(self._master, most)
        except OSError:  # nothing there
            return 0
        self._used = time.monotonic()
        self.replay.append(data)
        return len(data)

    def _lead(self) -> int:
        """How many bytes even the fastest viewer has still to read; 0 when nobody looks."""
        with self._lock:
            positions = [viewer.position for viewer in self._viewers]
        return self.replay.end - max(positions) if positions else 0

    def _resume(self) -> None:
        if not self._waits_until:
            return
        lead = self._lead()
        if lead > _LAG_BYTES:
            if time.monotonic() < self._waits_until:
                return
            self._hurried = self.replay.end - lead - self._waits_from < _PACE_BYTES
        self._waits_until = 0.0
        if self._master >= 0:
            self._supervisor.watch(self._master, self._read)

    def _rouse(self) -> None:
        with self._lock:
            for viewer in self._viewers:
                viewer.rouse()

    def _end(self) -> None:
        exit = self.child.exit()
        if exit is None or self.exit is not None:
            return
        left = _LAST_BYTES
        while left > 0 and (moved := self._move(_READ_BYTES)):
            left -= moved
        if not self._waits_until:
            self._supervisor.unwatch(self._master)
        self._supervisor.unwatch(self.child.exit_descriptor)
        self.child.release()
        with self._lock:
            os.close(self._master)
            os.close(self._slave)
            self._master = -1
            self.ended_at = time.time()
        self._note_end(self)  # whoever sees the end finds the place free
        self.exit = exit
        self._rouse()
        self.ended.set()

    def _begin_end(self) -> None:
        self.child.pinned = True
        for member in self.child.family():  # jobs have groups of their own
            kernel.send(member, signal.SIGHUP)
            kernel.send(member, signal.SIGCONT)
        self._supervisor.after(GRACE, lambda: destroy(self.child, self._supervisor))

    def _expect_use(self) -> None:
        """Look again when the terminal may have been idle for too long."""
        if self._idle_seconds is None or not self.alive:
            return
        now = time.monotonic()
        if now - self._used >= self._idle_seconds and self._busy():
            self._used = now
        left = self._used + self._idle_seconds - now
        if left > 0:
            self._supervisor.after(left, self._expect_use)
        else:
            self.hang_up("idle")

    def _busy(self) -> bool:
        """Somebody looks, or something that the shell started runs, however silently."""
        return bool(self._viewers) or any(member.pid != self.pid for member in self.child.family())


def set_size(descriptor: int, cols: int, rows: int) -> None:
    import termios  # with the first terminal

    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
