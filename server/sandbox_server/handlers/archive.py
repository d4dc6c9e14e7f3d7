"""Packing files: streamed as it is read when the caller takes an archive, in base64 inside JSON otherwise.

Both forms hold the same members, but for directories: the older form has none of their own, the streamed one all.
"""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain

from ..archives.blocks import gzipped, joined
from ..archives.members import Source
from ..archives.tar_writer import tar
from ..archives.zip_writer import zipped
from ..call import Call
from ..guards.packing import sources
from ..guards.paths import Location
from ..messages import JSON_TYPE, OCTETS_TYPE, Aborted, Refusal, Response, quoted
from .download import content_disposition

_TYPES = {"tar": "application/x-tar", "tar.gz": "application/gzip", "zip": "application/zip"}
_PIECE = 3 << 18  # a multiple of three, so that encoded pieces join without padding
_STREAMED_LEVEL, _WHOLE_LEVEL = 1, 6
_LONGEST_IN_ZIP = 65535  # bytes; a directory's name gets a slash


def files_archive(call: Call, *, paths: tuple[Location, ...], format: str | None, level: int | None) -> Response:
    """All that may be read of these paths; what may not is left out."""
    raw = _wants_raw(call)
    format = _format(call, format)
    level = _level(level, raw)
    for path in paths:
        if path.missing:
            raise Refusal("not_found", f"no file or directory at {quoted(path.path)}; check the path")
    packing = _Packing(_named(paths), directories=raw, zip=format == "zip")
    size = call.grant.written_size if raw else call.grant.size
    most_bytes, most_files = size("max_bytes"), size("max_files")
    if most_files is not None:
        with _refusing():
            packing.count(most_files)
    pieces = packing.pieces(format, level)
    if not raw:
        return _whole(pieces, format, most_bytes)
    blocks = joined(_bounded(pieces, most_bytes))
    with _refusing():
        first = next(blocks)  # whatever is wrong with the paths themselves becomes a refusal, not a broken archive
    disposition = content_disposition(_file_name(paths, format))
    response = Response(
        200, chain((first,), blocks), [("Content-Type", _TYPES[format]), ("Content-Disposition", disposition)]
    )
    response.on_close.append(blocks.close)
    return response


def _wants_raw(call: Call) -> bool:
    return any(map(call.accepts, (*_TYPES.values(), OCTETS_TYPE)))


def _format(call: Call, asked: str | None) -> str:
    """What was asked for, else what the Accept field names, else the contract's default."""
    if asked is None:
        return next((name for name, media_type in _TYPES.items() if call.accepts(media_type)), "tar.gz")
    if asked not in _TYPES:
        raise Refusal(
            "invalid_argument", f'"format" must be "tar", "tar.gz" or "zip", not {quoted(asked, 16)}', field="format"
        )
    return asked


def _level(asked: int | None, raw: bool) -> int:
    if asked is None:
        return _STREAMED_LEVEL if raw else _WHOLE_LEVEL
    if not 0 <= asked <= 9:
        raise Refusal("invalid_argument", f'"level" must be 0 to 9, not {asked}', field="level")
    return asked


def _named(paths: tuple[Location, ...]) -> list[tuple[Location, str]]:
    """Every path once, with the name of its member: its own, numbered where another has the same."""
    named: dict[str, tuple[Location, str]] = {}
    taken: set[str] = set()
    for path in paths:
        if path.path in named:
            continue
        name, number = path.name, 1
        while name in taken:
            number += 1
            stem, suffix = os.path.splitext(path.name)
            name = f"{stem} ({number}){suffix}"
        taken.add(name)
        named[path.path] = (path, name)
    return list(named.values())


def _file_name(paths: tuple[Location, ...], format: str) -> str:
    return f"{paths[0].name if len(paths) == 1 and paths[0].name else 'archive'}.{format}"


class _Packing:
    """What goes into one archive; looked through once for every use."""

    def __init__(self, named: list[tuple[Location, str]], *, directories: bool, zip: bool) -> None:
        self._named = named
        self._directories = directories
        self._zip = zip

    def count(self, most: int) -> None:
        files = (source for source in self._sources() if not stat.S_ISDIR(source.mode))
        for number, _ in enumerate(files, 1):
            if number > most:
                raise Refusal("invalid_argument", f"there are more than {most} files to pack; pack parts of it")

    def pieces(self, format: str, level: int) -> Iterator[bytes]:
        if format == "zip":
            return zipped(self._sources(), level)
        pieces = tar(self._sources())
        return gzipped(joined(pieces), level) if format == "tar.gz" else pieces

    def _sources(self) -> Iterator[Source]:
        for location, name in self._named:
            with location:  # held open only while it is packed: there may be thousands
                for source in sources(location, name, directories=self._directories, links=not self._zip):
                    if self._zip and len(source.name) >= _LONGEST_IN_ZIP:
                        longest = f"zip holds names of less than {_LONGEST_IN_ZIP} bytes"
                        raise _Unfit(Refusal("invalid_argument", f"{longest}; take tar, or parts", field="format"))
                    yield source


class _Unfit(Aborted):
    """The archive cannot be as it was asked for. Once its head has been sent, it can only be broken off."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def _bounded(pieces: Iterable[bytes], most: int | None) -> Iterator[bytes]:
    """The same; an archive that outgrows its limit is broken off, since its head may have been sent."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if most is not None and size > most:
            raise _Unfit(Refusal("payload_too_large", f"the archive has more than {most} bytes; pack less", limit=most))
        yield piece


@contextmanager
def _refusing() -> Iterator[None]:
    """As long as nothing has been sent, what would break an archive off is a refusal."""
    try:
        yield
    except _Unfit as reason:
        raise reason.refusal from None
    except Aborted:
        raise Refusal("conflict", "a file became shorter while it was being packed; try again") from None


def _whole(pieces: Iterator[bytes], format: str, most: int | None) -> Response:
    """The JSON form; held in memory until its size is known, as the answer's status depends on it."""
    archive = bytearray()
    with _refusing():
        for piece in _bounded(pieces, most):
            archive += piece
    return Response(200, _encoded(archive, format), [("Content-Type", JSON_TYPE)])


def _encoded(archive: bytearray, format: str) -> Generator[bytes, None, None]:
    yield b'{"content_base64":"'
    for place in range(0, len(archive), _PIECE):
        yield base64.b64encode(archive[place : place + _PIECE])
    yield f'","format":{json.dumps(format)},"bytes":{len(archive)}}}'.encode()
