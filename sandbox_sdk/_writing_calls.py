"""The calls that change files in other ways than storing them whole: appends, edits, bits, uploads in parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from . import _calls as calls
from . import _wire as wire
from ._call import Call, call, encoded, nothing
from ._models import Receipt
from ._writing import EditResult, UploadState

PARTIAL = "application/partial-upload"
_PLACE = "/files/uploads/"
_BYTES_A_SECOND = 50 << 20  # at the least, of what the server does with a file after its last byte has come


def write_into(
    path: str, *, size: int, offset: int | None, mode: str | None, durable: bool, etag: str | None
) -> Call[Receipt]:
    """Add to the end, or write at an offset; the caller streams `size` bytes behind it."""
    headers = {"Content-Type": calls.OCTETS, "Content-Length": str(size)}
    if etag is not None:
        headers["If-Match"] = etag
    return call(
        "files_upload_stream",
        Receipt.from_wire,
        raw=True,
        headers=headers,
        patience=size / _BYTES_A_SECOND,
        path=path,
        append=True if offset is None else None,
        offset=offset,
        mode=mode,
        durable=durable or None,
    )


def edit(path: str, edits: Sequence[Mapping[str, Any]], expected_sha256: str | None, dry_run: bool) -> Call[EditResult]:
    return call(
        "files_edit",
        EditResult.from_wire,
        path=path,
        edits=[dict(edit) for edit in edits],
        expected_sha256=expected_sha256,
        dry_run=dry_run or None,
    )


def chmod(path: str, mode: str, recursive: bool) -> Call[int]:
    return call(
        "files_chmod",
        lambda data: wire.whole(data, "changed"),
        path=path,
        mode=mode,
        recursive=recursive or None,
    )


def begin_upload(
    path: str, *, size: int | None, overwrite: bool, mode: str | None, durable: bool, sha256: bool
) -> Call[UploadState]:
    begun = calls.upload(path, size=0, overwrite=overwrite, mode=mode, durable=durable, sha256=sha256)
    headers = {**begun.headers, "Upload-Complete": "?0"}
    if size is not None:
        headers["Upload-Length"] = str(size)
    return Call(
        begun.endpoint, begun.method, begun.target, lambda data: _begun(data, size), b"", headers, begun.patience
    )


def upload_state(place: str) -> Call[None]:
    """The state is in the header fields."""
    return _step("HEAD", place, nothing)


def upload_receipt(place: str) -> Call[Receipt]:
    return _step("GET", place, Receipt.from_wire)


def upload_part(place: str, *, offset: int, size: int, last: bool) -> Call[Receipt]:
    """The caller streams `size` bytes behind it; only the last one is answered by a receipt."""
    headers = {
        "Content-Type": PARTIAL,
        "Content-Length": str(size),
        "Upload-Offset": str(offset),
        "Upload-Complete": "?1" if last else "?0",
    }
    patience = (offset + size if last else size) / _BYTES_A_SECOND
    return replace(_step("PATCH", place, Receipt.from_wire), headers=headers, patience=patience)


def cancel_upload(place: str) -> Call[None]:
    return _step("DELETE", place, nothing)


def nowhere() -> str:
    """The place of an upload that cannot be, to ask whether a server knows such places."""
    return f"{_PLACE}0"


def _step(method: str, place: str, decode: Any) -> Call[Any]:
    return Call("files_upload_stream", method, place, decode)


def _begun(data: wire.Json, size: int | None) -> UploadState:
    place = _PLACE + encoded(wire.text(data, "id"))
    return UploadState(place, wire.text(data, "path"), wire.whole(data, "offset"), size)
