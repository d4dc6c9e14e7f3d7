"""Packing and unpacking: the calls, and what an unpacked archive has come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from . import _wire as wire
from ._call import Call, call
from ._calls import content_of
from ._display.shown import Shown
from ._public import public
from ._wire import Json

ArchiveFormat: TypeAlias = Literal["tar", "tar.gz", "zip"]

MEDIA_TYPES: dict[ArchiveFormat, str] = {
    "tar": "application/x-tar",
    "tar.gz": "application/gzip",
    "zip": "application/zip",
}
#: What the name of an archive ends in.
ENDINGS: dict[str, ArchiveFormat] = {".zip": "zip", ".tar": "tar", ".tar.gz": "tar.gz", ".tgz": "tar.gz"}


@public
@dataclass(frozen=True)
class Unpacked(Shown):
    """What an archive has become: a directory of the sandbox, and what was written below it."""

    path: str
    files: int
    directories: int
    links: int
    bytes: int

    @classmethod
    def from_wire(cls, data: Json) -> Unpacked:
        return cls(
            path=wire.text(data, "path"),
            files=wire.whole(data, "files"),
            directories=wire.whole(data, "directories"),
            links=wire.whole(data, "links"),
            bytes=wire.whole(data, "bytes"),
        )


def archive(paths: Sequence[str], format: ArchiveFormat, level: int | None) -> Call[bytes]:
    """Asks for the streamed form; takes base64 JSON if need be."""
    headers = {"Accept": f"{_media_type(format)}, application/json;q=0.5", "Accept-Encoding": "identity"}
    return call("files_archive", content_of, headers=headers, paths=list(paths), format=format, level=level)


def unpack(path: str, *, format: ArchiveFormat, size: int, overwrite: bool) -> Call[Unpacked]:
    """The caller streams `size` bytes behind it."""
    return call(
        "files_unpack",
        Unpacked.from_wire,
        raw=True,
        headers={"Content-Type": _media_type(format), "Content-Length": str(size)},
        patience=size / (5 << 20),  # a zip is unpacked after the last byte has gone out
        path=path,
        overwrite=None if overwrite else False,
    )


def _media_type(format: ArchiveFormat) -> str:
    if format not in MEDIA_TYPES:
        raise ValueError(f'"{format}" is no format of an archive; use one of {", ".join(MEDIA_TYPES)}')
    return MEDIA_TYPES[format]


def format_of(start: bytes) -> ArchiveFormat:
    """By the first bytes: what is neither zip nor gzip can only be a tar."""
    if start.startswith(b"PK"):
        return "zip"
    return "tar.gz" if start.startswith(b"\x1f\x8b") else "tar"


def format_named(name: str) -> ArchiveFormat | None:
    """By the end of a file's name, in upper or lower case; None where that tells nothing."""
    return next((format for end, format in ENDINGS.items() if name.lower().endswith(end)), None)
