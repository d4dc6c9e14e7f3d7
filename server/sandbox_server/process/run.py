"""A command whose output goes straight to the one who asked for it, as fast as that one takes it, and no faster.

Whoever iterates pulls: between two steps nothing is read, the pipes fill, and the child waits. So nothing is lost and
memory stays flat. When the asker vanishes, the command is stopped.
"""

from __future__ import annotations

import math
import os
import select
import time
from collections.abc import Iterator
from itertools import chain

from ..messages import Peer, Wait
from .background import HELD_AFTER
from .caller import attended
from .children import Child
from .exits import Exit
from .pipes import READ_BYTES, Drains, waiting
from .ring import STDERR, STDOUT
from .stopping import destroy, stop
from .supervisor import Supervisor, Timer

#: Yielded as a piece when nothing has happened for a while.
SILENCE = (0, b"")
#: A pipe may be full so long before it is read, in seconds.
_AT_ONCE = 0.002


class Run:
    """One command in the foreground. `close` must be called; it stops what still runs."""

    def __init__(self, child: Child, peer: Peer, supervisor: Supervisor, drains: Drains, *, timeout: float) -> None:
        self.child = child
        self.exit: Exit | None = None
        self.held = False
        self._peer = peer
        self._supervisor = supervisor
        self._drains = drains
        self._open = {child.pipes.stdout: STDOUT, child.pipes.stderr: STDERR}
        self._owed: dict[int, int] = {}  # descriptor -> bytes written before the end and not read yet
        self._ended_at = 0.0
        self._closed = False
        # Not a deadline of our loop: a reader who has stopped reading must not prolong the command's life.
        self._timer: Timer = supervisor.after(timeout, self._expire)

    def pieces(self) -> Iterator[tuple[int, bytes]]:
        """`steps` for a caller who waits here; `Aborted` once nobody is left to read an answer."""
        # Nobody sees anything before the end: a command that ends at once is waited for once, and not for each pipe.
        at_once = Wait((self.child.exit_descriptor,), time.monotonic() + _AT_ONCE)
        return attended(chain((at_once,), self.steps()), self._peer)

    def steps(self, silence: float = math.inf) -> Iterator[tuple[int, bytes] | Wait]:
        """(stream, bytes) until the command has ended; `Wait` while there is nothing, `SILENCE` after quiet seconds.

        Ends with `exit` set: after the last byte of every pipe, or, when something that the command left behind
        holds a pipe open, shortly after the command's own end, with `held`.
        """
        poll = select.poll()
        for descriptor in self._watched():
            poll.register(descriptor, select.POLLIN)
        heard = time.monotonic()
        while self._open or self.exit is None:
            ready = poll.poll(0)
            for descriptor, _ in ready:
                if (data := self._receive(descriptor, poll)) is not None:
                    yield self._open[descriptor], data
                    heard = time.monotonic()
            now = time.monotonic()
            if self.exit is not None and now - self._ended_at >= HELD_AFTER and self._somebody_holds(poll):
                self.held = True
                break
            if now - heard >= silence:
                yield SILENCE
                heard = now
            if not ready:
                yield Wait(self._watched(), self._until(heard + silence))
        if self.child.cause == "timeout":
            self.child.kill()  # returns when nobody of the family is left

    def kill(self, cause: str) -> None:
        """SIGKILL to everything, and wait until it is gone."""
        self.child.cause = cause
        self.child.kill()
        self.exit = self.child.wait(HELD_AFTER)

    def close(self) -> None:
        """Stop what still runs and let go of everything. Never waits."""
        if self._closed:
            return
        self._closed = True
        self._timer.cancel()
        for descriptor in self._open:
            self._drains.add(descriptor)  # a closed pipe would kill who still writes, even its last words
        if self.exit is not None:
            self.child.release()
        else:
            stop(self.child, self._supervisor)

    def _receive(self, descriptor: int, poll: select.poll) -> bytes | None:
        """What a pipe holds; None when this was the news of an end."""
        if descriptor == self.child.exit_descriptor:
            poll.unregister(descriptor)
            self.exit = self.child.exit()
            self._ended_at = time.monotonic()
            self._owed = {pipe: waiting(pipe) for pipe in self._open}
            return None
        data = os.read(descriptor, READ_BYTES)
        if data:
            if self.exit is not None:
                self._owed[descriptor] -= len(data)
            return data
        poll.unregister(descriptor)
        del self._open[descriptor]
        os.close(descriptor)
        return None

    def _watched(self) -> tuple[int, ...]:
        return (*self._open, self.child.exit_descriptor) if self.exit is None else tuple(self._open)

    def _until(self, silent: float) -> float:
        return silent if self.exit is None else min(silent, self._ended_at + HELD_AFTER)

    def _somebody_holds(self, poll: select.poll) -> bool:
        """All that the command wrote is told, and a pipe that is still open has a writer."""
        if any(self._owed[descriptor] > 0 for descriptor in self._open):
            return False
        left = {descriptor for descriptor, events in poll.poll(0) if events & select.POLLHUP}
        return not left.issuperset(self._open)

    def _expire(self) -> None:
        if not self._closed and self.child.exit() is None:
            self.child.cause = "timeout"
            destroy(self.child, self._supervisor)
