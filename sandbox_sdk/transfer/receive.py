"""The bytes of a download, from the response into a file.

Blocking code takes the socket after the head and reads it directly, a mebibyte at a time: that costs less than half of
what httpx needs. It works for plain bodies of known length only; everything else goes the ordinary way.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

import httpx

from .._http import socket_of
from .incoming import Incoming

T = TypeVar("T")

_PIECE = 1 << 20
_CLEANING_SECONDS = 3.0


class Stopped(Exception):
    """Somebody in another thread has broken the transfer off."""


class Stop:
    """Lets another thread break off a transfer, at once."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._socket: socket.socket | None = None
        self._stopped = False

    def set(self) -> None:
        with self._lock:
            self._stopped = True
            self._shut()

    def watch(self, connection: socket.socket | None) -> None:
        """From now on, stopping ends this connection; None: there is none any more."""
        with self._lock:
            self._socket = connection
            if self._stopped:
                self._shut()

    def check(self) -> None:
        if self._stopped:
            raise Stopped

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


async def areceive(response: httpx.Response, incoming: Incoming, stop: Stop) -> None:
    """Write the whole body of a response."""
    async for piece in response.aiter_raw():
        incoming.write(piece)


def receive(response: httpx.Response, incoming: Incoming, stop: Stop) -> None:
    """Write the whole body of a response."""
    connection = socket_of(response)
    stop.watch(connection)
    try:
        left = int(response.headers.get("content-length", "-1"))
        for piece in response.iter_raw():
            incoming.write(piece)
            left -= len(piece)
            stop.check()
            if connection is not None and left > _PIECE:
                _drain(connection, left, response, incoming, stop)
                return
    except (httpx.TransportError, OSError):
        stop.check()
        raise
    finally:
        stop.watch(None)


def _drain(connection: socket.socket, left: int, response: httpx.Response, incoming: Incoming, stop: Stop) -> None:
    """Take the rest of a body from its socket. The connection cannot be used again afterwards, and is not."""
    bounds = response.request.extensions.get("timeout", {})
    connection.settimeout(bounds.get("read"))
    buffer = memoryview(bytearray(_PIECE))
    while left:
        try:
            count = connection.recv_into(buffer, min(left, _PIECE))
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no byte within {bounds.get('read')} s") from error
        except OSError as error:
            raise httpx.ReadError(error.strerror or "the connection broke") from error
        stop.check()
        if not count:
            raise httpx.RemoteProtocolError(f"the connection ended {left} bytes too early")
        incoming.write(buffer[:count])
        left -= count


async def off_loop(work: Callable[[Stop], T]) -> T:
    """Run a blocking transfer on a thread. Cancelling breaks it off and waits until it has cleaned up behind itself."""
    stop = Stop()
    thread = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        stop.set()
        thread.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.wait({thread}, timeout=_CLEANING_SECONDS)
        raise
