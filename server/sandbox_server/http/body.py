"""A request body on its way in: read whole, piece by piece, or moved into a file inside the kernel."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ..messages import Aborted, CutShort, Refusal
from .bounds import MIB, ONE_PIECE, Bounds

_F_SETPIPE_SZ = 1031
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# What splice answers where it does not work: for this file, file system, socket or kernel.
_NO_SPLICE = frozenset((errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP))


class WireBody:
    """The bytes after a head: some of them already read, the rest on the socket.

    A peer that stops short or is too slow is refused (400, 408), because it can still read that; one that vanishes
    raises `Aborted`. The socket must be blocking, with a receive timeout that is a fraction of the window in `bounds`.
    """

    __slots__ = (
        "_bounds",
        "_broken_off",
        "_expects",
        "_first",
        "_informs",
        "_moved",
        "_sock",
        "_waited",
        "aborted",
        "failed",
        "left",
        "length",
    )

    def __init__(
        self,
        sock: socket.socket,
        bounds: Bounds,
        length: int = 0,
        first: bytes = b"",
        expects: bool = False,
        informs: bool = False,
    ) -> None:
        self.length = length
        self.left = length - len(first)  # bytes that nobody has taken off the socket
        self.failed = False  # it stopped short or was too slow: what follows is no request
        self.aborted = False
        self._first = first
        self._sock = sock
        self._bounds = bounds
        self._expects = expects and self.left > 0
        self._informs = informs  # the peer understands interim responses (HTTP/1.1)
        self._broken_off = False
        self._waited = 0.0
        self._moved = 0

    @property
    def withheld(self) -> bool:
        """True while the peer waits for ``100 Continue``, which it will then never get."""
        return self._expects

    def inform(self, status: int, phrase: str, fields: list[tuple[str, str]]) -> bool:
        if self._informs:
            lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
            self._send(f"HTTP/1.1 {status} {phrase}\r\n{lines}\r\n".encode("latin-1"))
        return self._informs

    def read(self) -> bytes:
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        self._begin()
        if self._first:
            first, self._first = self._first, b""
            yield first
        while self.left:
            buffer = memoryview(bytearray(min(self.left, MIB // 4)))
            yield bytes(buffer[: self._take(self._sock.recv_into, buffer)])

    def copy_to(self, descriptor: int) -> int:
        self._begin()
        if self._first:
            _write_all(descriptor, self._first)
            self._first = b""
        if self.left > ONE_PIECE:
            self._splice_to(descriptor)
        if self.left:
            buffer = memoryview(bytearray(min(self.left, MIB)))
            while self.left:
                count = self._take(self._sock.recv_into, buffer[: self.left], 0, socket.MSG_WAITALL)
                _write_all(descriptor, buffer[:count])
        return self.length

    def break_off(self) -> None:
        if self.left:
            self._broken_off = True
            with suppress(OSError):  # it has ended by itself
                self._sock.shutdown(socket.SHUT_RD)  # wakes the thread that waits for bytes

    def drain(self) -> bool:
        """Read and drop what nobody wanted, if that is little and comes soon; True when nothing is left."""
        if self.withheld or self.left > self._bounds.drain_bytes:
            return False
        deadline = time.monotonic() + self._bounds.drain_seconds
        while self.left:
            count = discard(self._sock, self.left, deadline)
            if not count:
                return False
            self.left -= count
        return True

    def _begin(self) -> None:
        if self._expects:
            self._expects = False
            self._send(_CONTINUE)

    def _send(self, head: bytes) -> None:
        try:
            self._sock.sendall(head)
        except OSError as fault:
            raise self._vanished() from fault

    def _take(self, receive: Callable[..., int], *arguments: Any) -> int:
        """Run a blocking call that takes bytes off the socket, again and again until it does."""
        while True:
            if self._broken_off:
                raise self._vanished()
            started = time.monotonic()
            try:
                count = receive(*arguments)
            except BlockingIOError:
                count = -1
            except OSError as fault:
                raise self._vanished() from fault
            if count == 0 and self._broken_off:
                continue
            if count == 0:
                self.failed = True
                raise CutShort(self.length - self.left, self.length)
            self._waited += time.monotonic() - started
            if count > 0:
                self.left -= count
                self._moved += count
            if self.left and self._waited >= self._bounds.body_seconds:
                self._check_pace()
            if count > 0:
                return count

    def _check_pace(self) -> None:
        # Only waiting counts: a slow disk on this side is not the peer's fault.
        if self._moved < self._bounds.body_rate * self._waited:
            self.failed = True
            raise Refusal("timeout", f"the body arrives at less than {self._bounds.body_rate} bytes a second")
        self._waited = 0.0
        self._moved = 0

    def _splice_to(self, descriptor: int) -> None:
        """Move the rest through a pipe, never copying it; what the kernel cannot splice is left for the caller."""
        pipe = _wide_pipe()
        if pipe is None:
            return
        reader, writer = pipe
        try:
            while self.left:
                count = self._take(_splice, self._sock.fileno(), writer, min(self.left, MIB))
                if not _empty(reader, count, descriptor):
                    return
        except _CannotSplice:
            return
        finally:
            os.close(reader)
            os.close(writer)

    def _vanished(self) -> Aborted:
        self.aborted = True
        return Aborted()


class _CannotSplice(Exception):
    """The kernel does not splice from this socket; nothing was moved."""


def _wide_pipe() -> tuple[int, int] | None:
    """A pipe of 1 MiB. Through one of the ordinary size splicing is no better than reading."""
    if not hasattr(os, "splice"):
        return None
    try:
        reader, writer = os.pipe()
    except OSError:
        return None  # out of descriptors; reading needs none
    try:
        fcntl.fcntl(writer, _F_SETPIPE_SZ, MIB)
    except OSError:
        os.close(reader)
        os.close(writer)
        return None
    return reader, writer


def _splice(source: int, target: int, count: int) -> int:
    try:
        return os.splice(source, target, count)
    except OSError as fault:
        if fault.errno in _NO_SPLICE:
            raise _CannotSplice from None
        raise


def _empty(pipe: int, count: int, descriptor: int) -> bool:
    """Move `count` bytes from a pipe to a file; False when the file does not take splices, and reading was needed."""
    try:
        while count:
            count -= os.splice(pipe, descriptor, count)
    except OSError as fault:
        if fault.errno not in _NO_SPLICE:
            raise
        while count:
            data = os.read(pipe, count)
            _write_all(descriptor, data)
            count -= len(data)
        return False
    return True


def _write_all(descriptor: int, data: bytes | memoryview) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        data = data[written:]
        written = os.write(descriptor, data)


def discard(sock: socket.socket, limit: int, deadline: float) -> int:
    """Drop up to `limit` bytes that arrive before `deadline`; 0 when none do, or none will."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        return 0
    try:
        return discard_now(sock, limit)
    except OSError:
        return 0


def discard_now(sock: socket.socket, limit: int = MIB // 4) -> int:
    """Drop what is there; 0 at the end. TCP does not even copy it."""
    return sock.recv_into(bytearray(min(limit, MIB // 4)), 0, socket.MSG_DONTWAIT | socket.MSG_TRUNC)
