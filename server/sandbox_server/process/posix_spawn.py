"""The C library's posix_spawn(3), with what `os.posix_spawn` leaves out: a working directory, and no inherited files.

It starts programs as `subprocess.Popen` does, with less work in Python, and other threads run meanwhile. It tells that
it failed but not where; `Popen` tells that. Only glibc 2.34 and later has all of it: elsewhere `available` says no.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

#: In the place of a descriptor: /dev/null.
NOTHING = -1

# <spawn.h> of glibc
_SETSIGDEF, _SETSID = 0x04, 0x80
#: More than `posix_spawn_file_actions_t`, `posix_spawnattr_t` or `sigset_t` takes on any processor.
_ROOM = 1024

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "posix_spawn": (_POINTER, ctypes.c_char_p, _POINTER, _POINTER, _POINTER, _POINTER),
    "posix_spawn_file_actions_init": (_POINTER,),
    "posix_spawn_file_actions_destroy": (_POINTER,),
    "posix_spawn_file_actions_addopen": (_POINTER, _INT, ctypes.c_char_p, _INT, _INT),
    "posix_spawn_file_actions_adddup2": (_POINTER, _INT, _INT),
    "posix_spawn_file_actions_addfchdir_np": (_POINTER, _INT),
    "posix_spawn_file_actions_addclosefrom_np": (_POINTER, _INT),
    "posix_spawnattr_init": (_POINTER,),
    "posix_spawnattr_setflags": (_POINTER, ctypes.c_short),
    "posix_spawnattr_setsigdefault": (_POINTER, _POINTER),
    "sigfillset": (_POINTER,),
}


@cache
def available() -> bool:
    """Whether the C library has all of it."""
    return sys.platform == "linux" and all(hasattr(ctypes.CDLL(None), name) for name in _FUNCTIONS)


def posix_spawn(program: str, argv: Sequence[str], env: Sequence[str], files: tuple[int, int, int], cwd: int) -> int:
    """The pid of `program`, which leads a new session in the open directory `cwd`.

    `files` become its descriptors 0, 1 and 2, each is `NOTHING` or above 2. `env` holds `NAME=value`. `OSError` when it
    cannot be started, `ValueError` for a NUL in a word.
    """
    pid = ctypes.c_int()
    actions = _actions(*files, cwd)  # held until the call returns, whatever other threads put into the cache
    error = _function("posix_spawn")(
        ctypes.byref(pid), _words((program,))[0], actions.address, _attributes().address, _words(argv), _words(env)
    )
    if error:
        raise OSError(error, os.strerror(error), program)
    return pid.value


class _Actions:
    """What happens to the descriptors. These are numbers only, so one list serves as often as the numbers return."""

    def __init__(self, stdin: int, stdout: int, stderr: int, cwd: int) -> None:
        self._room = ctypes.create_string_buffer(_ROOM)
        self.address = ctypes.addressof(self._room)
        _call("posix_spawn_file_actions_init", self.address)
        self._destroy = _function("posix_spawn_file_actions_destroy")
        for number, descriptor in enumerate((stdin, stdout, stderr)):
            if descriptor == NOTHING:
                _call("posix_spawn_file_actions_addopen", self.address, number, os.devnull.encode(), os.O_RDWR, 0)
            elif descriptor > 2:
                _call("posix_spawn_file_actions_adddup2", self.address, descriptor, number)
            else:
                raise ValueError(f"descriptor {descriptor} may be overwritten before it is used")
        _call("posix_spawn_file_actions_addfchdir_np", self.address, cwd)
        _call("posix_spawn_file_actions_addclosefrom_np", self.address, 3)

    def __del__(self) -> None:
        if hasattr(self, "_destroy"):
            self._destroy(self.address)


_actions = lru_cache(maxsize=64)(_Actions)


class _Attributes:
    """A session of its own, and every signal as it is by default: Python ignores some, which programs do not expect."""

    def __init__(self) -> None:
        self._room = ctypes.create_string_buffer(_ROOM)
        self.address = ctypes.addressof(self._room)
        signals = ctypes.create_string_buffer(_ROOM)
        _call("sigfillset", signals)
        _call("posix_spawnattr_init", self.address)
        _call("posix_spawnattr_setsigdefault", self.address, signals)
        _call("posix_spawnattr_setflags", self.address, _SETSIGDEF | _SETSID)


_attributes = cache(_Attributes)


@cache
def _function(name: str) -> Any:
    function = getattr(ctypes.CDLL(None), name)
    function.argtypes, function.restype = _FUNCTIONS[name], _INT
    return function


def _call(name: str, *arguments: object) -> None:
    if error := _function(name)(*arguments):
        raise OSError(error, os.strerror(error))


def _words(words: Sequence[str]) -> Any:
    # To encode all of them at once takes a third of the time.
    encoded = os.fsencode("\0".join(words)).split(b"\0") if words else []
    if len(encoded) != len(words):
        raise ValueError("embedded null byte")
    return (ctypes.c_char_p * (len(words) + 1))(*encoded)
