"""Changing files where they are: appends, edits, permission bits; and uploads that come in parts."""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping, Sequence
from typing import Any

from .. import _writing_calls as writing
from .._acompat import acallback, arun_blocking
from .._models import Receipt
from .._parts import Part
from .._sync.changes import FileChanges  # async only
from .._writing import EditResult
from ..transfer import source as sources
from ..transfer.options import Options, Verify
from ..transfer.progress import Progress, ProgressCallback
from ..transfer.source import Data, Source
from ._twins import AsyncFileChangesTwins  # async only
from .connection import AsyncConnection
from .transfers import (
    AsyncTransfers,
    spooled,  # async only
)
from .uploads import AsyncUpload


class AsyncFileChanges(AsyncFileChangesTwins, Part[AsyncConnection]):
    """What `AsyncFiles` does to files that are there already."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection)
        self._transfers = AsyncTransfers(connection)

    @property
    def _twin(self) -> FileChanges:  # async only
        return self._connection.twin.files

    async def append(
        self,
        path: str,
        data: str | Data,
        *,
        progress: ProgressCallback | None = None,
        mode: str | None = None,
        durable: bool = False,
        etag: str | None = None,
    ) -> Receipt:
        """Add text (as UTF-8), bytes, a binary file object or what an iterator yields to the end of a file.

        A missing file is made. Appends never mix with those of others, and one that breaks off adds nothing. With
        `etag` the file must be in that version (`ConflictError`). The receipt tells the bytes added. `mode`, `durable`
        and the errors are those of `upload`.
        """
        report = Progress(acallback(progress))
        return await self._write_into(path, data, None, mode=mode, durable=durable, etag=etag, report=report)

    async def edit(
        self,
        path: str,
        edits: Sequence[Mapping[str, Any]] | Mapping[str, Any],
        *,
        expected_sha256: str | None = None,
        dry_run: bool = False,
    ) -> EditResult:
        """Replace text or lines of a UTF-8 text file: all edits, each in what the one before has left, or none.

        An edit is ``{"old": text, "new": text}``, where the old text must stand in the file exactly once (or
        ``"all": True``), or ``{"start_line": 3, "end_line": 5, "new": text}``, counted from 1; an end before the start
        inserts. `expected_sha256` refuses another version; `dry_run` only answers what would become of it.

        Raises `ConflictError` (code ``edit_mismatch``, with ``facts["edit"]``) when something is not where an edit
        says, or when the file is another version, and `NotFoundError` when there is no file.
        """
        wanted = [edits] if isinstance(edits, Mapping) else edits
        return await self._connection.send(writing.edit(path, wanted, expected_sha256, dry_run))

    async def chmod(self, path: str, mode: str | int, *, recursive: bool = False) -> int:
        """Set permission bits (``"640"``, or ``0o640``); answers how many files and directories that changed.

        `recursive` gives the same bits to everything below a directory; links are left alone.
        """
        text = mode if isinstance(mode, str) else f"{mode:03o}"
        return await self._connection.send(writing.chmod(path, text, recursive))

    async def begin_upload(
        self,
        path: str,
        *,
        size: int | None = None,
        overwrite: bool = True,
        verify: Verify = "size",
        mode: str | None = None,
        durable: bool = False,
    ) -> AsyncUpload:
        """Begin a file that is sent part by part, by whoever produces the parts.

        What has arrived stays for an hour, also when the connection breaks. The file appears when its `finish`
        is called, whole. `size` lets the server refuse what cannot fit; the other options are those of `upload`.
        Raises `EndpointNotAvailableError` when the server only stores whole files.
        """
        await self._transfers.require_parts()
        return await self._transfers.begin(path, size, Options(overwrite, verify, mode, durable))

    async def _write_into(
        self,
        path: str,
        data: str | Data,
        offset: int | None,
        *,
        mode: str | None,
        durable: bool,
        etag: str | None,
        report: Progress,
    ) -> Receipt:
        await self._transfers.require_parts()  # who knows no parts would replace the file
        with await self._known(data) as source:
            report.total = source.size
            call = writing.write_into(path, size=source.size, offset=offset, mode=mode, durable=durable, etag=etag)
            receipt = await self._transfers.send(call, source, report)
        report.finish()
        return receipt

    async def _known(self, data: Any) -> Source:
        """A source of known size: an append is one request, whole or not at all."""
        if isinstance(data, AsyncIterable):  # async only
            return await spooled(aiter(data))
        return await arun_blocking(lambda: sources.of_data(data))
