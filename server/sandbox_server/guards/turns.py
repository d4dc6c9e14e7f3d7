"""Whose turn it is to change a file: a look at it and the change that follows from it belong together."""

from __future__ import annotations

from threading import Lock

_LOCKS = 64


class Turns:
    """A lock for every path, few locks for all of them. Whoever has one takes no second one.

    They order the requests of this server among each other, not the programs beside it.
    """

    __slots__ = ("_locks",)

    def __init__(self) -> None:
        self._locks = tuple(Lock() for _ in range(_LOCKS))

    def of(self, path: str) -> Lock:
        return self._locks[hash(path) % _LOCKS]
