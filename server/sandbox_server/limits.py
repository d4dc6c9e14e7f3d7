"""Rate and concurrency, counted per identity and endpoint."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from .access import Grant
from .messages import Refusal


class _Count:
    __slots__ = ("filled", "running", "tokens")

    def __init__(self, tokens: float, now: float) -> None:
        self.tokens = tokens
        self.filled = now  # when `tokens` was last right, by the clock
        self.running = 0


class Limits:
    """Admits or refuses by `rate_per_minute` (a token bucket that starts full) and `max_concurrency`.

    The table has at most one row per configured identity and endpoint, so it needs no bound of its own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], _Count] = {}

    def enter(self, grant: Grant) -> Callable[..., None] | None:
        """Take a place; answers what gives it back, or None when nothing is limited.

        Calling the answer with ``refund=True`` also gives the rate token back (the request will be tried again).
        """
        limits = grant.limits
        if limits.get("rate_per_minute") is None and limits.get("max_concurrency") is None:
            return None
        rate, most = grant.size("rate_per_minute"), grant.size("max_concurrency")
        key = (grant.identity.id, grant.endpoint.id)
        with self._lock:
            now = self._clock()
            count = self._counts.get(key)
            if count is None:
                count = self._counts[key] = _Count(float(rate or 0), now)
            if rate is not None:
                count.tokens = min(float(rate), count.tokens + (now - count.filled) * rate / 60)
                count.filled = now
                if count.tokens < 1:
                    wait = max(1, math.ceil((1 - count.tokens) * 60 / rate))
                    raise _too_many("rate_limited", f"more than {rate} requests in a minute", wait)
                count.tokens -= 1
            if most is not None and count.running >= most:
                raise _too_many("concurrency_limited", f"more than {most} requests at once", 1)
            count.running += 1

        def leave(refund: bool = False) -> None:
            with self._lock:
                count.running -= 1
                if refund:
                    count.tokens += 1

        return leave


def _too_many(code: str, message: str, wait: int) -> Refusal:
    refusal = Refusal(code, f"{message}; try again in {wait} s", retry_after=wait)
    refusal.headers.append(("Retry-After", str(wait)))
    return refusal
