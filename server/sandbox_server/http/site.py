"""What all connections of one server share."""

from __future__ import annotations

import itertools
import os

from .bounds import Bounds
from .exchange import Handler
from .hosts import HostRules


class RequestIds:
    """Ids unlike those of other runs, cheap to count up, safe to take from any thread."""

    def __init__(self) -> None:
        self._prefix = os.urandom(6).hex()
        self._count = itertools.count(1)

    def next(self) -> str:
        return f"{self._prefix}{next(self._count):06x}"


class Site:
    """What all connections of a server share."""

    __slots__ = ("bounds", "handler", "hosts", "ids", "stopping")

    def __init__(self, handler: Handler, hosts: HostRules | None = None, bounds: Bounds | None = None) -> None:
        self.handler = handler
        self.hosts = hosts or HostRules()
        self.bounds = bounds or Bounds()
        self.ids = RequestIds()
        self.stopping = False  # answers then close their connections
