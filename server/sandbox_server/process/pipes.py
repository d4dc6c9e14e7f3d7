"""Small things one does with the pipes of a child."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import sys
import termios
import threading
import time

from ..messages import Peer, Refusal
from .caller import Caller
from .supervisor import Supervisor

READ_BYTES = 1 << 16
#: How many pipes whose command has been answered are kept open for whoever still writes into them.
_DRAINED = 64


def waiting(descriptor: int) -> int:
    """How many bytes can be read at once."""
    return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, b"\0\0\0\0"), sys.byteorder)


class Inlet:
    """The writing end of a process's standard input. One writer at a time, and none waits for ever."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._ending = False

    def write(self, data: bytes, *, eof: bool, peer: Peer, patience: float) -> None:
        """All of `data`, then the end if `eof`. Refused with conflict if nobody can read it, timeout if nobody does."""
        deadline = time.monotonic() + patience
        if not self._lock.acquire(timeout=patience):
            raise _unread(0)
        try:
            if self._ending:
                raise Refusal("conflict", "the standard input is closed")
            left = memoryview(data)
            while left:
                left = left[self._write_some(left, peer, deadline, len(data) - len(left)) :]
            self._ending = eof
        finally:
            self._lock.release()
            self._close_if_due()

    def close(self) -> None:
        """Close now, or when the present writer is done. Never waits."""
        self._ending = True
        self._close_if_due()

    def _write_some(self, data: memoryview, peer: Peer, deadline: float, written: int) -> int:
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                self._await_room(peer, deadline, written)
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise
                self._ending = True
                raise Refusal("conflict", "the process has closed its standard input", written=written) from None

    def _await_room(self, peer: Peer, deadline: float, written: int) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        caller = Caller(peer, poll)
        while (left := deadline - time.monotonic()) > 0 and not self._ending:
            if caller.poll(left * 1000):
                return
        if self._ending:  # the process has ended meanwhile: that, and no lack of patience
            raise Refusal("conflict", "the standard input is closed", written=written)
        raise _unread(written)

    def _close_if_due(self) -> None:
        if self._ending and self._lock.acquire(blocking=False):
            try:
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                    self._descriptor = -1
            finally:
                self._lock.release()


def _unread(written: int) -> Refusal:
    return Refusal("timeout", "the process does not read its standard input", written=written)


class Drains:
    """Reads on, for nobody, what background children of finished commands write, so that they can go on writing."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._open: dict[int, None] = {}  # oldest first

    def add(self, descriptor: int) -> None:
        self._supervisor.soon(lambda: self.take(descriptor))

    def take(self, descriptor: int) -> None:
        """Only from the supervisor's thread."""
        if len(self._open) >= _DRAINED:
            self._close(next(iter(self._open)))
        self._open[descriptor] = None
        self._supervisor.watch(descriptor, lambda: self._discard(descriptor))

    def _discard(self, descriptor: int) -> None:
        if descriptor not in self._open:
            return
        try:
            if not os.read(descriptor, READ_BYTES):
                self._close(descriptor)
        except BlockingIOError:
            pass

    def _close(self, descriptor: int) -> None:
        del self._open[descriptor]
        self._supervisor.unwatch(descriptor)
        os.close(descriptor)
