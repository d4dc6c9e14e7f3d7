"""Who listens where, from the kernel's tables."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from typing import NamedTuple

from .reading import text

_LISTENING = "0A"
_TABLE_BYTES = 16 << 20


class Listener(NamedTuple):
    """A listening socket; `pid` is None where we may not look."""

    port: int
    protocol: str
    address: str
    pid: int | None


def listening(proc: str = "/proc") -> list[Listener]:
    """Every TCP socket that waits for connections, by port."""
    sockets = [*_table(f"{proc}/net/tcp", "tcp"), *_table(f"{proc}/net/tcp6", "tcp6")]
    owners = _owners({inode for *_, inode in sockets}, proc)
    return sorted(
        Listener(port, protocol, address, owners.get(inode)) for port, protocol, address, inode in set(sockets)
    )


def _table(path: str, protocol: str) -> Iterator[tuple[int, str, str, str]]:
    """(port, protocol, address, inode) of the listening lines (proc_net_tcp)."""
    for line in text(path, _TABLE_BYTES).splitlines()[1:]:
        fields = line.split()
        if len(fields) > 9 and fields[3] == _LISTENING:
            address, _, port = fields[1].partition(":")
            yield int(port, 16), protocol, _address(address), fields[9]


def _address(digits: str) -> str:
    """An address as the kernel prints it: 32-bit words in the machine's byte order."""
    words = [int(digits[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(digits), 8)]
    packed = b"".join(words)
    if len(packed) == 4:
        return socket.inet_ntop(socket.AF_INET, packed)
    return f"[{socket.inet_ntop(socket.AF_INET6, packed)}]"


def _owners(inodes: set[str], proc: str) -> dict[str, int]:
    """Inode -> the process that has the socket open, the lowest pid of several."""
    found: dict[str, int] = {}
    if not inodes:
        return found
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdecimal()):
        try:
            with os.scandir(f"{proc}/{pid}/fd") as descriptors:
                for entry in descriptors:
                    target = os.readlink(entry.path)
                    inode = target[8:-1] if target.startswith("socket:[") else ""
                    if inode in inodes:
                        found.setdefault(inode, pid)
        except OSError:  # it has ended, or is not ours to look at
            continue
        if len(found) == len(inodes):
            break
    return found
