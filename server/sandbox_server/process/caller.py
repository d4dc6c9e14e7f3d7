"""The caller who waits for a command, watched together with whatever else a loop waits for."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from ..messages import Aborted, Peer, Wait

_GONE = select.POLLHUP | select.POLLERR
_ENDING = getattr(select, "POLLRDHUP", 0) | _GONE
#: No event tells when a caller leaves who has ended its own side before; so it is looked after, in seconds.
_FIRST_LOOK, _RARELY = 0.02, 1.0

Item = TypeVar("Item")


class Caller:
    """Polls for a loop, and raises `Aborted` there once nobody is left to read an answer.

    A caller that has only ended its own side of the connection still waits for the answer.
    """

    __slots__ = ("_descriptor", "_look_at", "_pause", "_peer", "_poll")

    def __init__(self, peer: Peer, poll: select.poll) -> None:
        self._peer = peer
        self._poll = poll
        self._descriptor = peer.fileno()
        self._look_at = math.inf
        self._pause = _FIRST_LOOK
        if self._descriptor >= 0:
            poll.register(self._descriptor, _ENDING)

    def poll(self, milliseconds: float | None) -> list[tuple[int, int]]:
        """The events of the others. Nothing may have happened although the time is not over."""
        if self._look_at != math.inf:
            left = max(0.0, self._look_at - time.monotonic()) * 1000 + 1
            milliseconds = left if milliseconds is None else min(milliseconds, left)
        ready = self._poll.poll(milliseconds)
        told = any(descriptor == self._descriptor for descriptor, _ in ready)
        if told or (self._look_at != math.inf and time.monotonic() >= self._look_at):
            self._look()
        return [event for event in ready if event[0] != self._descriptor] if told else ready

    def _look(self) -> None:
        if self._peer.gone():
            raise Aborted
        self._poll.modify(self._descriptor, _GONE)
        self._look_at = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _RARELY)


def attended(items: Iterable[Item | Wait], peer: Peer) -> Iterator[Item]:
    """All but the waits, which this thread does; `Aborted` once the peer has gone."""
    for item in items:
        if not isinstance(item, Wait):
            yield item
            continue
        poll = select.poll()
        for descriptor in item.descriptors:
            poll.register(descriptor, select.POLLIN)
        caller = Caller(peer, poll)
        while (left := item.until - time.monotonic()) > 0 and not caller.poll(_milliseconds(left)):
            pass


def _milliseconds(seconds: float) -> float | None:
    return None if seconds == math.inf else seconds * 1000
