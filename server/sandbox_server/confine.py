"""Landlock: what a thread, and everything it starts, may touch. The kernel enforces it, also on programs.

A ruleset names what stays reachable; `Ruleset.enforce` binds the *calling thread* to it. Threads and processes started
from that thread inherit it, other threads are not touched, and nothing lifts it again; a second ruleset only narrows.
So a pool of worker threads, one ruleset per path scope, confines file operations and children alike, and a process
that restricts itself must do so before it starts its first thread.

Not covered by the kernel: stat, chmod and utime of outside paths, hard links that already lie inside, UDP.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable, Iterator

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38
CAP_DAC_OVERRIDE = 1 << 1
_CAPABILITY_VERSION = 0x20080522  # two words each: effective, permitted, inheritable; low ones first

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
READ = READ_FILE | READ_DIR
FILES_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # rights that make sense below no directory
RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}
NETWORK_ABI, SCOPE_ABI = 4, 6
TCP = 0b11  # bind, connect
ABSTRACT_SOCKETS_AND_SIGNALS = 0b11

#: Where programs and their libraries live; what a program needs to find names, time zones and certificates.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_FILES = (
    *(f"/etc/{name}" for name in ("alternatives", "group", "hosts", "ld.so.cache", "localtime", "mime.types")),
    *(f"/etc/{name}" for name in ("nsswitch.conf", "os-release", "passwd", "protocols", "resolv.conf", "services")),
    *(f"/etc/{name}" for name in ("bash.bashrc", "fonts", "gai.conf", "host.conf", "magic", "terminfo", "timezone")),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/ca-trust/extracted", "/etc/pki/tls/certs", "/proc"),
)
PRIVATE_DEVICES = (*(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx")),)
#: And those in which programs of one user meet: terminals, shared memory.
DEVICES = (*PRIVATE_DEVICES, "/dev/pts", "/dev/shm")

PREFIX_ENTRIES = ("bin", "lib", "lib64", "include", "libexec", "share", "ssl", "pyvenv.cfg")


class Ruleset:
    """Everything that stays reachable, as an open kernel object. Close it when no thread needs it any more.

    Raises `OSError` where the kernel has no Landlock. In `read_write` and `read_execute` a missing path is an error,
    because a rule that silently grants nothing is a surprise; `optional` ones grant reading and executing if there.
    An open descriptor stands for a path, whatever lies at that path by now.
    """

    def __init__(
        self,
        *,
        read_write: Iterable[str | int] = (),
        read_execute: Iterable[str | int] = (),
        optional: Iterable[str] = (),
        devices: Iterable[str] = DEVICES,
        tcp: bool = True,
        scoped: bool = True,
    ) -> None:
        known = version()
        self._rights = sum(rights for since, rights in RIGHTS_BY_ABI.items() if since <= known)
        network = 0 if tcp or known < NETWORK_ABI else TCP
        scopes = ABSTRACT_SOCKETS_AND_SIGNALS if scoped and known >= SCOPE_ABI else 0
        attributes = struct.pack("=QQQ", self._rights, network, scopes)
        self._descriptor = _call(CREATE_RULESET, attributes, len(attributes), 0)
        os.set_inheritable(self._descriptor, False)
        try:
            for path in read_write:
                self._allow(path, self._rights)
            for path in read_execute:
                self._allow(path, EXECUTE | READ)
            for path in optional:
                self._allow_if_there(path, EXECUTE | READ)
            for path in devices:
                self._allow_if_there(path, self._rights & ~EXECUTE)
        except OSError:
            self.close()
            raise

    def enforce(self) -> None:
        """Bind the calling thread, for good. Threads that already run are not affected."""
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "cannot set no_new_privs")
        _call(RESTRICT_SELF, self._descriptor, 0)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _allow(self, place: str | int, rights: int) -> None:
        descriptor = place if isinstance(place, int) else os.open(place, os.O_PATH | os.O_CLOEXEC)
        try:
            allowed = rights & self._rights
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                allowed &= FILES_ONLY
            _call(ADD_RULE, self._descriptor, RULE_PATH_BENEATH, struct.pack("=Qi", allowed, descriptor), 0)
        finally:
            if descriptor is not place:
                os.close(descriptor)

    def _allow_if_there(self, path: str, rights: int) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._allow(path, rights)


def version() -> int:
    """The version of the kernel's Landlock; `OSError` where there is none."""
    return _call(CREATE_RULESET, None, 0, CREATE_RULESET_VERSION)


def restrict_process(
    *, read_write: Iterable[str] = (), read_execute: Iterable[str] = (), optional: Iterable[str] = (), tcp: bool = True
) -> None:
    """Bind this whole process. It must still have one thread only, or the others would stay free.

    A superuser keeps no power but to use files of other owners, where the rules let it: Landlock says nothing about
    devices, raw sockets, the host's name or kernel modules.
    """
    if _threads() > 1:
        raise RuntimeError("a process must restrict itself before it starts threads")
    ruleset = Ruleset(read_write=read_write, read_execute=read_execute, optional=optional, tcp=tcp)
    try:
        ruleset.enforce()
    finally:
        ruleset.close()
    drop_powers()


def restrict_to(base_dir: str, *, writable: Iterable[str] = (), tcp: bool = True) -> None:
    """Bind this server: write below its base directory, `writable` and the temporary directory, run the system."""
    import tempfile  # costs a good part of a start; whoever confines children needs the rest of this module only

    restrict_process(
        read_write=[base_dir, tempfile.gettempdir(), *writable],
        read_execute=interpreter(),
        optional=(*SYSTEM, *SYSTEM_FILES),
        tcp=tcp,
    )


def interpreter() -> Iterator[str]:
    """What belongs to this Python in its prefixes, one of which may be a home; and this package, folder or zipapp."""
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        yield from installed(prefix)
    place = os.path.dirname(os.path.abspath(__file__))
    while not os.path.exists(place):  # inside of a zipapp
        place = os.path.dirname(place)
    yield place


def installed(prefix: str) -> Iterator[str]:
    """What programs below a prefix need of it: where there is ``bin``, ``lib`` and a few more belong to it."""
    return (path for name in PREFIX_ENTRIES if os.path.exists(path := os.path.join(prefix, name)))


def drop_powers() -> None:
    """Give up all capabilities but one, for this thread and whatever it starts; ``enforce`` lets none come back."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    words = ctypes.create_string_buffer(24)
    if libc.capget(header, words) != 0:
        raise OSError(ctypes.get_errno(), "cannot read the capabilities")
    effective, permitted, *_ = struct.unpack("=6I", words.raw)
    kept = (effective & CAP_DAC_OVERRIDE, permitted & CAP_DAC_OVERRIDE, 0, 0, 0, 0)
    if libc.capset(header, struct.pack("=6I", *kept)) != 0:
        raise OSError(ctypes.get_errno(), "cannot drop the capabilities")


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))


def _call(number: int, *arguments: bytes | int | None) -> int:
    """One system call of the Landlock family; raises `OSError`."""
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform != "linux":
        raise OSError(38, os.strerror(38))
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = libc.syscall(ctypes.c_long(number), *converted)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
