"""The other end of a connection, for work that stops when nobody listens.

A peer may end its own side and go on reading (a half-close, as ``nc -N`` does). TCP tells that in the very words in
which it tells that a program has closed the connection or died. The kernel that has the other end knows better, and
for callers on this machine that is ours: it lists a socket that no program holds any more with inode 0. Of callers on
other machines it lists nothing, and they are taken to be gone. Unix sockets tell the two apart by themselves.
"""

from __future__ import annotations

import select
import socket
import struct
from typing import Any

_GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_INODE = 9  # the field of a table's line


class WirePeer:
    __slots__ = ("_sock",)

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    def fileno(self) -> int:
        return self._sock.fileno()

    def gone(self) -> bool:
        if self._sock.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLRDHUP)
        events = sum(event for _, event in poll.poll(0))
        if events & _GONE:
            return True
        return bool(events) and self._sock.family != socket.AF_UNIX and not _is_held(self._sock)


def _is_held(sock: socket.socket) -> bool:
    """Whether some program on this machine holds the other end."""
    try:
        far, near = _spellings(sock.getpeername()), _spellings(sock.getsockname())
    except OSError:
        return False
    ends = [" ".join(pair) for pair in zip(far, near, strict=True)]
    for table in _TABLES:
        try:
            with open(table, encoding="ascii") as lines:
                for line in lines:
                    if any(both in line for both in ends):
                        return line.split()[_INODE] != "0"
        except OSError:
            continue
    return False


def _spellings(address: Any) -> tuple[str, str]:
    """How the two tables write an address: its 32-bit words as this machine holds them, and the port."""
    host = address[0].partition("%")[0]
    packed = socket.inet_pton(socket.AF_INET6, host if ":" in host else f"::ffff:{host}")
    words = "".join(f"{word:08X}" for word in struct.unpack("=4I", packed))
    return f"{words[-8:]}:{address[1]:04X}", f"{words}:{address[1]:04X}"
