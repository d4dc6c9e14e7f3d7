"""The only way from the browser to the network: a proxy on loopback that connects to judged addresses and no others.

The browser never looks a name up, so a name cannot mean one address when it is judged and another when it is used.
What passes is read only as far as needed: the head of a plain request, nothing of a tunnel.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from ..guards.urls import UrlGuard, parsed
from ..messages import Refusal

_MOST_HEAD = 64 << 10
_HEAD_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
_PIECE = 64 << 10


class Proxy:
    """Lives in one event loop. A connection that is refused ends without an answer."""

    def __init__(self, guard: UrlGuard) -> None:
        self._guard = guard
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_MOST_HEAD)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_SECONDS)
            method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            if method == "CONNECT":
                await self._tunnel(target, reader, writer)
            else:
                await self._forward(method, target, head, reader, writer)
        except (Refusal, OSError, ValueError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError):
            pass  # the browser sees a connection that ends
        finally:
            self._open.discard(writer)
            writer.close()

    async def _tunnel(self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = target.rpartition(":")
        addresses = await _off_loop(lambda: self._guard.tunnel(host, int(port)))
        async with _connected(addresses, int(port)) as (far_reader, far_writer):
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await _first_of(_pass(reader, far_writer), _pass(far_reader, writer))

    async def _forward(
        self, method: str, target: str, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One plain request, and its answer to the end of the connection."""
        addresses = await _off_loop(lambda: self._guard.addresses(target))
        url = parsed(target, ("http",))
        _, *lines = head.decode("latin-1").split("\r\n")
        kept = [line for line in lines if not line.lower().startswith(("proxy-", "connection:", "keep-alive:"))]
        length = sum(int(line[15:]) for line in kept if line.lower().startswith("content-length:"))
        first = f"{method} {url.rest.partition('#')[0]} HTTP/1.1\r\nConnection: close\r\n"
        async with _connected(addresses, url.port) as (far_reader, far_writer):
            far_writer.write((first + "\r\n".join(kept)).encode("latin-1"))
            await _first_of(_pass(reader, far_writer, length), _pass(far_reader, writer), both=True)


async def _off_loop(work: Callable[[], list[str]]) -> list[str]:
    return await asyncio.get_running_loop().run_in_executor(None, work)


@contextlib.asynccontextmanager
async def _connected(
    addresses: list[str], port: int
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to the first address that answers."""
    for address in addresses:
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(address, port), _CONNECT_SECONDS)
        except (OSError, asyncio.TimeoutError):
            continue
        try:
            yield reader, writer
        finally:
            writer.close()
        return
    raise ConnectionError


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None = None) -> None:
    left = most
    while left is None or left > 0:
        data = await reader.read(_PIECE if left is None else min(left, _PIECE))
        if not data:
            return
        writer.write(data)
        await writer.drain()
        left = None if left is None else left - len(data)


async def _first_of(up: Awaitable[None], down: Awaitable[None], *, both: bool = False) -> None:
    """Until one direction ends; with `both`, until the answer does."""
    sending, receiving = asyncio.ensure_future(up), asyncio.ensure_future(down)
    try:
        await asyncio.wait({receiving} if both else {sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, receiving):
            task.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)
