"""What a client and its blocking twin know in common about their server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ._capabilities import Snapshot
from ._errors import ServerAPIError

log = logging.getLogger("sandbox_sdk")


@dataclass
class Known:
    """Mutable on purpose: filled by `discover` and by every answer."""

    snapshot: Snapshot | None = None
    ours: bool | None = None  # None until the first answer
    sandbox: str = ""  # the name of the one that the server is of, where it is of one
    takes_parts: bool | None = None  # whether uploads may come in parts; None until somebody asks
    listeners: list[Callable[[ServerAPIError], object]] = field(default_factory=list)

    def require(self, endpoint: str) -> None:
        """Raise what the server would answer, where that is known."""
        if self.snapshot is None:
            return
        try:
            self.snapshot.require(endpoint)
        except ServerAPIError as refusal:
            self.tell(refusal)
            raise

    def tell(self, refusal: ServerAPIError) -> None:
        """Let the listeners know. One that fails must not hide the refusal from the caller."""
        for listener in tuple(self.listeners):
            try:
                listener(refusal)
            except Exception:
                log.warning("a listener to refusals failed", exc_info=True)
