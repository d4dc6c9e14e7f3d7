"""One admitted request on its way through a handler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .access import Grant, Op
from .messages import Refusal, Request

if TYPE_CHECKING:
    from .guards.location import Location
    from .services import Services


#: Refusals of the policy that `mode: observe` only notes. Everything else is refused in every mode.
OBSERVED = frozenset(
    {
        "endpoint_disabled", "missing_scope",
        "path_not_allowed", "path_denied", "read_only", "symlink_denied", "hardlink_denied", "extension_not_allowed",
        "command_not_allowed", "env_var_not_allowed", "signal_not_allowed", "shell_not_allowed",
        "language_not_allowed", "url_not_allowed",
    }
)  # fmt: skip
_NO_WEIGHT = re.compile(r"q=0(?:\.0{0,3})?")


class Call:
    """What a handler gets beside its guarded values.

    `defer` registers clean-up that runs when the response is closed, whatever happened: sent, refused, aborted.
    """

    __slots__ = (
        "audited", "deferred", "grant", "inline", "paths", "program", "raw", "refused", "request", "services", "would",
    )  # fmt: skip

    def __init__(
        self,
        request: Request,
        grant: Grant,
        services: Services,
        deferred: list[Callable[[], None]] | None = None,
        *,
        inline: bool = False,
    ) -> None:
        self.request = request
        self.grant = grant
        self.services = services
        self.deferred = [] if deferred is None else deferred
        self.inline = inline  # on the selector thread: nothing may wait for the disk
        self.raw = False  # the body is the payload itself (application/octet-stream)
        self.paths: list[str] = []  # resolved paths, for the audit line
        self.refused: str | None = None  # the path that was not let through, as the caller wrote it
        self.program: str | None = None  # the executable of a command, for the audit line
        self.audited: dict[str, Any] = {}  # what else goes into the audit line
        self.would: list[Refusal] = []  # what `mode: observe` let through

    def defer(self, clean_up: Callable[[], None]) -> None:
        self.deferred.append(clean_up)

    def guard(self, path: str, op: Op, *, follow: bool = True) -> Location:
        """A path, judged by this call's path rule; closed with the response. Raises `Refusal`."""
        place = path
        try:
            if self.grant.strict is not None:
                place = self._observe(self.grant.strict, path, op, follow)
            location = self.services.path_guard(self.grant).locate(place, op, follow=follow, cached=self.inline)
        except Refusal:
            self.refused = path
            raise
        self.defer(location.close)
        self.paths.append(location.path)
        return location

    def _observe(self, strict: Grant, path: str, op: Op, follow: bool) -> str:
        """Note what the real rule says, and answer the path from the top: it is relative to that rule's directory."""
        guard = self.services.path_guard(strict)
        try:
            guard.locate(path, op, follow=follow, cached=self.inline).close()
        except Refusal as refusal:
            self.deny(refusal)
            self.refused = path
        return guard.absolute(path)

    def require_scope(self, scope: str) -> None:
        """Raises `Refusal` when the caller does not hold it."""
        if not self.grant.identity.can(scope):
            self.deny(Refusal("missing_scope", f'this needs the scope "{scope}"', scope=scope))

    def deny(self, refusal: Refusal) -> None:
        """Refuse, because a rule says so. Under `mode: observe` that is only noted, and the call goes on."""
        if self.grant.strict is None or refusal.code not in OBSERVED:
            raise refusal
        self.would.append(refusal)

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
