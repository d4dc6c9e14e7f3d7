"""Directories up and down, file by file: every file has its outcome, and one that fails does not stop the others."""

from __future__ import annotations

import os

from .. import _calls as calls
from .._acompat import arun_blocking
from .._errors import EndpointNotAvailableError, NotFoundError, PolicyDeniedError, ServerAPIError, TransferError
from .._models import FileEntry, FileInfo, FileOutcome, Receipt
from ..transfer import layout
from ..transfer import source as sources
from ..transfer.local import on_this_side
from ..transfer.options import Options
from ..transfer.progress import Progress
from .connection import AsyncConnection
from .downloads import AsyncDownloads
from .transfers import AsyncTransfers


class AsyncTrees:
    """Moves directories, and decides where a download ends up."""

    def __init__(self, connection: AsyncConnection, transfers: AsyncTransfers, downloads: AsyncDownloads) -> None:
        self._connection = connection
        self._transfers = transfers
        self._downloads = downloads

    async def upload(self, path: str, dst: str, options: Options, progress: Progress) -> Receipt:
        """Store a local directory in the sandbox. All sizes are known, and judged, before a byte moves."""
        tree = await arun_blocking(lambda: layout.scan(path))
        snapshot = self._connection.known.snapshot
        if snapshot is not None:
            for file in tree.files:
                snapshot.require_size("files_upload_stream", file.size)
        progress.total = tree.size
        info = await self._stat(dst)
        target = layout.tree_target(path, dst, info is not None and info.is_dir)
        for relative in tree.directories or ([] if tree.files else [""]):
            await self._connection.send(calls.mkdir(layout.inside(target, relative)))
        outcomes = [FileOutcome(local, relative, skipped=reason) for local, relative, reason in tree.skipped]
        for local, relative, reason in tree.unreadable:
            outcomes.append(FileOutcome(local, layout.inside(target, relative), error=_unreadable(local, reason)))
        for file in tree.files:
            outcomes.append(await self._upload_one(file, layout.inside(target, file.relative), options, progress))
        progress.finish()
        return _summary(target, outcomes)

    async def _upload_one(
        self, file: layout.LocalFile, target: str, options: Options, progress: Progress
    ) -> FileOutcome:
        try:
            with await arun_blocking(lambda: sources.of_path(file.path)) as source:
                receipt = await self._transfers.upload(source, target, options, progress)
        except (ServerAPIError, TransferError) as error:
            return FileOutcome(file.path, target, error=error)
        except OSError as error:
            if isinstance(error, ConnectionError):
                raise
            return FileOutcome(file.path, target, error=_unreadable(file.path, error.strerror))
        return FileOutcome(file.path, target, receipt)

    async def download(self, src: str, dst: str, options: Options, progress: Progress) -> Receipt:
        """Store a file or directory locally; which of the two it is turns out when it is asked for."""
        into = dst.endswith(os.sep) or await arun_blocking(lambda: os.path.isdir(dst))
        if not layout.content_only(src):
            local = os.path.join(dst, layout.base_name(src)) if into else dst
            try:
                return await self._downloads.download(src, local, options, progress)
            except NotFoundError:
                info = await self._stat(src)
                if info is None or not info.is_dir:
                    raise
        return await self._download_tree(src, layout.tree_target(src, dst, into), options, progress)

    async def _download_tree(self, src: str, target: str, options: Options, progress: Progress) -> Receipt:
        with on_this_side(target):
            await arun_blocking(lambda: os.makedirs(target, exist_ok=True))
        files: list[tuple[FileEntry, str]] = []
        outcomes: list[FileOutcome] = []
        pending = [(src, target)]
        while pending:
            directory, local = pending.pop()
            for entry in await self._entries(directory):
                if not layout.is_name(entry.name):
                    odd = TransferError(f'"{entry.name}" in "{directory}" is no name of a file')
                    outcomes.append(FileOutcome(layout.inside(directory, entry.name), local, error=odd))
                    continue
                place = os.path.join(local, entry.name)
                if entry.is_dir:
                    await arun_blocking(lambda place=place: os.makedirs(place, exist_ok=True))  # type: ignore[misc]
                    pending.append((layout.inside(directory, entry.name), place))
                elif entry.kind in ("file", "symlink"):
                    files.append((entry, place))
                else:
                    outcomes.append(FileOutcome(entry.path, place, skipped=f"a {entry.kind}"))
        progress.total = sum(entry.size for entry, _ in files)
        for entry, place in files:
            outcomes.append(await self._download_one(entry, place, options, progress))
        progress.finish()
        return _summary(src, outcomes)

    async def _download_one(self, entry: FileEntry, place: str, options: Options, progress: Progress) -> FileOutcome:
        try:
            receipt = await self._downloads.download(entry.path, place, options, progress)
        except NotFoundError as error:
            if entry.kind == "symlink":
                return FileOutcome(entry.path, place, skipped="a link to a directory or to nothing")
            return FileOutcome(entry.path, place, error=error)
        except (ServerAPIError, TransferError) as error:
            return FileOutcome(entry.path, place, error=error)
        return FileOutcome(entry.path, place, receipt)

    async def _entries(self, directory: str) -> list[FileEntry]:
        found: list[FileEntry] = []
        cursor: str | None = None
        while True:
            page = await self._connection.send(calls.list_page(directory, cursor=cursor))
            found += page.entries
            if not page.cursor:
                if page.truncated:
                    raise TransferError(f'the listing of "{directory}" is cut off by a limit of the policy')
                return found
            cursor = page.cursor

    async def _stat(self, path: str) -> FileInfo | None:
        """What is at a path; None when there is nothing, or when the policy does not let us look."""
        try:
            info = await self._connection.send(calls.stat(path, True))
        except (PolicyDeniedError, EndpointNotAvailableError):
            return None
        return info if info.exists else None


def _unreadable(path: str, reason: str | None) -> TransferError:
    return TransferError(f'cannot read "{path}": {reason}')


def _summary(path: str, outcomes: list[FileOutcome]) -> Receipt:
    """The totals of a directory; raises when a file failed, with the outcome of every file."""
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        first = failed[0]
        assert first.error is not None
        raise TransferError(
            f'{len(failed)} of {len(outcomes)} files failed; the first is "{first.source}": {first.error.message}',
            outcomes=outcomes,
            hint="the error's .outcomes tells what became of each file",
        )
    return Receipt(path, sum(o.receipt.bytes for o in outcomes if o.receipt), files=tuple(outcomes))
