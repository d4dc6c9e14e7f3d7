"""A command that runs on by itself, and what is kept of it: who owns it, its output, how it ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial

from .children import Child
from .exits import Exit
from .pipes import READ_BYTES, Drains, Inlet, waiting
from .ring import STDERR, STDOUT, Ring
from .supervisor import Supervisor

#: How long after a command's end its output may stay open before readers are told that somebody holds it.
HELD_AFTER = 0.3


class Background:
    """One record of the process table. The supervisor's thread fills it; anybody may read."""

    def __init__(self, child: Child, *, owner: str, command: str, capacity: int) -> None:
        self.id = child.id
        self.pid = child.pid
        self.owner = owner
        self.command = command
        self.child = child
        self.started_at = child.started_at
        self.ended_at: float | None = None
        self._ended = 0.0
        self.exit: Exit | None = None  # set after the last output that the command wrote is in the ring
        self.inlet = Inlet(child.pipes.stdin) if child.pipes.stdin >= 0 else None
        self.ring = Ring(capacity) if child.pipes.stdout >= 0 else None
        self._open = {STDOUT: child.pipes.stdout, STDERR: child.pipes.stderr} if self.ring else {}

    @property
    def running(self) -> bool:
        return self.exit is None

    @property
    def held(self) -> bool:
        """The command has ended some time ago, but somebody it started still has its output open."""
        if self.exit is None or self.ring is None or self.ring.closed:
            return False
        return time.monotonic() - self._ended >= HELD_AFTER

    def watch(self, supervisor: Supervisor, ended: Callable[[Background], None]) -> None:
        """Hand over to the supervisor; `ended` is called on its thread, once."""
        self._supervisor = supervisor
        supervisor.soon(lambda: self._register(ended))

    def let_go(self, drains: Drains) -> None:
        """Keep no output any more; only from the supervisor's thread, after the end."""
        for descriptor in self._open.values():
            self._supervisor.unwatch(descriptor)
            drains.take(descriptor)
        self._open.clear()

    def _register(self, ended: Callable[[Background], None]) -> None:
        for stream, descriptor in self._open.items():
            self._supervisor.watch(descriptor, partial(self._read, stream))
        self._supervisor.watch(self.child.exit_descriptor, lambda: self._note_end(ended))

    def _read(self, stream: int) -> int:
        """Move what is there to the ring; 0 at the end of the stream, or when nothing is there."""
        descriptor = self._open.get(stream, -1)
        if descriptor < 0 or self.ring is None:
            return 0
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return 0
        if data:
            self.ring.append(stream, data)
            return len(data)
        del self._open[stream]
        self._supervisor.unwatch(descriptor)
        os.close(descriptor)
        self.ring.end_stream(stream)
        if not self._open:
            self.ring.close()
        return 0

    def _note_end(self, ended: Callable[[Background], None]) -> None:
        exit = self.child.exit()
        if exit is None or self.exit is not None:
            return
        for stream, descriptor in list(self._open.items()):
            owed = waiting(descriptor)  # written before the end, so told before the end
            while owed > 0 and (moved := self._read(stream)):
                owed -= moved
        self._supervisor.unwatch(self.child.exit_descriptor)
        self.child.release()
        if self.inlet is not None:
            self.inlet.close()
        self.ended_at, self._ended = time.time(), time.monotonic()
        ended(self)  # whoever sees the end finds the slot free
        self.exit = exit
        if self.ring is not None:
            self.ring.ring()
