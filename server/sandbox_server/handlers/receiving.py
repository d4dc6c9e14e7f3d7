"""The bytes of an upload on their way into an open file: exactly as many as were announced, or a refusal."""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from ..call import Call
from ..messages import Body, Refusal

#: A body of this size is read into memory before any file is opened for it.
SMALL = 1 << 16
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Digest:
    """The SHA-256 of what passes, and what it must be if the sender has told."""

    __slots__ = ("_expected", "_hash")

    def __init__(self, expected: bytes | None = None) -> None:
        import hashlib  # most uploads ask for none

        self._hash = hashlib.sha256()
        self._expected = expected

    def update(self, data: bytes) -> None:
        self._hash.update(data)

    def value(self) -> bytes:
        return self._hash.digest()

    def demand(self) -> None:
        """Refuse what did not arrive as it was sent."""
        if self._expected not in (None, self.value()):
            raise Refusal(
                "bad_body", f"what arrived has the SHA-256 {self.value().hex()}, not that of Repr-Digest; send it again"
            )


def check_size(call: Call, length: int) -> None:
    """The default bounds the JSON form; a raw body is bounded only where a policy says so, and by free space."""
    limit = call.grant.size("max_bytes")
    if limit is not None and length > limit and (not call.raw or "max_bytes" in call.grant.configured_limits):
        raise Refusal("payload_too_large", f"the file has {length} bytes, the limit is {limit}", limit=limit)


class Content(NamedTuple):
    """What is to be written: bytes in memory, or (None) the body that has yet to come."""

    data: bytes | None
    length: int
    digest: Digest | None

    def digest_all(self) -> None:
        if self.digest and self.data:
            self.digest.update(self.data)


def receive(call: Call, given: bytes | None, length: int, digest: Digest | None) -> Content:
    """The content that was given, or the body; one so small that it is read at once."""
    if given is None and length <= SMALL:
        given = call.request.body.read()
        if len(given) != length:
            raise _cut_short(len(given), length)
    return Content(given, length, digest)


def store(call: Call, descriptor: int, content: Content) -> None:
    """All of it into an empty file; the room for much is looked at before it moves."""
    length = content.length
    if length > SMALL:
        check_room(descriptor, length)
    try:
        if content.data is not None:
            content.digest_all()
            stored = write_all(descriptor, content.data)
        else:
            stored = move(call.request.body, descriptor, content.digest)
    except OSError as error:
        if not is_full(error):
            raise
        os.ftruncate(descriptor, 0)  # what is told is the room for another try
        raise no_space(descriptor, length) from None
    if stored != length:
        raise _cut_short(stored, length)
    if content.digest:
        content.digest.demand()


def move(body: Body, descriptor: int, digest: Digest | None) -> int:
    """The body into a file; only a digest needs its bytes to pass through our hands."""
    if digest is None:
        return body.copy_to(descriptor)
    stored = 0
    for piece in body.chunks():
        digest.update(piece)
        stored += write_all(descriptor, piece)
    return stored


def check_room(descriptor: int, length: int) -> None:
    """Refuse what cannot fit beside an open file."""
    free = _free_space(descriptor)
    if free is not None and length > free:
        raise no_space(descriptor, length)


def is_full(error: OSError) -> bool:
    return error.errno in _FULL


def no_space(descriptor: int, needed: int) -> Refusal:
    """`descriptor` is any open file of the device; what is free is looked at now."""
    return Refusal("no_space", f"{needed} bytes do not fit on the device", needed=needed, free=_free_space(descriptor))


def _cut_short(received: int, length: int) -> Refusal:
    return Refusal("bad_body", f"the body ended after {received} of {length} bytes")


def write_all(descriptor: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    return len(data)


def _free_space(descriptor: int) -> int | None:
    """Bytes left for us; None where the file system counts none, as some virtual ones do."""
    space = os.fstatvfs(descriptor)
    return space.f_bavail * space.f_frsize if space.f_blocks else None
