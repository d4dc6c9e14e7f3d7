"""Unpacking an archive that is the request's body: a tar while it arrives, a zip once its directory is there.

Every member is judged like a file that is written, and the archive is unpacked whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ..archives.members import Entry
from ..archives.reading import Bytes, bad, gunzipped
from ..archives.tar_reader import read_tar
from ..archives.zip_reader import ZipReader
from ..call import Call
from ..guards.paths import Location
from ..guards.staging import Staging
from ..messages import Refusal, Response, json_response
from .extensions import judge_extension
from .receiving import is_full

_MOST_MEMBERS = 1_000_000  # where no policy says less
_LOOK = 16 << 20  # bytes between two looks at the free space
_Members = Iterator[tuple[Entry, Iterator["bytes | memoryview"]]]


def files_unpack(call: Call, *, path: Location, overwrite: bool | None) -> Response:
    """Write what the archive holds below a directory; answers how much that was."""
    if not call.raw:
        offered = ", ".join(call.grant.endpoint.raw_types)
        raise Refusal("unsupported_media_type", f"the body must be the archive itself, as one of {offered}")
    replacing = overwrite is not False and call.grant.params.get("overwrite") is not False
    with path.stage() as staging:
        unpacking = _Unpacking(call, staging)
        kind = call.request.media_type
        try:
            if kind == "application/zip":
                unpacking.zip()
            else:
                pieces = call.request.body.chunks()
                unpacking.add(read_tar(Bytes(gunzipped(pieces) if kind == "application/gzip" else pieces)))
        except OSError as error:
            if not is_full(error):
                raise
            raise unpacking.no_space() from None
        staging.commit(overwrite=replacing)
        directories = len(staging.directories)
    return json_response(
        {
            "path": path.path,
            "files": unpacking.files,
            "directories": directories,
            "links": unpacking.links,
            "bytes": unpacking.bytes,
        }
    )


class _Unpacking:
    """One archive on its way into a staging directory, and what it has come to."""

    def __init__(self, call: Call, staging: Staging) -> None:
        self._call = call
        self._staging = staging
        self._most_bytes = call.grant.size("max_bytes")
        self._most_files = call.grant.size("max_files")
        self._unlooked = _LOOK
        self._free = staging.free()  # before there is anything of it
        self.files = self.links = self.bytes = 0
        self._members = 0

    def no_space(self) -> Refusal:
        """What is told when it did not fit: the bytes so far against the room that there was."""
        return _no_space(self.bytes, self._free)

    def zip(self) -> None:
        """Spool the body; every member is judged before the first is written."""
        staging = self._staging
        self._room(self._call.request.body.length)
        spool = staging.spool()
        try:
            self._call.request.body.copy_to(spool)
            reader = ZipReader(spool, _MOST_MEMBERS)
            self._admit_all(member.entry for member in reader.members)
            self.add(reader.read())
        finally:
            os.close(spool)

    def _admit_all(self, entries: Iterable[Entry]) -> None:
        size = files = 0
        for entry in entries:
            self._judge(entry)
            size += entry.size
            files += entry.kind == "file"
            self._bound(files, size)
        self._room(size)

    def add(self, members: _Members) -> None:
        for entry, content in members:
            self._members += 1
            if self._members > _MOST_MEMBERS:
                raise bad(f"the archive has more than {_MOST_MEMBERS} members; split it")
            self._judge(entry)
            match entry.kind:
                case "directory":
                    self._staging.add_directory(entry.name, entry.mode)
                case "link":
                    self._staging.judge_link(entry.name, entry.target)
                    self._staging.add_link(entry.name, entry.target)
                    self.links += 1
                case "hardlink":
                    self._staging.add_hard_link(entry.name, entry.target)
                    self.files += 1
                case "file":
                    self._bound(self.files + self.links + 1, self.bytes + entry.size)
                    self._staging.add_file(entry.name, self._counted(entry, content), entry.mode, entry.mtime)
                    self.files += 1
            self._bound(self.files + self.links, self.bytes)

    def _counted(self, entry: Entry, content: Iterator[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        self._unlooked += entry.size
        if self._unlooked >= _LOOK:
            self._room(entry.size)
            self._unlooked = 0
        for piece in content:
            self.bytes += len(piece)
            yield piece

    def _judge(self, entry: Entry) -> None:
        if entry.name:
            self._staging.judge(entry.name)
        elif entry.kind != "directory":
            raise bad("the archive holds a file without a name")
        if entry.kind != "directory":
            judge_extension(self._call, entry.name)

    def _bound(self, files: int, size: int) -> None:
        if self._most_bytes is not None and size > self._most_bytes:
            message = f"the archive holds more than {self._most_bytes} bytes"
            raise Refusal("payload_too_large", message, limit=self._most_bytes)
        if self._most_files is not None and files > self._most_files:
            message = f"the archive holds more than {self._most_files} files"
            raise Refusal("payload_too_large", message, limit=self._most_files)

    def _room(self, needed: int) -> None:
        free = self._staging.free()
        if free is not None and needed > free:
            raise _no_space(needed, free)


def _no_space(needed: int, free: int | None) -> Refusal:
    return Refusal("no_space", f"{needed} bytes do not fit on the device", needed=needed, free=free)
