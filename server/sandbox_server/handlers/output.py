"""Captured output of a background process: by sequence number as JSON, or by byte offset as frames."""

from __future__ import annotations

import select
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .. import streams
from ..call import Call
from ..messages import FRAMES_TYPE, Peer, Refusal, Response, json_response, quoted
from ..process.background import HELD_AFTER, Background
from ..process.caller import Caller
from ..process.ring import NAMES, STDERR, STDOUT, Cursor, Gap, Ring
from ..process.wake import Wake
from .digests import Digests
from .shell import HEARTBEAT, stream_response

_LONGEST_WAIT = 30.0


def process_output(
    call: Call,
    *,
    pid: str,
    since: int,
    wait: float,
    follow: bool,
    stdout_from: int,
    stderr_from: int,
    digest: bool,
) -> Response:
    """What is still held, or, followed, everything until the end. Going away never stops the process."""
    record = call.services.processes.find(pid, call.grant.identity.id)
    ring = record.ring
    if ring is None:
        raise Refusal(
            "conflict", f'the output of process {quoted(pid)} is not kept; start it with "capture_output": true'
        )
    patience = min(wait, _LONGEST_WAIT) if wait > 0 else 0.0
    peer = call.request.peer
    if call.accepts(FRAMES_TYPE):
        cursor = Cursor({STDOUT: max(0, stdout_from), STDERR: max(0, stderr_from)})
        body = _frames(record, ring, cursor, peer, None if follow else patience, Digests(wanted=digest))
        return stream_response(FRAMES_TYPE, body)
    if follow:
        raise Refusal("invalid_argument", f'"follow" needs the header "Accept: {FRAMES_TYPE}"', field="follow")
    return _chunks(record, ring, max(0, since), peer, patience)


def _chunks(record: Background, ring: Ring, since: int, peer: Peer, patience: float) -> Response:
    deadline = time.monotonic() + patience
    if patience:
        with _listening(ring, peer) as hear:
            while not (ring.has_since(since) or (ring.closed and not record.running)):
                if not hear(deadline - time.monotonic()):
                    break
    exit = record.exit  # before the output is taken, so that "exited" means that this is all of it
    chunks, following = ring.since(since)
    events = []
    for chunk in chunks:
        text, damaged = chunk.text()
        event = {"seq": chunk.seq, "stream": NAMES[chunk.stream], "data": text}
        events.append({**event, "encoding_errors": True} if damaged else event)
    return json_response(
        {
            "id": record.id,
            "pid": record.pid,
            "events": events,
            "next": following,
            "state": "running" if exit is None else "exited",
            "exit_code": exit.code if exit else None,
            "signal": exit.signal if exit else None,
            "dropped": ring.dropped,
        }
    )


def _frames(
    record: Background, ring: Ring, cursor: Cursor, peer: Peer, patience: float | None, digests: Digests
) -> Iterator[bytes]:
    """Until the end; or, with `patience`, what is there now or comes first within so many seconds."""
    deadline = None if patience is None else time.monotonic() + patience
    yield streams.record("start", id=record.id, pid=record.pid, stdout=cursor.next[STDOUT], stderr=cursor.next[STDERR])
    with _listening(ring, peer) as hear:
        while True:
            exit, closed = record.exit, ring.closed  # before the output is taken: it is complete then
            if block := _next_frames(ring, cursor, digests):
                yield block
                deadline = None if deadline is None else 0.0
                continue
            if exit is not None and (closed or record.held):
                break
            if deadline is not None and time.monotonic() >= deadline:
                break
            if not hear(_pause(record, deadline)) and deadline is None and record.running:
                yield streams.record("heartbeat")
    held = streams.record("held") if exit is not None and not closed else b""
    yield held + streams.record(
        "end", exit_code=exit.code if exit else None, signal=exit.signal if exit else None,
        reason=record.child.cause if exit else "running",
        stdout=ring.written[STDOUT], stderr=ring.written[STDERR], sha256=digests.told(),
    )  # fmt: skip


def _next_frames(ring: Ring, cursor: Cursor, digests: Digests) -> bytes:
    frames = []
    for part in ring.take(cursor):
        if isinstance(part, Gap):
            facts = {"stream": NAMES[part.stream], "from": part.start, "to": part.end}
            frames.append(streams.record("gap", **facts))
        else:
            digests.add(part.stream, part.data)
            frames.append(streams.frame(part.stream, part.data))
    return b"".join(frames)


def _pause(record: Background, deadline: float | None) -> float:
    if not record.running:
        return HELD_AFTER
    return HEARTBEAT if deadline is None else min(HEARTBEAT, deadline - time.monotonic())


class _Ears:
    """Waits for news of a ring, and for the peer's going away."""

    def __init__(self, wake: Wake, peer: Peer) -> None:
        self._wake = wake
        poll = select.poll()
        poll.register(wake, select.POLLIN)
        self._caller = Caller(peer, poll)

    def __call__(self, seconds: float) -> bool:
        """False when nothing was heard for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._caller.poll(left * 1000 + 1):
                self._wake.clear()
                return True
        return False


@contextmanager
def _listening(ring: Ring, peer: Peer) -> Iterator[_Ears]:
    wake = Wake()
    ring.listen(wake)
    try:
        yield _Ears(wake, peer)
    finally:
        ring.leave(wake)
        wake.close()
