"""Failed logins slow a peer down. The table is bounded, and nobody sleeps.

After `FREE` failures an address has to wait between attempts: one second, then twice as long each time, up to
`LONGEST`. What comes meanwhile is answered 429 whether its token is right or wrong, so guessing faster tells nothing;
it does not prolong the wait either. Who has been let in from that address before is still let in: a neighbour behind
the same router, or a program in the sandbox, cannot lock a user out. It follows that guessing the token of somebody who
works from the very same address is not slowed down.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from .messages import Refusal

FREE = 10
LONGEST = 60.0
FORGOTTEN_AFTER = 900.0  # seconds without a failure
MOST_PEERS = 1024


class _Peer:
    __slots__ = ("failed_at", "failures", "known", "until")

    def __init__(self) -> None:
        self.failures = 0
        self.failed_at = -math.inf
        self.until = -math.inf
        self.known: set[str] = set()  # identities that were let in; no more than there are tokens


class Throttle:
    """Counts failed logins per address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most_peers: int = MOST_PEERS) -> None:
        self._clock = clock
        self._most_peers = most_peers
        self._lock = threading.Lock()
        self._peers: OrderedDict[str, _Peer] = OrderedDict()  # the longest unseen first

    def judge(self, client: str, identity: str | None) -> None:
        """Take note of a login as this identity, or of a failed one (None). Raises `Refusal` for who must wait."""
        address = address_of(client)
        with self._lock:
            peer = self._peers.get(address)
            if peer is None:
                self._make_room()
                peer = self._peers[address] = _Peer()
            self._peers.move_to_end(address)
            if identity in peer.known:
                return
            now = self._clock()
            if now < peer.until:
                raise _wait(peer.until - now)
            if identity is not None:
                peer.known.add(identity)
                return
            if now - peer.failed_at > FORGOTTEN_AFTER:
                peer.failures = 0
            peer.failures += 1
            peer.failed_at = now
            if peer.failures >= FREE:
                peer.until = now + min(LONGEST, 2.0 ** min(peer.failures - FREE, 16))

    def _make_room(self) -> None:
        """Forget the longest unseen; those that wait go last, so that a flood of addresses frees nobody first."""
        if len(self._peers) < self._most_peers:
            return
        now = self._clock()
        free = (address for address, peer in self._peers.items() if peer.until < now)
        del self._peers[next(free, None) or next(iter(self._peers))]


def address_of(client: str) -> str:
    """What counts as one peer: a host, or a network of IPv6, of which one machine has all addresses to itself."""
    host = client.rpartition(":")[0] or client
    host = host.strip("[]").partition("%")[0]
    if ":" not in host:
        return host
    import ipaddress  # needed for such peers only

    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))


def _wait(seconds: float) -> Refusal:
    wait = max(1, math.ceil(seconds))
    refusal = Refusal(
        "rate_limited", f"too many failed logins from this address; try again in {wait} s", retry_after=wait
    )
    refusal.headers.append(("Retry-After", str(wait)))
    return refusal
