"""Archives on their way: packed in the sandbox while they arrive here, unpacked there while they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import httpx

from .. import _archive_calls as calls
from .._acompat import AsyncStream, apieces, arun_blocking
from .._archive_calls import ArchiveFormat, Unpacked
from .._errors import TransferError
from .._models import Receipt
from ..transfer.incoming import Incoming
from ..transfer.progress import Progress
from ..transfer.receive import (
    Stop,
    off_loop,  # async only
)
from ..transfer.source import Source
from .connection import AsyncConnection
from .downloads import take_in


class AsyncArchives:
    """Moves whole archives between here and the sandbox."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def pack(
        self,
        paths: Sequence[str],
        local: str,
        format: ArchiveFormat,
        level: int | None,
        progress: Progress,
        stop: Stop | None = None,
    ) -> Receipt:
        """Store an archive locally. Until all of it is here, the local file stays as it was."""
        if not self._connection.pool.given:  # async only
            twin = self._connection.twin.files._archives
            return await off_loop(lambda stop: twin.pack(paths, local, format, level, progress, stop))
        call = calls.archive(paths, format, level)
        incoming = Incoming(local, local, progress)
        try:
            async with self._connection.stream(call) as response:
                await take_in(self._connection, call, response, incoming, Stop() if stop is None else stop)
            return await arun_blocking(lambda: incoming.finish(False))
        except httpx.TransportError as error:
            raise await self._connection.lost(error, call.endpoint) from None
        finally:
            incoming.discard()

    async def unpack(
        self, source: Source, path: str, format: ArchiveFormat | None, overwrite: bool, progress: Progress
    ) -> Unpacked:
        """Send an archive once; what has half gone out is never sent again."""
        if format is None:
            format = calls.format_of(await arun_blocking(lambda: next(source.pieces(), b"")[:2]))
        call = calls.unpack(path, format=format, size=source.size, overwrite=overwrite)

        async def content() -> AsyncStream[bytes]:
            async for piece in apieces(source.pieces()):
                yield piece
                progress.add(len(piece))

        async with aclosing(content()) as body:
            try:
                response = await self._connection.open(call, body)
            except EOFError as error:
                raise TransferError(str(error)) from None
        try:
            return self._connection.decoded(call, response, await self._connection.read(response, call.endpoint))
        finally:
            await response.aclose()
