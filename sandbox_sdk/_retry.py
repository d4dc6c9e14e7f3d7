"""When a request may be sent again. Pure: facts in, seconds to wait out, or None for never.

Only a GET is repeated, and only when no byte of an answer has been seen or the server itself asks to come back soon.
Nothing that carries a body is ever replayed.
"""

from __future__ import annotations

_BROKEN_WAITS = (0.05, 0.25)
_ASKED_WAITS = 2
_LONGEST_WAIT = 2.0


def after_failure(method: str, attempt: int) -> float | None:
    """Seconds to wait after a connection that failed before any answer. `attempt` counts from 0."""
    if method == "GET" and attempt < len(_BROKEN_WAITS):
        return _BROKEN_WAITS[attempt]
    return None


def after_refusal(method: str, status: int, retry_after: float | None, attempt: int) -> float | None:
    """Seconds to wait after a 429 or 503 that says when to come back; a long wait is the caller's decision."""
    if method != "GET" or status not in (429, 503) or retry_after is None or attempt >= _ASKED_WAITS:
        return None
    return retry_after if retry_after <= _LONGEST_WAIT else None
