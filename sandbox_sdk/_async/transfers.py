"""Uploads of single files: streamed, checked against the receipt, in parts where the server takes them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

from .. import _calls as calls
from .. import _writing_calls as writing
from .._acompat import AsyncStream, apieces, arun_blocking
from .._call import Call
from .._errors import (
    EndpointNotAvailableError,
    NotFoundError,
    RateLimitedError,
    ServerAPIError,
    TransferError,
)
from .._models import Receipt
from ..transfer import layout
from ..transfer.options import Options
from ..transfer.progress import Progress
from ..transfer.source import Memory, Parts, Source, Spool
from .connection import AsyncConnection
from .uploads import AsyncUpload

#: Files larger than this go in parts, so that a broken connection costs little.
IN_PARTS = 64 << 20


class AsyncTransfers:
    """Stores single files in the sandbox."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def upload_into(self, source: Source, path: str, name: str, options: Options, progress: Progress) -> Receipt:
        """Store a source as `path`, or under its own name inside, if that turns out to be a directory."""
        before = progress.done
        try:
            return await self.upload(source, path, options, progress)
        except ServerAPIError as error:
            if not name or not _means_directory(error):
                raise
            progress.take_back(progress.done - before)
            try:
                return await self.upload(source, layout.inside(path, name), options, progress)
            except NotFoundError:
                raise error from None

    async def upload(self, source: Source, path: str, options: Options, progress: Progress) -> Receipt:
        """Store a source as one file. Sent once: what has half gone out is never sent again."""
        snapshot = self._connection.known.snapshot
        if snapshot is not None:
            snapshot.require_size("files_upload_stream", source.size)
        if not await self._connection.ours():
            return await self._upload_json(source, path, progress, options.overwrite)
        if source.size > IN_PARTS and (begun := await self._begin_if_possible(path, source.size, options)):
            async with begun as upload:
                return await upload._send_all(source.pieces, source.size, progress)
        hashed = options.verify == "sha256"
        call = calls.upload(
            path,
            size=source.size,
            overwrite=options.overwrite,
            mode=options.mode,
            durable=options.durable,
            sha256=hashed,
        )
        return await self.send(call, source, progress, hashlib.sha256() if hashed else None)

    async def send(
        self, call: Call[Receipt], source: Source, progress: Progress, digest: hashlib._Hash | None = None
    ) -> Receipt:
        """The source as the body of a call, once; its receipt, compared with what was sent."""

        async def content() -> AsyncStream[bytes]:
            async for piece in apieces(source.pieces()):
                if digest is not None:
                    digest.update(piece)
                yield piece
                progress.add(len(piece))

        async with aclosing(content()) as body:
            try:
                response = await self._connection.open(call, body)
            except EOFError as error:
                raise TransferError(str(error)) from None
        try:
            receipt = self._connection.decoded(call, response, await self._connection.read(response, call.endpoint))
        finally:
            await response.aclose()
        where = receipt.path
        if receipt.bytes != source.size:
            raise TransferError(f'"{where}" holds {receipt.bytes} bytes, {source.size} were sent from {source.label}')
        if digest is not None and receipt.sha256 != digest.hexdigest():
            raise TransferError(f'"{where}" differs from {source.label}: what arrived has the SHA-256 {receipt.sha256}')
        return receipt

    async def upload_flow(self, flow: AsyncIterator[Any], path: str, options: Options, progress: Progress) -> Receipt:
        """Store what an iterator yields: at once when that is little, else in parts, and never all of it in memory."""
        async with aclosing(_parts(flow)) as parts:
            first, second = await anext(parts, b""), await anext(parts, None)
            if second is None:
                with Memory(first) as source:
                    progress.total = source.size
                    return await self.upload(source, path, options, progress)
            if not await self._takes_parts():
                with await spooled(parts, first, second) as source:
                    progress.total = source.size
                    return await self.upload(source, path, options, progress)
            async with await self.begin(path, None, options) as upload:
                for part in (first, second):
                    await upload.append(part)
                    progress.add(len(part))
                first = second = b""  # only one part at a time stays in memory
                async for part in parts:
                    await upload.append(part)
                    progress.add(len(part))
                return await upload.finish()

    async def begin(self, path: str, size: int | None, options: Options) -> AsyncUpload:
        """An upload in parts."""
        hashed = options.verify == "sha256"
        state = await self._connection.send(
            writing.begin_upload(
                path,
                size=size,
                overwrite=options.overwrite,
                mode=options.mode,
                durable=options.durable,
                sha256=hashed,
            )
        )
        state.digest = hashlib.sha256() if hashed else None
        return AsyncUpload(self._connection, state)

    async def _begin_if_possible(self, path: str, size: int, options: Options) -> AsyncUpload | None:
        """An upload in parts; None when it must go at once, also because too many others are unfinished."""
        if not await self._takes_parts():
            return None
        try:
            return await self.begin(path, size, options)
        except RateLimitedError:
            return None

    async def require_parts(self) -> None:
        """Raise `EndpointNotAvailableError` when the server only stores whole files."""
        if not await self._takes_parts():
            raise EndpointNotAvailableError(
                "this server only stores whole files", endpoint="files_upload_stream", hint="upload() it whole"
            )

    async def _takes_parts(self) -> bool:
        known = self._connection.known
        if known.takes_parts is None:
            known.takes_parts = await self._connection.ours() and await self._knows_places()
        return known.takes_parts

    async def _knows_places(self) -> bool:
        try:
            await self._connection.send(writing.upload_receipt(writing.nowhere()))
        except EndpointNotAvailableError:
            return False
        except ServerAPIError:
            pass  # it is asked for what is not there, or refuses us: the upload itself will tell
        return True

    async def _upload_json(self, source: Source, path: str, progress: Progress, overwrite: bool) -> Receipt:
        if not overwrite:
            raise EndpointNotAvailableError(
                "this server cannot refuse to overwrite a file", endpoint="files_upload_stream"
            )
        content = await arun_blocking(lambda: b"".join(source.pieces()))
        receipt = await self._connection.send(calls.upload_json(path, content))
        progress.add(len(content))
        if receipt.bytes != len(content):
            raise TransferError(f'"{path}" holds {receipt.bytes} bytes, {len(content)} were sent from {source.label}')
        return receipt


def _means_directory(error: ServerAPIError) -> bool:
    """Could this refusal of an upload mean that the target is a directory?"""
    return isinstance(error, NotFoundError) or error.error_type == "IsADirectoryError"


async def _parts(flow: AsyncIterator[Any]) -> AsyncStream[bytes]:
    """What an iterator yields, in parts of one size."""
    cut = Parts("the iterator")
    async for piece in flow:
        for part in cut.add(piece):
            yield part
    if rest := cut.rest():
        yield rest


async def spooled(flow: AsyncIterator[Any], *before: bytes) -> Source:
    """What an iterator yields in a temporary file, for a request that must announce its length."""
    spool = Spool("the iterator")
    try:
        for piece in before:
            await arun_blocking(partial(spool.add, piece))
        async for piece in flow:
            await arun_blocking(partial(spool.add, piece))
        return spool.source()
    except BaseException:
        spool.discard()
        raise
