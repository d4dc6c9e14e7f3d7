"""An upload in parts: what has arrived is never sent again, whatever happens to the connection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from types import TracebackType
from typing import TypeAlias

from .. import _writing_calls as writing
from .._acompat import AsyncStream, apieces, asleep
from .._errors import ConflictError, SandboxConnectionError, SandboxError, TransferError
from .._models import Receipt
from .._public import public
from .._refusals import protocol_error
from .._sync.uploads import Upload  # async only
from .._writing import UploadState
from ..transfer.progress import Progress
from ..transfer.source import pieces_of
from ._twins import AsyncUploadTwins  # async only
from .connection import AsyncConnection

_RESUMES = 5
#: The pieces of a source from an offset on.
Pieces: TypeAlias = Callable[[int], Iterator[bytes]]


@public
class AsyncUpload(AsyncUploadTwins):
    """A file on its way, part after part; `finish` puts it in its place, whole. Of `begin_upload`.

    A broken connection is taken up again by itself. Leaving the block of a ``with`` before `finish` cancels the upload.
    """

    def __init__(self, connection: AsyncConnection, state: UploadState) -> None:
        self._connection = connection
        self._state = state

    @property
    def _twin(self) -> Upload:  # async only
        return Upload(self._connection.twin._connection, self._state)

    @property
    def path(self) -> str:
        """Where the file will be."""
        return self._state.path

    @property
    def offset(self) -> int:
        """How many bytes have arrived, as far as is known here."""
        return self._state.offset

    @property
    def size(self) -> int | None:
        """How many there will be, when that was said."""
        return self._state.size

    async def __aenter__(self) -> AsyncUpload:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._abandon()

    async def append(self, data: bytes | bytearray | memoryview) -> int:
        """Send what follows; answers the offset then. Raises `SandboxConnectionError` when the server stays away."""
        view = memoryview(data).cast("B")
        start = self.offset
        await self._send(lambda at: pieces_of(view[at - start :]), start + len(view), last=False)
        return self.offset

    async def resume(self) -> int:
        """Ask how much has arrived, after something went wrong; answers the offset to go on at."""
        await self._ask()
        return self.offset

    async def finish(self) -> Receipt:
        """All has been sent: put the file in its place. Raises `TransferError` when it is not what was sent."""
        return self._checked(await self._send(lambda at: iter(()), self.offset, last=True))

    async def cancel(self) -> None:
        """Give up; the server forgets what has arrived."""
        self._state.over = True
        async with self._connection.stream(writing.cancel_upload(self._state.place)) as response:
            await response.aread()

    def __repr__(self) -> str:
        of = "" if self.size is None else f" of {self.size}"
        return f'<{type(self).__name__} "{self.path}": {self.offset}{of} bytes{", over" if self._state.over else ""}>'

    async def _send_all(self, source: Pieces, size: int, progress: Progress) -> Receipt:
        """A whole source whose size is known, in as few requests as it takes."""
        return self._checked(await self._send(source, size, last=True, progress=progress))

    async def _send(self, source: Pieces, end: int, *, last: bool, progress: Progress | None = None) -> Receipt | None:
        """Everything up to `end`, in one request after the other while each gets somewhere; the last has a receipt."""
        failures = 0
        before = progress.done - self.offset if progress is not None else 0  # of other uploads
        while True:
            start = self.offset
            try:
                return await self._send_once(source, end, last, progress)
            except SandboxConnectionError as error:
                if error.gone:
                    raise
                failure: SandboxError = error
            except ConflictError as error:
                if not ("retry_after" in error.facts or "expected-offset" in error.facts):
                    raise  # about the file, not about the way to it
                failure = error
            if await self._ask():
                self._state.over = True
                return await self._connection.send(writing.upload_receipt(self._state.place))
            if progress is not None:
                progress.take_back(progress.done - before - self.offset)
            failures = 1 if self.offset > start else failures + 1
            if failures > _RESUMES or not start <= self.offset <= end:
                raise failure
            await asleep(min(2.0, 0.1 * 2**failures))

    async def _send_once(self, source: Pieces, end: int, last: bool, progress: Progress | None) -> Receipt | None:
        start = self.offset

        async def content() -> AsyncStream[bytes]:
            at = start
            async for piece in apieces(source(start)):
                self._state.take(at, piece)
                yield piece
                at += len(piece)
                if progress is not None:
                    progress.add(len(piece))

        call = writing.upload_part(self._state.place, offset=start, size=end - start, last=last)
        async with aclosing(content()) as body:
            try:
                response = await self._connection.open(call, body)
            except EOFError as error:
                raise TransferError(str(error)) from None
        try:
            answer = await self._connection.read(response, call.endpoint)
            self._state.offset = end
            if not last:
                return None
            self._state.over = True
            return self._connection.decoded(call, response, answer)
        finally:
            await response.aclose()

    async def _ask(self) -> bool:
        """Learn the offset; whether the upload is complete."""
        call = writing.upload_state(self._state.place)
        async with self._connection.stream(call) as response:
            headers = response.headers
            offset = headers.get("upload-offset", "")
            if not offset.isdigit():
                message = "the server does not tell how much has arrived"
                raise protocol_error(message, response.status_code, call.endpoint, headers.get("x-request-id", ""))
            self._state.offset = int(offset)
            return bool(headers.get("upload-complete") == "?1")

    def _checked(self, receipt: Receipt | None) -> Receipt:
        assert receipt is not None
        if receipt.bytes != self.offset:
            raise TransferError(f'"{receipt.path}" holds {receipt.bytes} bytes, {self.offset} were sent')
        if self._state.digest is not None and receipt.sha256 != self._state.digest.hexdigest():
            raise TransferError(f'"{receipt.path}" differs from what was sent: its SHA-256 is {receipt.sha256}')
        return receipt

    async def _abandon(self) -> None:
        """Cancel what was not finished, if the server can still be told."""
        if not self._state.over:
            with suppress(SandboxError):
                await self.cancel()
