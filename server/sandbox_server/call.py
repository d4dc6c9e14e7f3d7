"""One admitted request on its way through a handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .access import Grant
from .messages import Request

if TYPE_CHECKING:
    from .services import Services


@dataclass(slots=True)
class Call:
    """What a handler gets beside its guarded values.

    `defer` registers clean-up that runs when the response is closed, whatever happened: sent, refused, aborted.
    """

    request: Request
    grant: Grant
    services: Services
    deferred: list[Callable[[], None]] = field(default_factory=list)
    raw: bool = False  # the body is the payload itself (application/octet-stream)
    inline: bool = False  # on the selector thread: nothing may wait for the disk
    paths: list[str] = field(default_factory=list)  # resolved paths, for the audit line
    program: str | None = None  # the executable of a command, for the audit line

    def defer(self, clean_up: Callable[[], None]) -> None:
        self.deferred.append(clean_up)

    def accepts(self, media_type: str) -> bool:
        """True when the caller asked for this representation by name."""
        return media_type in self.request.headers.get("accept", "")
