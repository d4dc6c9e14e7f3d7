"""Recorded answers that this server gives differently, and why."""

from __future__ import annotations

DEVIATIONS: dict[str, str] = {
    "path_guard:path_18": "a path outside the roots is refused unseen, also where a link would lead inside: "
    "otherwise the answer tells what exists outside",
    "path_guard:path_29": "as path_18; it is outside before it is a link",
}
