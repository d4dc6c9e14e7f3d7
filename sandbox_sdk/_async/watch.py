"""Changes below a directory while they happen: an iterator that is a context manager and can be closed at any time."""

from __future__ import annotations

import time

from .. import _changes as changes
from .. import _wire as wire
from .._acompat import asleep
from .._changes import FileChange
from .._errors import StreamInterruptedError
from .._events import ServerSentEvent, SSEDecoder
from .._http import expect_within
from .._public import public
from .._refusals import protocol_error
from .arriving import HEARTBEAT_PATIENCE, REATTACHMENTS, STABLE_SECONDS, AsyncArriving
from .connection import AsyncConnection

_LONGEST = 300.0  # how long other servers may be silent


@public
class AsyncFileWatch(AsyncArriving[FileChange]):
    """What changes below a directory, change by change.

    Once the ``with`` block is entered, nothing that changes is missed. A connection that breaks, or that the server
    ends because its time is up, is taken up again where it was lost.
    """

    def __init__(
        self,
        connection: AsyncConnection,
        path: str,
        *,
        recursive: bool = False,
        interval: float | None = None,
        timeout: float | None = None,
        cursor: str = "",
    ) -> None:
        super().__init__(connection)
        self._path = path
        self._recursive = recursive
        self._interval = interval
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._decoder = SSEDecoder()
        self._cursor = cursor  # behind the last change that was handed out
        self._reached = cursor  # behind the last one that has come
        self._mode = ""
        self._reason = ""
        self._ready = False
        self._failures = 0

    @property
    def mode(self) -> str:
        """``inotify`` where the server's kernel tells, ``polling`` where it has to look; empty if unknown.

        It may change while one watches: then some part of the directory has to be looked at, or no more.
        """
        return self._mode

    @property
    def cursor(self) -> str:
        """Where this watch stands; another one can go on from here for a minute after this one has ended."""
        return self._cursor

    @property
    def reason(self) -> str:
        """Why it has ended: ``timeout``, ``removed`` (the directory is gone), ``too_large``; empty before."""
        return self._reason

    async def __aenter__(self) -> AsyncFileWatch:
        try:
            while not (self._ready or self._closed or self._reason):
                await self._receive()
        except BaseException:
            await self.aclose()
            raise
        return self

    def __aiter__(self) -> AsyncFileWatch:
        return self

    def _over(self) -> bool:
        return bool(self._reason)

    def _deliver(self, item: FileChange) -> None:
        self._cursor = item.cursor or self._cursor

    async def _open(self) -> None:
        if self._closed or self._response is not None:
            return
        ours = await self._connection.ours()
        left = None if self._deadline is None else max(0.1, self._deadline - time.monotonic())
        call = changes.watch(
            self._path,
            recursive=self._recursive,
            interval=self._interval,
            seconds=left,
            cursor=self._reached,
            ours=ours,
        )
        response = self._response = await self._connection.open(call)
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        if kind != changes.EVENTS:
            await self.aclose()
            raise protocol_error(f'the server streams "{kind}"', response.status_code, call.endpoint)
        patience = HEARTBEAT_PATIENCE if ours else _LONGEST
        expect_within(response, max(self._connection.binding.timeout, patience))
        self._decoder = SSEDecoder()
        self._body = response.aiter_raw()

    async def _receive(self) -> None:
        """Take the next bytes from the network and sort them into changes."""
        await self._open()
        if self._body is None:
            return  # closed meanwhile
        since = time.monotonic()
        broken = await self._feed(self._read, "files_watch")
        if not broken or self._closed or self._reason:  # nobody has had enough
            return
        if time.monotonic() - since > STABLE_SECONDS:
            self._failures = 0
        await self._recover(broken)

    def _read(self, data: bytes) -> None:
        for event in self._decoder.feed(data):
            self._take(event)

    def _take(self, event: ServerSentEvent) -> None:
        data = event.data
        if event.event in ("change", "overflow"):
            change = FileChange.from_wire(data, "overflow" if event.event == "overflow" else "")
            self._pending.append(change)
            self._failures = 0
        elif event.event in ("ready", "mode"):
            self._ready = True
            self._mode = wire.text(data, "mode")
        elif event.event == "end":
            self._end(wire.text(data, "reason", "end"))
        self._reached = wire.text(data, "cursor") or self._reached
        if event.event == "ready":
            self._cursor = self._cursor or self._reached

    def _end(self, reason: str) -> None:
        """The server has ended the stream; when only its own patience is over, a cursor lets it go on."""
        over = self._deadline is not None and time.monotonic() >= self._deadline
        if reason != "timeout" or over or not self._reached:
            self._reason = reason
        self._failures -= 1  # what comes next is no failure

    async def _recover(self, what: str) -> None:
        """Attach again where it broke off, or say that it did."""
        self._failures += 1
        gone = self._failures > 0 and not await self._connection.alive()
        if gone or self._failures > REATTACHMENTS or not self._reached:
            state = "is gone" if gone else "is up"
            raise StreamInterruptedError(
                f'watching "{self._path}" broke off ({what}); the sandbox at '
                f"{self._connection.binding.address} {state}",
                endpoint="files_watch",
                gone=gone,
            )
        await self._release()
        if self._failures > 0:
            await asleep(0.1 * self._failures)
