"""Downloads of single files: streamed, resumed, checked against the receipt, never leaving half a file."""

from __future__ import annotations

import httpx

from .. import _calls as calls
from .._acompat import arun_blocking, asleep
from .._call import Call
from .._errors import PayloadTooLargeError, ServerAPIError
from .._models import Receipt
from ..transfer.incoming import Incoming
from ..transfer.options import Options
from ..transfer.progress import Progress
from ..transfer.receive import (
    Stop,
    areceive,
    off_loop,  # async only
)
from .connection import AsyncConnection

_RESUMES = 5


async def take_in(
    connection: AsyncConnection, call: Call[bytes], response: httpx.Response, incoming: Incoming, stop: Stop
) -> None:
    """What a server sends, in whichever of the two forms: base64 inside JSON, or the bytes."""
    if response.headers.get("content-type", "").startswith("application/json"):
        body = await connection.read(response, call.endpoint)
        incoming.accept_whole(connection.decoded(call, response, body))
    else:
        incoming.accept(response.status_code, response.headers)
        await areceive(response, incoming, stop)


class AsyncDownloads:
    """Brings single files of the sandbox here, into a file or into memory."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def download(
        self, path: str, local: str, options: Options, progress: Progress, stop: Stop | None = None
    ) -> Receipt:
        """Store a file of the sandbox locally. Until all of it is here, the local file stays as it was."""
        if not self._connection.pool.given:  # async only
            return await off_loop(
                lambda stop: self._connection.twin.files._downloads.download(path, local, options, progress, stop)
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
                    await take_in(self._connection, call, response, incoming, stop)
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
