"""Storing a file: content into a temporary file beside the target, then one rename.

A reader sees the old file or the new one, never a part; so does everybody after an abort, a full disk or a crash.
With ``append`` or ``offset`` the file is changed where it is instead: `inplace` says what is promised then.
"""

from __future__ import annotations

import os
import re
from contextlib import nullcontext

from ..call import Call
from ..guards.paths import Location, Replacement
from ..messages import Refusal, Response, quoted
from .conditions import demands_absence, expected_sha256, wants_sha256
from .extensions import judge_extension
from .inplace import Finish, Placed, demand_within, mapped, write_into
from .receipts import receipt
from .receiving import Content, Digest, check_size, receive, store
from .resumable import begin, upload_complete
from .versions import already_there, check_again, check_conditions, present

_MODE = re.compile(r"0?[0-7]{3}")
_LAST_SECOND = 253402300799  # of the year 9999


def files_upload_stream(
    call: Call,
    *,
    path: Location,
    content_base64: bytes | None,
    overwrite: bool | None,
    append: bool,
    offset: int | None,
    mode: str,
    mtime: float | None,
    durable: bool,
) -> Response:
    """Store the body, or the decoded base64 text, as a file or as a part of one; answers its receipt."""
    judge_extension(call, path.name)
    finish = Finish(permission_bits(mode), mtime, durable)
    check_time(mtime)
    fresh = demands_absence(call.request.headers)
    within = append or offset is not None
    _check_place(append, offset, fresh)
    given = _given(call, content_base64)
    length = call.request.body.length if given is None else len(given)
    check_size(call, length)
    old = present(path.stat)
    check_conditions(call.request.headers, path, old)
    replacing = not fresh and overwrite is not False and call.grant.params.get("overwrite") is not False
    if old is not None and not replacing:
        raise Refusal("file_exists", f"{quoted(path.path)} exists and may not be overwritten")
    if within:
        demand_within(path, offset, old.st_size if old else 0)

    complete = upload_complete(call.request.headers) if call.raw else None
    if complete is False:
        _demand_whole(within)
        return begin(call, path, old, finish, replacing=replacing)

    content = receive(call, given, length, _digest(call, within))
    if within:
        placed = _insert(call, path, content, finish, offset, old)
    else:
        placed = _replace(call, path, content, finish, old, overwrite=replacing, fresh=fresh)
    response = receipt(path, placed, content)
    if complete:
        response.headers += [("Upload-Complete", "?1"), ("Upload-Offset", str(length))]
    return response


def _replace(
    call: Call, path: Location, content: Content, finish: Finish, old: os.stat_result | None,
    *, overwrite: bool, fresh: bool,
) -> Placed:  # fmt: skip
    """New content for the whole file."""
    quick = content.data is not None and not finish.durable
    turn = path.turn_beside() if quick else nullcontext()
    with turn, path.replace(overwrite=overwrite, durable=finish.durable, old=old) as part:
        store(call, part.descriptor, content)
        try:
            with path.turn():
                check_again(call, path)
                facts = part.commit(mode=finish.mode, mtime=finish.mtime)
        except Refusal as refusal:
            if fresh and refusal.code == "file_exists":
                raise already_there(path) from None
            raise
        return Placed(facts, direct=part.replaced_directly, created=old is None)


def _insert(
    call: Call, path: Location, content: Content, finish: Finish, offset: int | None, old: os.stat_result | None
) -> Placed:
    """More content at the end of the file, or at an offset; a missing file is made of it."""

    def write(data: bytes | memoryview) -> Placed:
        with path.turn():
            check_again(call, path)
            return write_into(call, path, data, offset, finish)

    if content.data is not None and old is not None:
        content.digest_all()
        return write(content.data)
    with path.replace(overwrite=old is not None, durable=finish.durable, old=old) as part:
        store(call, part.descriptor, content)
        if old is None and (made := _add(part, finish)):
            return made
        with mapped(part.descriptor, content.length) as data:
            return write(data)


def _add(part: Replacement, finish: Finish) -> Placed | None:
    """A new file; None when somebody else has made one of this name meanwhile."""
    try:
        facts = part.commit(mode=finish.mode, mtime=finish.mtime)
    except Refusal as refusal:
        if refusal.code != "file_exists":
            raise
        return None
    return Placed(facts, direct=part.replaced_directly, created=True)


def _digest(call: Call, within: bool) -> Digest | None:
    """What takes the SHA-256 of the content, when somebody asked for it or told what it must be."""
    headers = call.request.headers
    expected = None if within else expected_sha256(headers)
    return Digest(expected) if expected or wants_sha256(headers) else None


def _given(call: Call, content_base64: bytes | None) -> bytes | None:
    """The content of the JSON form; None when the body is the content."""
    if call.raw:
        return None
    if content_base64 is None:
        raise Refusal(
            "invalid_argument",
            '"content_base64" is required; or send the content itself as application/octet-stream',
            field="content_base64",
        )
    return content_base64


def permission_bits(mode: str) -> int | None:
    if not mode:
        return None
    if not _MODE.fullmatch(mode):
        raise Refusal(
            "invalid_argument", f'"mode" must be three octal digits such as "644", not {quoted(mode, 16)}', field="mode"
        )
    return int(mode, 8)


def check_time(mtime: float | None) -> None:
    if mtime is not None and not 0 <= mtime <= _LAST_SECOND:
        raise Refusal(
            "invalid_argument", f'"mtime" must be Unix seconds up to {_LAST_SECOND}, not {mtime}', field="mtime"
        )


def _check_place(append: bool, offset: int | None, fresh: bool) -> None:
    if offset is not None and (append or offset < 0):
        expected = "left out with append" if append else "0 or more"
        raise Refusal("invalid_argument", f'"offset" must be {expected}', field="offset")
    if fresh and (append or offset is not None):
        field = "append" if append else "offset"
        raise Refusal(
            "invalid_argument",
            f'"{field}" changes a file that If-None-Match: * forbids to exist; send one',
            field=field,
        )


def _demand_whole(within: bool) -> None:
    if within:
        raise Refusal("invalid_argument", "what comes in parts is a whole file; send an append or an offset at once")
