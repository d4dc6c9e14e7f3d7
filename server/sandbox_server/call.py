"""One admitted request on its way through a handler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .access import Grant, Op
from .messages import Refusal, Request

if TYPE_CHECKING:
    from .guards.location import Location
    from .services import Services


_NO_WEIGHT = re.compile(r"q=0(?:\.0{0,3})?")


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
    refused: str | None = None  # the path that was not let through, as the caller wrote it
    program: str | None = None  # the executable of a command, for the audit line

    def defer(self, clean_up: Callable[[], None]) -> None:
        self.deferred.append(clean_up)

    def guard(self, path: str, op: Op) -> Location:
        """A path that no field carries, judged by this call's path rule; closed with the response. Raises `Refusal`."""
        try:
            location = self.services.path_guard(self.grant).locate(path, op)
        except Refusal:
            self.refused = path
            raise
        self.defer(location.close)
        self.paths.append(location.path)
        return location

    def require_scope(self, scope: str) -> None:
        """Raises `Refusal` when the caller does not hold it."""
        if not self.grant.identity.can(scope):
            raise Refusal("missing_scope", f'this needs the scope "{scope}"', scope=scope)

    def accepts(self, media_type: str) -> bool:
        """True when the caller asked for this representation by name."""
        accept = self.request.headers.get("accept", "")
        return accept == media_type or media_type in _named(accept)


def _named(accept: str) -> Iterator[str]:
    """The media types of an Accept field (RFC 9110, section 12.5.1) but those of weight zero."""
    for item in accept.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        if not any(_NO_WEIGHT.fullmatch(parameter) for parameter in parameters):
            yield name
