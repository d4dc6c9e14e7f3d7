"""Ports for programs that must be told one."""

from __future__ import annotations

import random
import socket

#: The kernel takes its own choices, also for the near ends of connections, from higher ones.
CHOICES = range(15_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on, and that no connection of other tests takes meanwhile."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(CHOICES)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue  # taken
        if port not in found:
            found.append(port)
    return found


def kernels_have_such_ports() -> None:
    """Kernels of Jupyter are told five each, some seconds before they take them. Where others listen on whatever is
    free, one of these is sometimes gone by then, and the kernel dies.
    """
    from jupyter_client.connect import LocalPortCache

    def choose(cache: LocalPortCache, ip: str) -> int:
        while (port := free_ports(1)[0]) in cache.currently_used_ports:
            pass
        cache.currently_used_ports.add(port)
        return port

    LocalPortCache.find_available_port = choose  # type: ignore[method-assign]
