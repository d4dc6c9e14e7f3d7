"""A doorbell between threads: one descriptor that a poll can wait on, beside sockets and pipes."""

from __future__ import annotations

import contextlib
import os


class Wake:
    """`set` makes `fileno` readable until `clear`. Setting never blocks and is safe in a signal handler."""

    def __init__(self) -> None:
        if hasattr(os, "eventfd"):
            self._in = self._out = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        else:
            self._out, self._in = os.pipe()
            os.set_blocking(self._out, False)
            os.set_blocking(self._in, False)

    def fileno(self) -> int:
        return self._out

    def set(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full: it rings already
            os.write(self._in, b"\1\0\0\0\0\0\0\0")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._out, 4096)

    def close(self) -> None:
        os.close(self._out)
        if self._in != self._out:
            os.close(self._in)
