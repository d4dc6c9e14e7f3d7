"""What all connections of one server share."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field

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


@dataclass(slots=True, eq=False, repr=False)
class Site:
    """What all connections of a server share."""

    handler: Handler
    hosts: HostRules = field(default_factory=HostRules)
    bounds: Bounds = Bounds()
    ids: RequestIds = field(default_factory=RequestIds)
    stopping: bool = False  # answers then close their connections
