"""Uploads and downloads of single files: streamed, checked against the receipt, resumed, never leaving half a file."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any

import httpx

from .. import _calls as calls
from .. import _writing_calls as writing
from .._acompat import AsyncStream, apieces, arun_blocking, asleep
from .._call import Call
from .._errors import (
    EndpointNotAvailableError,
    NotFoundError,
    PayloadTooLargeError,
    RateLimitedError,
    ServerAPIError,
    TransferError,
)
from .._models import Receipt
from ..transfer import layout
from ..transfer.incoming import Incoming
from ..transfer.options import Options
from ..transfer.progress import Progress
from ..transfer.receive import (
    Stop,
    areceive,
    off_loop,  # async only
)
from ..transfer.source import Memory, Parts, Source, Spool
from .connection import AsyncConnection
from .uploads import AsyncUpload

_RESUMES = 5
#: Files larger than this go in parts, so that a broken connection costs little.
IN_PARTS = 64 << 20


class AsyncTransfers:
    """Moves single files between here and the sandbox."""

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

    async def download(
        self, path: str, local: str, options: Options, progress: Progress, stop: Stop | None = None
    ) -> Receipt:
        """Store a file of the sandbox locally. Until all of it is here, the local file stays as it was."""
        if not self._connection.pool.given:  # async only
            return await off_loop(
                lambda stop: self._connection.twin.files._transfers.download(path, local, options, progress, stop)
            )
        incoming = Incoming(path, local, progress)
        try:
            hashed = await self._receive(incoming, options.verify == "sha256", Stop() if stop is None else stop)
            return await arun_blocking(lambda: incoming.finish(hashed))
        finally:
            incoming.discard()

    async def _receive(self, incoming: Incoming, hashed: bool, stop: Stop) -> bool:
        """All bytes of a file, in as many requests as it takes; answers whether their digest must be compared."""
        failures = 0
        while True:
            before = incoming.size
            call = calls.download(incoming.path, sha256=hashed, first=before, etag=incoming.etag)
            try:
                async with self._connection.stream(call) as response:
                    if response.headers.get("content-type", "").startswith("application/json"):
                        body = await self._connection.read(response, call.endpoint)
                        incoming.accept_whole(self._connection.decoded(call, response, body))
                    else:
                        incoming.accept(response.status_code, response.headers)
                        await areceive(response, incoming, stop)
                return hashed
            except httpx.TransportError as error:
                lost = await self._connection.lost(error, call.endpoint)
                failures = 1 if incoming.size > before else failures + 1
                if lost.gone or not incoming.resumable or failures > _RESUMES:
                    raise lost from None
            hashed = True  # what was put together from parts is compared as a whole
            await asleep(0.1 * failures)

    async def read(self, path: str, limit: int | None, offset: int = 0, length: int | None = None) -> bytes:
        """A file in memory, or a part of it, if that is not larger than `limit`."""
        partial = offset > 0 or length is not None
        call = calls.part(path, offset, length) if partial else calls.download(path)
        try:
            async with self._connection.stream(call) as response:
                return await self._content(path, call, response, limit, (offset, length) if partial else None)
        except ServerAPIError as error:
            if error.code != "range_not_satisfiable":
                raise
            return b""  # the file ends before

    async def _content(
        self,
        path: str,
        call: Call[bytes],
        response: httpx.Response,
        limit: int | None,
        part: tuple[int, int | None] | None,
    ) -> bytes:
        """The body of a download; where all came, but a `part` was asked for, only that is kept."""
        offset, length = part if part is not None and response.status_code != 206 else (0, None)
        size = max(0, int(response.headers.get("content-length", "0")) - offset)
        if limit is not None and (size if length is None else min(size, length)) > limit:
            raise PayloadTooLargeError(
                f'"{path}" has {size} bytes, more than the {limit} to be read into memory',
                error_code="payload_too_large",
                endpoint=call.endpoint,
                facts={"limit": limit},
                hint="download() it to a file, or pass a larger limit=",
            )
        end = None if length is None else offset + length
        if response.headers.get("content-type", "").startswith("application/json"):
            body = await self._connection.read(response, call.endpoint)
            return self._connection.decoded(call, response, body)[offset:end]
        if end is None:
            return (await self._connection.read(response, call.endpoint))[offset:]
        kept = bytearray()
        try:
            async for piece in response.aiter_raw():
                kept += piece
                if len(kept) >= end:
                    break
        except httpx.TransportError as error:
            raise await self._connection.lost(error, call.endpoint) from None
        return bytes(kept[offset:end])


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
