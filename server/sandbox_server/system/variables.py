"""The variables that children start with: those the server was given, and what callers have set since.

An overlay of one server. The server's own environment never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock

#: Together they must leave room for a command line; the kernel takes no single one that is longer.
MOST_BYTES = 256 << 10
LONGEST = 120 << 10


class TooLarge(ValueError):
    """More than a child could be started with."""


class Variables:
    """Thread-safe; a reading never sees half of an update."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = dict(given)
        self._set: Mapping[str, str] = {}
        self._lock = Lock()

    @property
    def given(self) -> Mapping[str, str]:
        return self._given

    @property
    def added(self) -> Mapping[str, str]:
        """What was set since."""
        return self._set

    def all(self) -> dict[str, str]:
        return {**self._given, **self._set}

    def update(self, new: Mapping[str, str]) -> None:
        """All of them or, raising `TooLarge`, none."""
        with self._lock:
            added = {**self._set, **new}
            sizes = [
                len(name.encode()) + len(value.encode("utf-8", "surrogateescape")) for name, value in added.items()
            ]
            if sum(sizes) > MOST_BYTES or max(sizes, default=0) > LONGEST:
                raise TooLarge
            self._set = added
