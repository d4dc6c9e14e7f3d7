"""The kernel's notices about directories (inotify), by way of the C library; and where it has none to give."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from typing import NamedTuple

MODIFY, ATTRIB, MOVED_FROM, MOVED_TO = 0x2, 0x4, 0x40, 0x80
CREATE, DELETE, DELETE_SELF, MOVE_SELF = 0x100, 0x200, 0x400, 0x800
UNMOUNT, Q_OVERFLOW, IGNORED = 0x2000, 0x4000, 0x8000
_ONLYDIR, _EXCL_UNLINK = 0x0100_0000, 0x0400_0000
_WANTED = MODIFY | ATTRIB | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF | _ONLYDIR | _EXCL_UNLINK
_HEAD = struct.Struct("iIII")
_READ_BYTES = 1 << 16

#: File systems that others may change behind this kernel's back, by the number that statfs tells.
_SHARED = frozenset({
    0x6969, 0xFF534D42, 0xFE534D42, 0x517B,  # NFS, CIFS, SMB2, SMB
    0x65735546, 0x01021997, 0x00C36400,  # FUSE, 9P, Ceph
    0x5346414F, 0x6B414653, 0x73757245,  # AFS, kAFS, Coda
    0x0BD00BD0, 0x47504653, 0x19830326,  # Lustre, GPFS, BeeGFS
    0x7461636F, 0x01161970,  # OCFS2, GFS2
    0x786F4256, 0xBACBACBC, 0x7C7C6673,  # folders shared by VirtualBox, VMware, Parallels
})  # fmt: skip


class Notice(NamedTuple):
    """One event: which watch, what happened, and to which entry of that directory."""

    watch: int
    mask: int
    name: str


class Inotify:
    """One queue of notices. `OSError` where the kernel has none, or gives no more of them to this user."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = _checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def fileno(self) -> int:
        return self._descriptor

    def add(self, directory: int) -> int:
        """Watch an open directory; the number of the watch, the same for the same directory."""
        # A descriptor, unlike a path, cannot have become another directory since it was judged.
        name = f"/proc/self/fd/{directory}".encode()
        return _checked(self._libc.inotify_add_watch(self._descriptor, name, ctypes.c_uint32(_WANTED)))

    def hears(self, directory: int) -> bool:
        """False where the file system of an open directory may change behind this kernel's back."""
        facts = ctypes.create_string_buffer(512)  # larger than any `struct statfs`; it begins with the type
        if self._libc.fstatfs(directory, facts):
            return False
        return ctypes.c_long.from_buffer(facts).value & 0xFFFF_FFFF not in _SHARED

    def remove(self, watch: int) -> None:
        self._libc.inotify_rm_watch(self._descriptor, watch)  # one that is gone by itself is no error

    def read(self) -> list[Notice]:
        """What has come since; nothing when nothing has."""
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return []
        notices, place = [], 0
        while place < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, place)
            place += _HEAD.size
            notices.append(Notice(watch, mask, os.fsdecode(data[place : place + length].rstrip(b"\0"))))
            place += length
        return notices

    def close(self) -> None:
        os.close(self._descriptor)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
