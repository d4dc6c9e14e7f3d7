"""Files and directories in the sandbox."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any

from .. import _calls as calls
from .._acompat import acallback, apieces, arun_blocking
from .._archive_calls import ArchiveFormat, Unpacked, format_named
from .._errors import EndpointNotAvailableError, NotFoundError, NotTextError
from .._listings import FileList
from .._models import FileInfo, Receipt
from .._public import public
from .._search import SearchResult, search
from .._sync.files import Files  # async only
from ..transfer import layout
from ..transfer import source as sources
from ..transfer.options import READ_LIMIT, Options, Verify
from ..transfer.progress import Progress, ProgressCallback
from ..transfer.source import Data, Source
from ._twins import AsyncFilesTwins  # async only
from .archives import AsyncArchives
from .changes import AsyncFileChanges
from .connection import AsyncConnection
from .downloads import AsyncDownloads
from .trees import AsyncTrees
from .watch import AsyncFileWatch


@public
class AsyncFiles(AsyncFilesTwins, AsyncFileChanges):
    """Reads and writes files in the sandbox. Relative paths start at the first directory the policy allows."""

    def __init__(self, connection: AsyncConnection) -> None:
        super().__init__(connection)
        self._archives = AsyncArchives(connection)
        self._downloads = AsyncDownloads(connection)
        self._trees = AsyncTrees(connection, self._transfers, self._downloads)

    @property
    def _twin(self) -> Files:  # async only
        return self._connection.twin.files

    async def list(
        self, path: str = ".", *, recursive: bool = False, max_entries: int | None = None, max_depth: int | None = None
    ) -> FileList:
        """The entries of a directory, sorted by path: all of them unless `max_entries` says otherwise.

        `recursive` goes into directories, `max_depth` levels deep (as deep as the server goes when nobody says).
        Raises `NotFoundError` where there is no directory, `FilePolicyDeniedError` where the policy forbids it.
        """
        entries = FileList()
        cursor: str | None = None
        while True:
            left = None if max_entries is None else max_entries - len(entries)
            page = await self._connection.send(
                calls.list_page(path, recursive=recursive, max_entries=left, max_depth=max_depth, cursor=cursor)
            )
            entries += page.entries
            if not page.cursor or (max_entries is not None and len(entries) >= max_entries):
                return entries
            cursor = page.cursor

    async def stat(self, path: str, *, follow: bool = True) -> FileInfo:
        """Facts about a path; a missing one is a `NotFoundError`. `follow=False` describes a link itself."""
        info = await self._connection.send(calls.stat(path, follow))
        if not info.exists:
            raise NotFoundError(f'no such file or directory: "{path}"', error_code="not_found", endpoint="files_stat")
        return info

    async def exists(self, path: str) -> bool:
        """Is there something at this path? A path the policy denies raises."""
        return (await self._connection.send(calls.stat(path, True))).exists

    async def mkdir(self, path: str) -> str:
        """Make a directory and any missing parents; answers its full path."""
        return await self._connection.send(calls.mkdir(path))

    async def delete(self, path: str) -> None:
        """Remove a file, a link, or a directory with all that is in it."""
        await self._connection.send(calls.delete(path))

    async def move(self, source: str, destination: str) -> str:
        """Rename or relocate; an existing directory receives the source inside. Answers the new path."""
        return await self._connection.send(calls.move(source, destination))

    async def search(
        self,
        path: str,
        pattern: str | None = None,
        *,
        contents: str | None = None,
        regex: bool = False,
        ignore_case: bool = False,
        context: int = 0,
        max_depth: int | None = None,
        max_results: int | None = None,
    ) -> SearchResult:
        """Find files below a directory by name, or the lines in them that hold a text.

        `pattern` is a shell pattern for the name, as ``*.csv``. `contents` is text, or with `regex` a regular
        expression, that is looked for line by line; `context` lines before and after come along, 20 at most. Five
        levels are looked at and 100 hits answered when nobody says; the result tells when there is more. Binary files
        and those over 32 MiB are skipped. Raises `NotFoundError` where there is no directory, and `ValueError` for
        neither `pattern` nor `contents`.
        """
        if contents is not None and not await self._connection.ours():
            raise EndpointNotAvailableError("this server cannot search in files", endpoint="files_search")
        return await self._connection.send(
            search(
                path,
                pattern,
                contents=contents,
                regex=regex,
                ignore_case=ignore_case,
                context=context,
                max_depth=max_depth,
                max_results=max_results,
            )
        )

    def watch(
        self,
        path: str = ".",
        *,
        recursive: bool = False,
        interval: float | None = None,
        timeout: float | None = None,
        cursor: str = "",
    ) -> AsyncFileWatch:
        """Iterate the changes below a directory; use it as a context manager.

        It goes on until it is closed, the directory is removed, or `timeout` seconds are over. `recursive` watches
        subdirectories too. `interval` is how often the server looks where its kernel does not tell. With the `cursor`
        of an earlier watch it goes on behind that, for a minute after that one has ended.
        """
        return AsyncFileWatch(
            self._connection, path, recursive=recursive, interval=interval, timeout=timeout, cursor=cursor
        )

    async def upload(
        self,
        src: str | os.PathLike[str] | Data,
        dst: str,
        *,
        overwrite: bool = True,
        progress: ProgressCallback | None = None,
        verify: Verify = "size",
        mode: str | None = None,
        durable: bool = False,
    ) -> Receipt:
        """Store a local file, a directory, bytes, a binary file object or an iterator of bytes in the sandbox.

        Text is a path; `write` stores text itself. Where a file or directory ends up is what ``cp -r`` would do.

        `overwrite=False` refuses to replace a file (`ConflictError`). `progress` is called with (bytes done, bytes in
        all). `verify` compares the ``"size"``, or the ``"sha256"`` digest too. `mode` is three octal digits, as
        ``"640"``; else a replaced file keeps its own. `durable` waits until it is on the disk.

        Raises `PolicyDeniedError`, `PayloadTooLargeError` and `NoSpaceError` as the server refuses it, and
        `TransferError` when it did not arrive as it was sent, or when files of a directory failed.
        """
        options = Options(overwrite, verify, mode, durable)
        report = Progress(acallback(progress))
        if not isinstance(src, (str, os.PathLike)):
            if dst.endswith("/"):
                raise ValueError(f'"{dst}" names a directory; data needs the name of a file')
            return await self._store(src, dst, options, report)
        path = os.fspath(src)
        if await arun_blocking(lambda: os.path.isdir(path)):
            return await self._trees.upload(path, dst, options, report)
        target = layout.inside(dst, layout.base_name(path)) if dst.endswith("/") else dst
        with await arun_blocking(lambda: sources.of_path(path)) as source:
            report.total = source.size
            receipt = await self._transfers.upload_into(source, target, layout.base_name(path), options, report)
        report.finish()
        return receipt

    async def write(
        self,
        path: str,
        data: str | Data,
        *,
        overwrite: bool = True,
        progress: ProgressCallback | None = None,
        verify: Verify = "size",
        mode: str | None = None,
        durable: bool = False,
        append: bool = False,
        offset: int | None = None,
    ) -> Receipt:
        """Store text (as UTF-8), bytes, a binary file object or an iterator of bytes as one file.

        `append` adds to the end instead, as `append` does; `offset` writes from that byte on and keeps the rest of the
        file. The other options are those of `upload`, and so are the errors.
        """
        report = Progress(acallback(progress))
        if append or offset is not None:
            if append and offset is not None:
                raise ValueError("give append=True or offset=, not both")
            return await self._write_into(path, data, offset, mode=mode, durable=durable, etag=None, report=report)
        return await self._store(data, path, Options(overwrite, verify, mode, durable), report)

    async def _store(self, data: Any, path: str, options: Options, report: Progress) -> Receipt:
        if isinstance(data, AsyncIterable):  # async only
            return await self._flow(aiter(data), path, options, report)
        flow = await arun_blocking(lambda: sources.of_unknown_size(data))
        if flow is not None:
            return await self._flow(apieces(flow), path, options, report)
        return await self._send(await arun_blocking(lambda: sources.of_data(data)), path, options, report)

    async def _flow(self, flow: AsyncIterator[Any], path: str, options: Options, report: Progress) -> Receipt:
        receipt = await self._transfers.upload_flow(flow, path, options, report)
        report.finish()
        return receipt

    async def _send(self, source: Source, path: str, options: Options, report: Progress) -> Receipt:
        with source:
            report.total = source.size
            receipt = await self._transfers.upload(source, path, options, report)
        report.finish()
        return receipt

    async def download(
        self,
        src: str,
        dst: str | os.PathLike[str] = ".",
        *,
        progress: ProgressCallback | None = None,
        verify: Verify = "size",
    ) -> Receipt:
        """Store a file or directory of the sandbox locally, where ``cp -r`` would put it.

        A local file stays as it was until all of the new one is here. A broken connection is resumed. `progress` and
        `verify` are those of `upload`. Raises `NotFoundError`, `PolicyDeniedError`, and `TransferError` when it did not
        arrive as it was sent, or when files of a directory failed.
        """
        report = Progress(acallback(progress))
        receipt = await self._trees.download(src, os.fspath(dst), Options(verify=verify), report)
        report.finish()
        return receipt

    async def archive(
        self,
        paths: str | Sequence[str],
        dst: str | os.PathLike[str],
        *,
        format: ArchiveFormat | None = None,
        level: int | None = None,
        progress: ProgressCallback | None = None,
    ) -> Receipt:
        """Pack files and directories of the sandbox into one local archive, streamed as it is read.

        What the policy hides, and links that lead out of what it allows, are left out. A local file stays as it was
        until all of the archive is here. `format` is what the name of `dst` ends in when nobody says, else tar.gz.
        `level` is 0 (none) to 9. `progress` is told the bytes so far, as done and in all.

        Raises `NotFoundError` and `PolicyDeniedError` when one of the paths is not there, or not allowed, and
        `SandboxConnectionError` when the archive broke off.
        """
        report = Progress(acallback(progress))
        wanted = [paths] if isinstance(paths, str) else list(paths)
        local = os.fspath(dst)
        receipt = await self._archives.pack(wanted, local, format or format_named(local) or "tar.gz", level, report)
        report.finish()
        return receipt

    async def unpack(
        self,
        src: str | os.PathLike[str] | Data,
        dst: str = ".",
        *,
        format: ArchiveFormat | None = None,
        overwrite: bool = True,
        progress: ProgressCallback | None = None,
    ) -> Unpacked:
        """Unpack a local archive (a path, bytes, a binary file object) into a directory of the sandbox.

        All of it, or nothing: members that lead elsewhere, or that the policy denies, refuse the whole archive.
        `format` is told by the first bytes when nobody says. `overwrite=False` refuses to replace a file.

        Raises `ConflictError`, `PolicyDeniedError`, `PayloadTooLargeError` and `NoSpaceError` as the server refuses
        it, and `ServerAPIError` with the code ``bad_archive`` for an archive that is damaged or leads elsewhere.
        """
        report = Progress(acallback(progress))
        with await arun_blocking(lambda: _archive_source(src)) as source:
            report.total = source.size
            unpacked = await self._archives.unpack(source, dst, format, overwrite, report)
        report.finish()
        return unpacked

    async def read(
        self, path: str, *, offset: int = 0, length: int | None = None, limit: int | None = READ_LIMIT
    ) -> bytes:
        """A file as bytes: whole, or `length` bytes from `offset` on, fewer where it ends before.

        More than `limit` bytes (256 MiB) are a `PayloadTooLargeError` before they are read; None means any size.
        """
        if offset < 0 or (length is not None and length < 1):
            raise ValueError("offset= begins at 0, length= at 1")
        return await self._downloads.read(path, limit, offset, length)

    async def read_text(
        self, path: str, *, encoding: str = "utf-8", errors: str = "strict", limit: int | None = READ_LIMIT
    ) -> str:
        """A whole file as text; one that is not text in this encoding is a `NotTextError`."""
        data = await self._downloads.read(path, limit)
        try:
            return data.decode(encoding, errors)
        except UnicodeDecodeError as error:
            raise NotTextError(
                f'"{path}" is not {encoding} text: byte {error.start} does not fit',
                hint="read() it as bytes, or pass another encoding= or errors='replace'",
            ) from None


def _archive_source(src: Any) -> Source:
    return sources.of_path(os.fspath(src)) if isinstance(src, (str, os.PathLike)) else sources.of_data(src)
