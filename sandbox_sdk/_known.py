"""What a client and its blocking twin know in common about their server."""

from __future__ import annotations

from dataclasses import dataclass

from ._capabilities import Snapshot


@dataclass
class Known:
    """Mutable on purpose: filled by `discover` and by every answer."""

    snapshot: Snapshot | None = None
    ours: bool | None = None  # None until the first answer
    takes_parts: bool | None = None  # whether uploads may come in parts; None until somebody asks
