"""The kernel's own race-free open (Linux 5.6). It only ever saves steps: a failure is no answer, ask the walk."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable

_NAMES = sys.getfilesystemencoding()  # of names; `os.fsencode` would look at more than is needed
_SYSCALL = 437  # the same number on every architecture
_NO_XDEV = 0x01
_NO_MAGICLINKS = 0x02
_NO_SYMLINKS = 0x04
_BENEATH = 0x08
_CACHED = 0x20
_STRICT = _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class OpenAt2:
    """Opens a path below a directory descriptor without meeting a single link."""

    __slots__ = ("_kept", "_patient", "_places", "_quick")

    def __init__(self) -> None:
        self._patient = _syscall(ctypes.CDLL(None))
        # A cached lookup never sleeps, so handing over the interpreter lock would only cost time.
        self._quick = _syscall(ctypes.PyDLL(None))
        # The kernel only reads the structures, so threads share one per set of flags.
        self._places: dict[tuple[int, bool], int] = {}
        self._kept: list[_How] = []

    def __call__(self, directory: int, relative: str, flags: int, cached: bool = False) -> int:
        """A descriptor, or -1."""
        place = self._places.get((flags, cached)) or self._prepare(flags, cached)
        call = self._quick if cached else self._patient
        return call(_SYSCALL, directory, relative.encode(_NAMES, "surrogateescape") or b".", place, 24)

    def works(self, directory: int) -> bool:
        """Whether this kernel, and what filters its calls, lets us use it."""
        descriptor = self(directory, "", os.O_PATH | os.O_DIRECTORY)
        if descriptor < 0:
            return False
        os.close(descriptor)
        return True

    def _prepare(self, flags: int, cached: bool) -> int:
        how = _How(flags | os.O_CLOEXEC, 0, _STRICT | (_CACHED | _NO_XDEV if cached else 0))
        self._kept.append(how)
        self._places[flags, cached] = place = ctypes.addressof(how)
        return place


def _syscall(library: ctypes.CDLL) -> Callable[[int, int, bytes, int, int], int]:
    call = library.syscall
    call.restype = ctypes.c_long
    call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t]
    return call
