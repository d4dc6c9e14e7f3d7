"""Changes below a directory, as events while they happen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from .. import streams
from ..call import Call
from ..guards.paths import Location
from ..messages import SSE_TYPE, Refusal, Response, Wait, quoted
from ..watching.snapshot import MOST_ENTRIES, Change, TooLarge
from ..watching.watches import Reader, Subject
from .shell import HEARTBEAT, stream_response

_SHORTEST, _LONGEST = 0.1, 300.0  # seconds of watching; the latter unless a policy says otherwise
_OFTEN, _SELDOM = 0.1, 5.0  # seconds between polls
_COMMENT = b":\n\n"


def files_watch(
    call: Call,
    *,
    path: Location,
    recursive: bool,
    interval: float,
    timeout: float | None,
    renames: bool,
    cursor: str,
) -> Response:
    """``ready``, then ``change`` events, until the time is up or the directory is gone: ``end``.

    ``overflow`` tells that changes are lost, ``mode`` that the kernel gives no notices any more, or gives them again.
    """
    limit = call.grant.seconds("max_duration_seconds") or _LONGEST
    seconds = min(limit if timeout is None else max(timeout, _SHORTEST), limit)
    subject = Subject(call.grant.paths, path.path, recursive, renames)
    try:
        reader = call.services.watches.attach(
            subject, path.inside(), interval=min(max(interval, _OFTEN), _SELDOM), cursor=cursor
        )
    except (FileNotFoundError, NotADirectoryError):
        raise Refusal("not_found", f"no directory at {quoted(path.path)}; check the path") from None
    except TooLarge:
        raise Refusal(
            "payload_too_large",
            f"{quoted(path.path)} has more than {MOST_ENTRIES} entries; watch a part of it",
            limit=MOST_ENTRIES,
        ) from None
    call.defer(reader.close)
    path.close()  # what is held open is not removed as far as the kernel's notices go
    return stream_response(SSE_TYPE, _events(reader, path.path, time.monotonic() + seconds))


def _events(reader: Reader, path: str, deadline: float) -> Iterator[bytes | Wait]:
    mode = _mode(reader)
    yield streams.event("ready", {"path": path, "mode": mode, "cursor": reader.cursor})
    heartbeat = time.monotonic() + HEARTBEAT
    while True:
        gap, changes = reader.read()
        told = [] if gap is None else [_overflow(path, gap)]
        told += [_told(change, cursor) for change, cursor in changes]
        if _mode(reader) != mode:
            mode = _mode(reader)
            told.append(streams.event("mode", {"mode": mode, "cursor": reader.cursor}))
        if told:
            yield b"".join(told)
        now = time.monotonic()
        if reader.ended is not None or now >= deadline:
            reason = reader.ended or "timeout"
            yield streams.event("end", {"reason": reason, "cursor": reader.cursor})
            return
        if told:
            heartbeat = now + HEARTBEAT
        elif now >= heartbeat:
            heartbeat = now + HEARTBEAT
            yield _COMMENT
        yield Wait(reader.descriptors, min(deadline, heartbeat, reader.due))


def _mode(reader: Reader) -> str:
    return "polling" if reader.polls else "inotify"


def _told(change: Change, cursor: str) -> bytes:
    if change.type == "overflow":
        return _overflow(change.path, cursor)
    facts: dict[str, Any] = {"type": change.type, "path": change.path, "is_dir": change.is_dir}
    if change.old is not None:
        facts |= {"from": change.old, "to": change.path}
    return streams.event("change", {**facts, "cursor": cursor})


def _overflow(path: str, cursor: str) -> bytes:
    """Something was missed: whoever keeps a picture of the directory has to look at all of it again."""
    return streams.event("overflow", {"path": path, "cursor": cursor})
