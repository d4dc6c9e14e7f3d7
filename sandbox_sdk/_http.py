"""The two pools of connections. They differ too much to be generated from one another.

A sync pool is one `httpx.Client` per process: a forked child starts with a fresh one and leaves its parent's sockets
alone. An async pool is one `httpx.AsyncClient` per event loop, and a loop that ends closes its own: an asynchronous
generator stands guard, and every well-behaved end of a loop (`asyncio.run`) finishes those that are still open.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
import traceback
import warnings
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import httpx

from ._binding import Binding
from ._errors import ClientClosedError
from ._version import __version__

_CONNECT_SECONDS = 10.0


def timeouts(binding: Binding, patience: float = 0.0) -> httpx.Timeout:
    """Bounds on silence, not on the whole: a slow transfer that moves is never cut."""
    seconds = binding.timeout
    return httpx.Timeout(seconds, connect=min(seconds, _CONNECT_SECONDS), read=seconds + patience, pool=None)


def _settings(binding: Binding) -> dict[str, Any]:
    return {
        "timeout": timeouts(binding),
        "trust_env": False,  # no proxy, netrc or certificate that merely happens to be in the environment
        "follow_redirects": False,
        "headers": {"User-Agent": f"notebook-sandbox/{__version__}", "Accept": "application/json"},
    }


def _transport_settings(binding: Binding) -> dict[str, Any]:
    return {
        "uds": binding.uds,
        "verify": binding.encrypted,  # loading the certificate store takes longer than many a call
        "trust_env": False,
        # A stream holds its connection, so their number must not be bounded; idle ones close before the server does it.
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=30.0),
    }


class Pool:
    """Connections of blocking calls, safe to share among threads."""

    def __init__(self, binding: Binding, given: httpx.Client | None = None) -> None:
        self._binding = binding
        self._given = given
        self._own: dict[int, httpx.Client] = {}
        self.closed = False

    @property
    def given(self) -> bool:
        """True when the caller brought the HTTP client."""
        return self._given is not None

    def client(self) -> httpx.Client:
        if self.closed:
            raise ClientClosedError
        if self._given is not None:
            return self._given
        client = self._own.get(os.getpid())
        if client is None:
            transport = httpx.HTTPTransport(**_transport_settings(self._binding))
            fresh = httpx.Client(transport=transport, **_settings(self._binding))
            client = self._own.setdefault(os.getpid(), fresh)
            if client is not fresh:  # another thread was faster
                fresh.close()
        return client

    def close(self) -> None:
        self.closed = True
        client = self._own.pop(os.getpid(), None)
        if client is not None:
            client.close()

    def __del__(self) -> None:
        if sys.is_finalizing() or os.getpid() not in self._own:
            return
        warnings.warn(f"unclosed client of {self._binding.address}", ResourceWarning, stacklevel=2, source=self)
        self.close()


class AsyncPool:
    """Connections of asynchronous calls, apart for every event loop."""

    def __init__(self, binding: Binding, given: httpx.AsyncClient | None = None) -> None:
        self._binding = binding
        self._given = given
        self._own: WeakKeyDictionary[asyncio.AbstractEventLoop, _Guarded] = WeakKeyDictionary()
        self.closed = False

    @property
    def given(self) -> bool:
        return self._given is not None

    async def client(self) -> httpx.AsyncClient:
        if self.closed:
            raise ClientClosedError
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        guarded = self._own.get(loop)
        if guarded is None or guarded.pid != os.getpid():
            transport = httpx.AsyncHTTPTransport(**_transport_settings(self._binding))
            guarded = _Guarded(httpx.AsyncClient(transport=transport, **_settings(self._binding)))
            await guarded.stand()
            self._own[loop] = guarded
        return guarded.client

    async def aclose(self) -> None:
        self.closed = True
        here = asyncio.get_running_loop()
        for loop, guarded in list(self._own.items()):
            if loop is here:
                await guarded.guard.aclose()
            elif loop.is_running():
                leaving = asyncio.run_coroutine_threadsafe(_end(guarded.guard), loop)
                await asyncio.wrap_future(leaving)
        self._own.clear()

    def __del__(self) -> None:
        if sys.is_finalizing():
            return
        if any(not guarded.ended for guarded in list(self._own.values())):
            # Without `source`: who keeps the warning would keep the guards, and they close when they are let go of.
            warnings.warn(f"unclosed client of {self._binding.address}", ResourceWarning, stacklevel=2)


class _Guarded:
    """A client that is closed when its event loop ends, or when nobody refers to it any more."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.pid = os.getpid()
        # It knows the client only: in a circle with us it would be collected together with the open sockets.
        self.guard = _guard(client)

    async def stand(self) -> None:
        await anext(self.guard)

    @property
    def ended(self) -> bool:
        return self.client.is_closed


async def _guard(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.aclose()


async def _end(guard: AsyncGenerator[None, None]) -> None:
    await guard.aclose()


def expect_within(response: httpx.Response, seconds: float) -> None:
    """Change how long the rest of a response may be silent: the transport reads this when the body is begun."""
    bounds = response.request.extensions.get("timeout")
    if isinstance(bounds, dict):
        bounds["read"] = seconds


def socket_of(response: httpx.Response) -> socket.socket | None:
    """The socket a response comes from; None where there is none, or where it is not the plain bytes of the body."""
    stream = response.extensions.get("network_stream")
    found = stream.get_extra_info("socket") if stream is not None else None
    return found if isinstance(found, socket.socket) and not isinstance(found, ssl.SSLSocket) else None


def close_socket(response: httpx.Response) -> None:
    """End a connection for whoever else holds it: a reader in another thread, a copy in a forked child."""
    found = None if response.is_closed else socket_of(response)
    if found is not None:
        with suppress(OSError):
            found.shutdown(socket.SHUT_RDWR)


def close_unconnected(error: BaseException | None) -> None:
    """Close the unix socket that httpcore leaves open when it cannot connect it; only the traceback still knows it."""
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            left = frame.f_locals.get("sock")
            if isinstance(left, socket.socket):
                left.close()
        error = error.__cause__
