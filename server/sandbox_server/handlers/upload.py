"""Storing a file: content into a temporary file beside the target, then one rename.

A reader sees the old file or the new one, never a part; so does everybody after an abort, a full disk or a crash.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable
from typing import Protocol

from ..call import Call
from ..guards.paths import Location
from ..messages import Body, Refusal, Response, json_response, quoted
from .conditions import demand_match, demands_absence, matches_none, repr_digest, wants_sha256
from .metadata import etag_of, octal

_MODE = re.compile(r"0?[0-7]{3}")
_LAST_SECOND = 253402300799  # of the year 9999


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


def files_upload_stream(
    call: Call,
    *,
    path: Location,
    content_base64: bytes | None,
    overwrite: bool | None,
    mode: str,
    mtime: float | None,
    durable: bool,
) -> Response:
    """Store the body, or the decoded base64 text, as a file; answers its receipt."""
    judge_extension(call, path.name)
    bits = _permission_bits(mode)
    _check_time(mtime)
    content = None if call.raw else content_base64
    if content is None and not call.raw:
        raise Refusal(
            "invalid_argument",
            '"content_base64" is required; or send the content itself as application/octet-stream',
            field="content_base64",
        )
    length = call.request.body.length if content is None else len(content)
    _check_size(call, length)
    old = _present(path.stat)
    _check_conditions(call, path, old)
    fresh = demands_absence(call.request.headers)
    replacing = not fresh and overwrite is not False and call.grant.params.get("overwrite") is not False
    if old is not None and not replacing:
        raise Refusal("file_exists", f"{quoted(path.path)} exists and may not be overwritten")

    digest = hashlib.sha256() if wants_sha256(call.request.headers) else None
    try:
        with path.replace(overwrite=replacing, durable=durable) as replacement:
            _store(call, replacement.descriptor, content, length, digest)
            if "if-match" in call.request.headers:
                _check_conditions(call, path, _present(path.stat_now))
            facts = replacement.commit(mode=bits, mtime=mtime)
    except Refusal as refusal:
        if refusal.code == "file_exists" and fresh:
            raise _already_there(path) from None
        raise

    sha256 = digest.hexdigest() if digest else None
    receipt = {
        "path": path.path,
        "bytes": length,
        "size": facts.st_size,
        "mode": octal(facts.st_mode),
        "mtime": facts.st_mtime,
        "etag": etag_of(facts),
        "sha256": sha256,
        "created": old is None,
        "replaced_directly": replacement.replaced_directly,
    }
    response = json_response(receipt)
    if digest:
        response.headers.append(repr_digest(digest.digest()))
    return response


def _store(call: Call, descriptor: int, content: bytes | None, length: int, digest: _Digest | None) -> None:
    """Exactly `length` bytes into the temporary file, or a refusal; the room is looked at before the body moves."""
    free = _free_space(descriptor)
    if free is not None and length > free:
        raise _no_space(length, free)
    try:
        stored = _fill(call.request.body, descriptor, content, digest)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_space(length, free) from None
        raise
    if stored != length:
        raise Refusal("bad_body", f"the body ended after {stored} of {length} bytes")


def _fill(body: Body, descriptor: int, content: bytes | None, digest: _Digest | None) -> int:
    """Write the decoded text, or the body; only a digest needs the body's bytes to pass through our hands."""
    if content is None and digest is None:
        return body.copy_to(descriptor)
    stored = 0
    for piece in body.chunks() if content is None else (content,):
        if digest:
            digest.update(piece)
        stored += _write(descriptor, piece)
    return stored


def judge_extension(call: Call, name: str) -> None:
    """The last suffix, lower-cased and with its dot, against the policy's two lists; deny wins."""
    suffix = os.path.splitext(name)[1].lower()
    params = call.grant.params
    allowed = params.get("allow_extensions")
    if suffix in params.get("deny_extensions", ()) or (allowed and suffix not in allowed):
        expected = f"; allowed are {', '.join(map(quoted, allowed))}" if allowed else ""
        raise Refusal("extension_not_allowed", f"files ending in {quoted(suffix)} may not be written here{expected}")


def _permission_bits(mode: str) -> int | None:
    if not mode:
        return None
    if not _MODE.fullmatch(mode):
        raise Refusal(
            "invalid_argument", f'"mode" must be three octal digits such as "644", not {quoted(mode, 16)}', field="mode"
        )
    return int(mode, 8)


def _check_time(mtime: float | None) -> None:
    if mtime is not None and not 0 <= mtime <= _LAST_SECOND:
        raise Refusal(
            "invalid_argument", f'"mtime" must be Unix seconds up to {_LAST_SECOND}, not {mtime}', field="mtime"
        )


def _check_size(call: Call, length: int) -> None:
    """The default bounds the JSON form; a raw body is bounded only where a policy says so, and by free space."""
    limit = call.grant.size("max_bytes")
    if limit is not None and length > limit and (not call.raw or "max_bytes" in call.grant.configured_limits):
        raise Refusal("payload_too_large", f"the file has {length} bytes, the limit is {limit}", limit=limit)


def _present(look: Callable[[], os.stat_result]) -> os.stat_result | None:
    try:
        return look()
    except FileNotFoundError:
        return None


def _check_conditions(call: Call, path: Location, old: os.stat_result | None) -> None:
    etag = etag_of(old) if old else None
    demand_match(call.request.headers, etag)
    if not matches_none(call.request.headers, etag):
        raise _already_there(path)


def _already_there(path: Location) -> Refusal:
    return Refusal("precondition_failed", f"{quoted(path.path)} exists in a version that If-None-Match excludes")


def _free_space(descriptor: int) -> int | None:
    """Bytes left for us; None where the file system counts none, as some virtual ones do."""
    space = os.fstatvfs(descriptor)
    return space.f_bavail * space.f_frsize if space.f_blocks else None


def _no_space(needed: int, free: int | None) -> Refusal:
    return Refusal("no_space", f"{needed} bytes do not fit on the device", needed=needed, free=free)


def _write(descriptor: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    return len(data)
