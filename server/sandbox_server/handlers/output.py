"""Captured output of a background process: by sequence number as JSON, or by byte offset as frames."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import streams
from ..call import Call
from ..messages import FRAMES_TYPE, JSON_TYPE, Refusal, Response, Wait, json_response, quoted
from ..process.background import HELD_AFTER, Background
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
    if call.accepts(FRAMES_TYPE):
        cursor = Cursor({STDOUT: max(0, stdout_from), STDERR: max(0, stderr_from)})
        body = _frames(record, ring, cursor, math.inf if follow else patience, Digests(wanted=digest))
        return stream_response(FRAMES_TYPE, body)
    if follow:
        raise Refusal("invalid_argument", f'"follow" needs the header "Accept: {FRAMES_TYPE}"', field="follow")
    since = max(0, since)
    if not patience or _has_news(record, ring, since):
        return json_response(_chunks(record, ring, since))
    return Response(200, _awaited(record, ring, since, time.monotonic() + patience), [("Content-Type", JSON_TYPE)])


def _has_news(record: Background, ring: Ring, since: int) -> bool:
    return ring.has_since(since) or (ring.closed and not record.running)


def _awaited(record: Background, ring: Ring, since: int, deadline: float) -> Iterator[bytes | Wait]:
    """The JSON form, once there is something new, or nothing came in time."""
    with _listening(ring) as wake:
        while not _has_news(record, ring, since) and time.monotonic() < deadline:
            yield Wait((wake.fileno(),), deadline)
            wake.clear()
    answer = json_response(_chunks(record, ring, since)).body
    assert isinstance(answer, bytes)
    yield answer


def _chunks(record: Background, ring: Ring, since: int) -> dict[str, Any]:
    exit = record.exit  # before the output is taken, so that "exited" means that this is all of it
    chunks, following = ring.since(since)
    events = []
    for chunk in chunks:
        text, damaged = chunk.text()
        event = {"seq": chunk.seq, "stream": NAMES[chunk.stream], "data": text}
        events.append({**event, "encoding_errors": True} if damaged else event)
    return {
        "id": record.id,
        "pid": record.pid,
        "events": events,
        "next": following,
        "state": "running" if exit is None else "exited",
        "exit_code": exit.code if exit else None,
        "signal": exit.signal if exit else None,
        "dropped": ring.dropped,
    }


def _frames(
    record: Background, ring: Ring, cursor: Cursor, patience: float, digests: Digests
) -> Iterator[bytes | Wait]:
    """Until the end; or, with less than endless `patience`, what is there now or comes first within so many seconds."""
    deadline = time.monotonic() + patience
    yield streams.record("start", id=record.id, pid=record.pid, stdout=cursor.next[STDOUT], stderr=cursor.next[STDERR])
    with _listening(ring) as wake:
        heard = time.monotonic()
        while True:
            wake.clear()
            exit, closed = record.exit, ring.closed  # before the output is taken: it is complete then
            if block := _next_frames(ring, cursor, digests):
                yield block
                heard = time.monotonic()
                deadline = deadline if deadline == math.inf else 0.0
                continue
            if exit is not None and (closed or record.held):
                break
            now = time.monotonic()
            if now >= deadline:
                break
            if now - heard >= HEARTBEAT and record.running:
                heard = now
                yield streams.record("heartbeat")
            until = heard + HEARTBEAT if record.running else now + HELD_AFTER
            yield Wait((wake.fileno(),), min(until, deadline))
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


@contextmanager
def _listening(ring: Ring) -> Iterator[Wake]:
    """What rings at every change of the ring."""
    wake = Wake()
    ring.listen(wake)
    try:
        yield wake
    finally:
        ring.leave(wake)
        wake.close()
