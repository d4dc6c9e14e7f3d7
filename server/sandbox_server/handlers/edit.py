"""Editing a text file in place: all edits or none, and nothing else of the file changes."""

from __future__ import annotations

import hashlib
import os
import re
from functools import partial
from typing import Any

from ..call import Call
from ..guards.paths import Location
from ..messages import Refusal, Response, json_response, quoted
from .diffs import unified
from .edits import apply_edits, parse_edits
from .extensions import judge_extension
from .metadata import etag_of
from .receiving import Content, check_size, store
from .versions import check_conditions, present

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")


def files_edit(call: Call, *, path: Location, edits: Any, expected_sha256: str | None, dry_run: bool) -> Response:
    """Replace text or lines, each edit in what the one before has left; answers the digest and a diff.

    The new content is put in the place of the old by one rename. Where somebody else has changed the file meanwhile,
    nothing happens.
    """
    judge_extension(call, path.name)
    wanted = parse_edits(edits)
    if expected_sha256 is not None and not _SHA256.fullmatch(expected_sha256):
        raise Refusal("invalid_argument", '"expected_sha256" must be 64 hexadecimal digits', field="expected_sha256")
    with path.turn():
        old, seen = _read(call, path)
        _demand_version(call, path, old, seen, expected_sha256)
        new, replacements = apply_edits(old, wanted, partial(check_size, call))
        facts = seen
        if new != old and not dry_run:
            facts = _write(call, path, new, seen)
    diff, cut = unified(old, new, path.path)
    return json_response(
        {
            "path": path.path,
            "bytes": len(new),
            "sha256": hashlib.sha256(new).hexdigest(),
            "etag": etag_of(facts),
            "replacements": replacements,
            "changed": new != old,
            "dry_run": dry_run,
            "diff": diff,
            "diff_truncated": cut,
        }
    )


def _read(call: Call, path: Location) -> tuple[bytes, os.stat_result]:
    """The content, and the version of the file that it is of."""
    if path.missing:
        raise Refusal("not_found", f"no file at {quoted(path.path)}; upload it to make a new one")
    descriptor = path.open()
    try:
        seen = os.fstat(descriptor)
        check_size(call, seen.st_size)
        pieces = []
        while piece := os.read(descriptor, 1 << 20):
            pieces.append(piece)
            if len(pieces) > seen.st_size // (1 << 20) + 1:
                raise _changed(path)  # it grows faster than it can be read
        return _judged(b"".join(pieces), path), seen
    finally:
        os.close(descriptor)


def _judged(data: bytes, path: Location) -> bytes:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal(
            "not_text", f"{quoted(path.path)} is no UTF-8 text: byte {error.start} does not fit; upload it instead"
        ) from None
    return data


def _demand_version(call: Call, path: Location, data: bytes, seen: os.stat_result, expected: str | None) -> None:
    check_conditions(call.request.headers, path, seen)
    if expected is None:
        return
    sha256 = hashlib.sha256(data).hexdigest()
    if sha256 != expected.lower():
        raise Refusal(
            "precondition_failed", f"{quoted(path.path)} has another SHA-256 than expected; read it again",
            sha256=sha256, etag=etag_of(seen),
        )  # fmt: skip


def _write(call: Call, path: Location, data: bytes, seen: os.stat_result) -> os.stat_result:
    with path.replace(old=seen) as part:
        store(call, part.descriptor, Content(data, len(data), None))
        now = present(path.stat_now)
        if now is None or etag_of(now) != etag_of(seen):
            raise _changed(path)
        return part.commit()


def _changed(path: Location) -> Refusal:
    return Refusal("conflict", f"{quoted(path.path)} was changed meanwhile by somebody else; read it again")
