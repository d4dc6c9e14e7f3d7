"""Whose turn it is: a look at a file and the change that follows from it belong together."""

from __future__ import annotations

from threading import Lock

_LOCKS = 64


class Turns:
    """A lock for every file and for every directory, few locks for all of them; a directory's is taken first.

    They order the requests of this server among each other, not the programs beside it.
    """

    __slots__ = ("_directories", "_files")

    def __init__(self) -> None:
        self._files = tuple(Lock() for _ in range(_LOCKS))
        self._directories = tuple(Lock() for _ in range(_LOCKS))

    def of(self, path: str) -> Lock:
        return self._files[hash(path) % _LOCKS]

    def beside(self, path: str) -> Lock:
        """For making a small file: the kernel lets one at a time into a directory, and who waits for it in there
        keeps coming back for the interpreter, while who waits here sleeps."""
        return self._directories[hash(path.rpartition("/")[0]) % _LOCKS]
