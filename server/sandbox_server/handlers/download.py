"""Reading a file: raw bytes with ranges and validators, or base64 inside JSON. Never more than a piece in memory."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator
from functools import lru_cache

from ..call import Call
from ..guards.paths import Location
from ..messages import JSON_TYPE, OCTETS_TYPE, Aborted, FileSlice, Refusal, Response
from .conditions import (
    byte_range,
    demand_match,
    matches_none,
    modified_since,
    repr_digest,
    unmodified_since,
    wants_sha256,
)
from .metadata import etag_of, http_date

_PIECE = 3 << 18  # 768 KiB: a multiple of three, so that encoded pieces join without padding
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$&+-.^_`|~ ()[],=@")
_ATTR_CHARS = "!#$&+-.^_`|~"  # RFC 8187, beside letters and digits


def files_download_stream(call: Call, *, path: Location) -> Response:
    """A regular file; `Accept: application/octet-stream` asks for its bytes, anything else for JSON."""
    if call.inline and not (call.accepts(OCTETS_TYPE) and not wants_sha256(call.request.headers)):
        raise BlockingIOError  # encoding and hashing are work for a worker
    descriptor = path.open()
    try:
        facts = os.fstat(descriptor)
        _check_size(call, facts.st_size)
        if call.accepts(OCTETS_TYPE):
            return _raw(call, path, descriptor, facts)
        return _encoded(call, path, descriptor, facts)
    except BaseException:
        os.close(descriptor)
        raise


def _check_size(call: Call, size: int) -> None:
    limit = call.grant.size("max_bytes")
    if limit is not None and size > limit:
        raise Refusal("payload_too_large", f"the file has {size} bytes, the limit is {limit}", limit=limit)


def _is_news(call: Call, etag: str, facts: os.stat_result) -> bool:
    """Whether the caller lacks this version (RFC 9110, section 13.2.2); a refusal when it wants another."""
    headers, seconds = call.request.headers, facts.st_mtime_ns // 1_000_000_000
    demand_match(headers, etag)
    if not unmodified_since(headers, seconds):
        raise Refusal("precondition_failed", "the file was modified since that date; read it again", etag=etag)
    return matches_none(headers, etag) and modified_since(headers, seconds)


def _raw(call: Call, path: Location, descriptor: int, facts: os.stat_result) -> Response:
    headers, size, etag = call.request.headers, facts.st_size, etag_of(facts)
    about = [("ETag", etag), ("Last-Modified", http_date(facts.st_mtime_ns)), ("Accept-Ranges", "bytes")]
    if not _is_news(call, etag, facts):
        os.close(descriptor)
        return Response(304, headers=about)
    part = byte_range(headers, etag, size) if call.request.method == "GET" else None  # RFC 9110, section 14.2
    first, length = part or (0, size)
    if wants_sha256(headers):
        about.append(repr_digest(_sha256(call, descriptor, size)))
    if part:
        about.append(("Content-Range", f"bytes {first}-{first + length - 1}/{size}"))
    about += [
        ("Content-Type", OCTETS_TYPE),
        ("Content-Disposition", content_disposition(path.name)),
    ]
    return Response(206 if part else 200, FileSlice(descriptor, first, length), about)


def _encoded(call: Call, path: Location, descriptor: int, facts: os.stat_result) -> Response:
    """The JSON form, written piece by piece so that a large file costs no memory."""
    size = facts.st_size
    head = f'{{"path":{json.dumps(path.path)},"content_base64":"'.encode()
    tail = f'","bytes":{size}}}'.encode()
    etag = etag_of(facts)
    if not _is_news(call, etag, facts):
        os.close(descriptor)
        return Response(304, headers=[("ETag", etag)])
    headers = [("Content-Type", JSON_TYPE), ("ETag", etag)]
    if size > _PIECE:
        response = Response(200, _pieces(descriptor, size, head, tail), headers)
        response.on_close.append(lambda: os.close(descriptor))
        return response
    body = b"".join(_refusable(_pieces(descriptor, size, head, tail)))
    os.close(descriptor)
    return Response(200, body, headers)


def _pieces(descriptor: int, size: int, head: bytes, tail: bytes) -> Iterator[bytes]:
    yield head
    for piece in _read(descriptor, size):
        yield base64.b64encode(piece)
    yield tail


def _read(descriptor: int, size: int) -> Iterator[bytes]:
    """Exactly `size` bytes from the start, in full pieces; a file that shrinks meanwhile breaks the answer off."""
    offset = 0
    while offset < size:
        wanted = min(_PIECE, size - offset)
        piece = os.pread(descriptor, wanted, offset)
        if len(piece) != wanted:
            raise Aborted("the file became shorter while it was being read")
        offset += wanted
        yield piece


def _refusable(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same, for an answer of which nothing has been sent yet."""
    try:
        yield from pieces
    except Aborted:
        raise Refusal("conflict", "the file became shorter while it was being read; try again") from None


def _sha256(call: Call, descriptor: int, size: int) -> bytes:
    digest = hashlib.sha256()
    for piece in _refusable(_read(descriptor, size)):
        if call.request.peer.gone():
            raise Aborted("the caller left while the digest was being computed")
        digest.update(piece)
    return digest.digest()


@lru_cache(maxsize=1024)
def content_disposition(name: str) -> str:
    """``attachment`` with the exact name (RFC 8187) and a fallback in plain ASCII that cannot end its quotes."""
    from urllib.parse import quote  # not needed to start a server

    plain = "".join(char if char in _PLAIN else "_" for char in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(os.fsencode(name), safe=_ATTR_CHARS)}"
