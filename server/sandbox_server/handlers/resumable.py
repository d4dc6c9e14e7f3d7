"""Uploads in parts, so that a broken connection costs nothing that has arrived.

"Resumable Uploads for HTTP" (draft-ietf-httpbis-resumable-upload): ``Upload-Complete: ?0`` on an upload begins one and
answers its ``Location``, before the body (104) to those who understand that; there HEAD tells the offset, PATCH adds to
it, DELETE cancels. What has arrived lies in a part beside the target. When all is there the target is located and
judged once more, and gets its content by one rename.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from ..call import Call
from ..catalogue.files import PARTIAL_TYPE
from ..guards.paths import Location, Replacement
from ..guards.uploads import Upload, unknown_upload
from ..messages import Headers, Refusal, Response, json_response, quoted
from .conditions import demands_absence, expected_sha256, wants_sha256
from .extensions import judge_extension
from .inplace import Finish, Placed
from .receipts import receipt
from .receiving import Content, Digest, check_room, check_size, is_full, no_space
from .versions import already_there, check_conditions, present

_INTEGER = re.compile(r"[0-9]{1,15}")
_PROBLEMS = "https://iana.org/assignments/http-problem-types#"
_PIECE = 1 << 20
_INTEROP = "8"  # while it is a draft, 104 goes only to those who name the same version of it


def upload_complete(headers: Headers) -> bool | None:
    """``Upload-Complete``; None when it is absent or no Boolean, which counts as absent."""
    return {"?1": True, "?0": False}.get(headers.get("upload-complete", ""))


def begin(call: Call, path: Location, old: os.stat_result | None, finish: Finish, *, replacing: bool) -> Response:
    """A new upload to this path, with what the body holds of it already."""
    headers, body = call.request.headers, call.request.body
    length = _whole(headers, "upload-length")
    if length is not None and body.length > length:
        raise _inconsistent(length, body.length)
    _demand_size(call, max(body.length, length or 0))
    part = path.replace(overwrite=replacing, durable=finish.durable, old=old)
    upload = Upload(
        owner=call.grant.identity.id,
        path=path.path,
        part=part,
        replacing=replacing,
        headers=headers,
        mode=finish.mode,
        mtime=finish.mtime,
        durable=finish.durable,
        length=length,
    )
    try:
        check_room(part.descriptor, max(body.length, length or 0))
    except BaseException:
        upload.drop()
        raise
    uploads = call.services.uploads
    uploads.add(upload)
    with uploads.holding(upload, body):
        told = False
        try:
            told = _announce(call, upload)
            _take_in(call, upload, part)
        except BaseException:
            if not told:
                uploads.forget(upload)  # nobody knows where it is
            raise
    return _state(call, upload, 201)


def status(call: Call, *, id: str) -> Response:
    """How far an upload is, and its receipt once it is complete."""
    upload = _find(call, id)
    call.services.uploads.settle(upload, ending=call.request.method == "HEAD")
    return _state(call, upload, 200)


def append(call: Call, *, id: str) -> Response:
    """The bytes that follow those which have arrived; with ``Upload-Complete: ?1`` they are the last."""
    if not call.raw:
        refusal = Refusal("unsupported_media_type", f"send the bytes as {PARTIAL_TYPE}")
        refusal.headers.append(("Accept-Patch", PARTIAL_TYPE))
        raise refusal
    headers = call.request.headers
    complete, offset = upload_complete(headers), _whole(headers, "upload-offset")
    if complete is None or offset is None:
        missing = "Upload-Offset, a whole number" if offset is None else "Upload-Complete, ?0 or ?1"
        raise Refusal("invalid_argument", f"an upload goes on with {missing}")
    upload = _find(call, id)
    with call.services.uploads.holding(upload, call.request.body):
        part = _demand_place(upload, offset)
        end = offset + call.request.body.length
        _note_length(upload, headers, end, complete)
        _demand_size(call, end)
        with _telling(upload):
            check_room(part.descriptor, end - offset)
            _take_in(call, upload, part)
        if not complete:
            return _state(call, upload, 204)
        return _end(call, upload, part)


def cancel(call: Call, *, id: str) -> Response:
    """Forget an upload and what has arrived of it."""
    call.services.uploads.cancel(_find(call, id))
    return Response(204)


def _find(call: Call, upload_id: str) -> Upload:
    upload = call.services.uploads.find(upload_id, call.grant.identity.id)
    call.paths.append(upload.path)
    return upload


def _demand_place(upload: Upload, offset: int) -> Replacement:
    arrived = upload.offset
    if upload.part is None and not upload.complete:  # cancelled at this very moment
        raise unknown_upload(upload.id)
    if upload.part is None:
        refusal = Refusal(
            "conflict", "this upload is complete; begin another one", problem=f"{_PROBLEMS}completed-upload"
        )
        refusal.headers += [("Upload-Offset", str(arrived)), ("Upload-Complete", "?1")]
        raise refusal
    if offset != arrived:
        refusal = Refusal(
            "conflict",
            f"{arrived} bytes have arrived, so what follows begins there, not at {offset}",
            problem=f"{_PROBLEMS}mismatching-upload-offset",
            **{"expected-offset": arrived, "provided-offset": offset},
        )
        refusal.headers += [("Upload-Offset", str(arrived)), ("Upload-Complete", "?0")]
        raise refusal
    return upload.part


def _note_length(upload: Upload, headers: Headers, end: int, complete: bool) -> None:
    """All that is said about the length of the whole must agree."""
    said = [length for length in (upload.length, _whole(headers, "upload-length")) if length is not None]
    if complete:
        said.append(end)
    if any(length != said[0] or end > length for length in said):
        raise _inconsistent(said[0], end)
    upload.length = said[0] if said else None


def _inconsistent(length: int, end: int) -> Refusal:
    return Refusal(
        "invalid_argument",
        f"the upload is to have {length} bytes, which does not agree with {end}",
        problem=f"{_PROBLEMS}inconsistent-upload-length",
    )


def _demand_size(call: Call, length: int) -> None:
    try:
        check_size(call, length)
    except Refusal as refusal:
        refusal.headers.append(("Upload-Limit", _limits(call)))
        raise


@contextmanager
def _telling(upload: Upload) -> Iterator[None]:
    """A refusal in mid-body tells how far it came all the same."""
    try:
        yield
    except Refusal as refusal:
        refusal.headers += [("Upload-Offset", str(upload.offset)), ("Upload-Complete", "?0")]
        raise


def _announce(call: Call, upload: Upload) -> bool:
    """Tell the sender where the upload is, before it sends any of it; whether it was told."""
    if call.request.headers.get("upload-draft-interop-version") != _INTEROP:
        return False
    fields = [
        ("Upload-Draft-Interop-Version", _INTEROP),
        ("Location", _place(upload)),
        ("Upload-Limit", _limits(call, call.services.uploads.remaining(upload))),
    ]
    return call.request.body.inform(104, "Upload Resumption Supported", fields)


def _take_in(call: Call, upload: Upload, part: Replacement) -> None:
    """The body behind what is there. What breaks off stays: the next request goes on behind it."""
    os.lseek(part.descriptor, 0, os.SEEK_END)
    try:
        call.request.body.copy_to(part.descriptor)
    except OSError as error:
        if not is_full(error):
            raise
        raise no_space(part.descriptor, call.request.body.length) from None
    finally:
        upload.offset = os.fstat(part.descriptor).st_size


def _end(call: Call, upload: Upload, part: Replacement) -> Response:
    """Put it in its place. A refusal now is about the file, so the upload is over all the same."""
    try:
        response = _put_in_place(call, upload, part)
    except BaseException as error:
        if isinstance(error, Refusal):
            error.headers.append(("Upload-Complete", "?1"))
        call.services.uploads.forget(upload)
        raise
    assert isinstance(response.body, bytes)
    upload.finish(response.body)
    response.headers += [("Upload-Offset", str(upload.offset)), ("Upload-Complete", "?1")]
    return response


def _put_in_place(call: Call, upload: Upload, part: Replacement) -> Response:
    call.paths.clear()  # it goes into the audit line once
    path = call.guard(upload.path, "write")
    judge_extension(call, path.name)
    if not path.is_target_of(part):
        raise Refusal("conflict", f"the directory of {quoted(upload.path)} was exchanged meanwhile; begin again")
    content = Content(None, upload.offset, _digest(call, upload, part))
    fresh = demands_absence(upload.headers)
    with path.turn():
        old = present(path.stat_now)
        check_conditions(upload.headers, path, old)
        if old is not None and not upload.replacing:
            raise Refusal("file_exists", f"{quoted(path.path)} exists and may not be overwritten")
        part.renew(old)
        try:
            facts = part.commit(mode=upload.mode, mtime=upload.mtime)
        except Refusal as refusal:
            if fresh and refusal.code == "file_exists":
                raise already_there(path) from None
            raise
    return receipt(path, Placed(facts, direct=part.replaced_directly, created=old is None), content)


def _digest(call: Call, upload: Upload, part: Replacement) -> Digest | None:
    """The SHA-256 of all that has arrived, when somebody asked for it or told what it must be."""
    both = (upload.headers, call.request.headers)
    expected = next((digest for digest in map(expected_sha256, reversed(both)) if digest), None)
    if not (expected or any(map(wants_sha256, both))):
        return None
    digest, at = Digest(expected), 0
    while piece := os.pread(part.descriptor, _PIECE, at):
        digest.update(piece)
        at += len(piece)
    digest.demand()
    return digest


def _state(call: Call, upload: Upload, code: int) -> Response:
    offset = upload.offset
    facts = {
        "id": upload.id,
        "path": upload.path,
        "offset": offset,
        "length": upload.length,
        "complete": upload.complete,
    }
    if code == 204:
        response = Response(204)
    elif upload.complete:
        response = Response(200, upload.receipt, [("Content-Type", "application/json; charset=utf-8")])
    else:
        response = json_response(facts, code)
    response.headers += [
        ("Upload-Offset", str(offset)),
        ("Upload-Complete", "?1" if upload.complete else "?0"),
        ("Upload-Limit", _limits(call, call.services.uploads.remaining(upload))),
    ]
    if code == 201:
        response.headers.append(("Location", _place(upload)))
    if upload.length is not None:
        response.headers.append(("Upload-Length", str(upload.length)))
    return response


def _place(upload: Upload) -> str:
    return f"/files/uploads/{upload.id}"


def _limits(call: Call, seconds: int | None = None) -> str:
    limits = {
        "max-age": seconds,
        "max-size": call.grant.written_size("max_bytes"),
        "max-append-size": call.grant.written_size("max_request_bytes"),
    }
    return ", ".join(f"{name}={value}" for name, value in limits.items() if value is not None)


def _whole(headers: Headers, name: str) -> int | None:
    """A header field that is a whole number; anything else counts as absent (RFC 9651)."""
    value = headers.get(name, "")
    return int(value) if _INTEGER.fullmatch(value) else None
