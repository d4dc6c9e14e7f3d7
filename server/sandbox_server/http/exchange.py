"""One request and what its framing says about the connection; and who answers it."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from ..messages import Refusal, Request, Response
from .body import WireBody


class Handler(Protocol):
    """What the socket side needs of the application. Nothing here raises."""

    def quick(self, method: str, path: str) -> bool:
        """True when this request may be tried on the selector thread."""

    def handle(self, request: Request, *, inline: bool = False) -> Response | None:
        """Answer. None only when `inline` and it would block: the request is then run again on a worker.

        When the body raised `Aborted`, whatever this answers is closed unsent.
        """

    def refuse(self, refusal: Refusal, *, client: str, method: str = "", path: str = "", id: str = "") -> Response:
        """Render and record a refusal of the socket side; what is known of the request is told."""


class Exchange(NamedTuple):
    """A request under way."""

    request: Request
    body: WireBody
    keep: bool  # whether the connection may stay open afterwards
    chunked: bool  # whether the peer understands chunks (HTTP/1.1)
