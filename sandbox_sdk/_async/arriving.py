"""A body that is read while it arrives, item by item; whoever reads it may leave at any time, from any thread."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Generic, TypeVar

import httpx

from .._events import MalformedStreamError
from .._http import close_socket
from .._refusals import protocol_error
from .connection import AsyncConnection

T = TypeVar("T")

#: Seconds without a byte, where the server sends heartbeats.
HEARTBEAT_PATIENCE = 60.0
#: How often a connection that breaks at once is tried again.
REATTACHMENTS = 5
#: A connection that held for so many seconds has not failed at once.
STABLE_SECONDS = 1.0


class AsyncArriving(Generic[T]):
    """One response, and the items that have come and were not handed out yet.

    A subclass opens the response and says in `_receive` what the bytes mean, in `_over` when nothing more can come.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._response: httpx.Response | None = None
        self._body: AsyncIterator[bytes] | None = None
        self._pending: deque[T] = deque()
        self._closed = False
        self._receiving = False

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def __anext__(self) -> T:
        while not self._pending:
            if self._closed or self._over():
                await self.aclose()
                raise StopAsyncIteration
            try:
                await self._receive()
            except BaseException:
                await self.aclose()
                raise
        item = self._pending.popleft()
        self._deliver(item)
        return item

    async def aclose(self) -> None:
        """Stop listening. Safe from another thread, and more than once."""
        self._closed = True
        await self._release()

    def __repr__(self) -> str:
        state = "ended" if self._over() else "closed" if self._closed else "open" if self._response else "not begun"
        return f"<{type(self).__name__} of {self._connection.where}: {state}>"

    async def _receive(self) -> None:
        """Take the next bytes from the network and sort them into items."""
        raise NotImplementedError

    def _over(self) -> bool:
        """Whether the end has come."""
        raise NotImplementedError

    def _deliver(self, item: T) -> None:
        """This item is handed out now."""

    async def _feed(self, take: Callable[[bytes], None], endpoint: str) -> str:
        """Hand the next bytes to `take`; what broke the body off, else an empty text."""
        self._receiving = True
        try:
            if (body := self._body) is not None:  # else closed meanwhile
                take(await anext(body))
            return ""
        except StopAsyncIteration:
            return "the body ended"
        except (httpx.TransportError, httpx.StreamError) as error:
            return (str(error) or type(error).__name__).rstrip(".")
        except MalformedStreamError as error:
            raise protocol_error(f"the stream is malformed: {error}", 200, endpoint) from None
        finally:
            self._receiving = False

    async def _release(self) -> None:
        response = self._response
        if response is None:
            return
        close_socket(response)
        if not self._receiving:  # else whoever is receiving wakes up now, and comes here again
            self._response = self._body = None
            await response.aclose()
