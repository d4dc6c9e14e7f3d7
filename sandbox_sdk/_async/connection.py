"""One server, as the sub-APIs see it: sends calls, repeats what is safe, turns refusals into exceptions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Lock  # async only
from typing import Any, TypeVar

import httpx

from .. import _calls as calls
from .. import _retry as retry
from .._acompat import asleep
from .._binding import Binding
from .._call import Call
from .._errors import ClientClosedError, SandboxConnectionError, ServerAPIError
from .._http import AsyncPool, close_unconnected, timeouts
from .._known import Known
from .._refusals import error_from_response, protocol_error
from .._sync.client import ServerClient  # async only

T = TypeVar("T")

_PROBE_SECONDS = 5.0  # more than a busy machine stands still for, or its sandboxes would be said to be gone
_MOST_ERROR_BYTES = 1 << 20
OUR_SERVER = "notebook-sandbox"


class AsyncConnection:
    """Sends calls to one server and remembers what has been discovered about it."""

    def __init__(
        self, binding: Binding, http_client: httpx.AsyncClient | None = None, known: Known | None = None
    ) -> None:
        self.binding = binding
        self.pool = AsyncPool(binding, http_client)
        self.known = Known() if known is None else known
        self._twin: ServerClient | None = None  # async only
        self._twin_lock = Lock()  # async only

    @property
    def twin(self) -> ServerClient:  # async only
        """The blocking client behind the ``_sync`` twins: same settings, connections of its own."""
        if self.pool.given:
            raise RuntimeError(
                "the _sync twins need connections of their own; leave http_client out, or use ServerClient"
            )
        if self.pool.closed:
            raise ClientClosedError
        with self._twin_lock:
            if self._twin is None:
                self._twin = ServerClient._around(self.binding, self.known)
            return self._twin

    @property
    def where(self) -> str:
        """What a reader knows the server by: the name of its sandbox, else the address."""
        return f'sandbox "{self.known.sandbox}"' if self.known.sandbox else self.binding.address

    async def send(self, call: Call[T]) -> T:
        """Make one call and answer its decoded result."""
        async with self.stream(call) as response:
            body = await self.read(response, call.endpoint)
        return self.decoded(call, response, body)

    @asynccontextmanager
    async def stream(self, call: Call[Any]) -> AsyncIterator[httpx.Response]:
        """The response of a call, its body unread; leaving the block closes it. A refusal never enters the block."""
        response = await self.open(call)
        try:
            yield response
        finally:
            await response.aclose()

    async def open(self, call: Call[Any], content: Any = None) -> httpx.Response:
        """The response of a call, its body unread; the caller closes it. `content` streams the request body."""
        self.known.require(call.endpoint)
        attempt = 0
        while True:
            try:
                response = await self._exchange(call, content)
            except httpx.TransportError as error:
                timed_out = isinstance(error, httpx.TimeoutException)
                wait = None if timed_out else retry.after_failure(call.method, attempt)
                if wait is None:
                    raise await self.lost(error, call.endpoint) from None
            else:
                if response.is_success:
                    return response
                refusal = await self._refusal(response, call.endpoint)
                asked = refusal.facts.get("retry_after")
                wait = retry.after_refusal(call.method, refusal.status_code, asked, attempt)
                if wait is None:
                    self.known.tell(refusal)
                    raise refusal
            attempt += 1
            await asleep(wait)

    async def _exchange(self, call: Call[Any], content: Any, bounds: httpx.Timeout | None = None) -> httpx.Response:
        client = await self.pool.client()
        request = client.build_request(
            call.method,
            self.binding.url(call.target),
            headers={"Accept-Encoding": "identity", **self.binding.headers, **call.headers},
            content=call.body if content is None else content,
            timeout=bounds or timeouts(self.binding, call.patience),
        )
        try:
            response = await client.send(request, stream=True, follow_redirects=False)
        except httpx.ConnectError as error:
            close_unconnected(error)
            raise
        except RuntimeError:  # what httpx raises when another thread has closed its client meanwhile
            if self.pool.closed:
                raise ClientClosedError from None
            raise
        if response.headers.get("x-sandbox-server") == OUR_SERVER:
            self.known.ours = True
        elif response.is_success:  # an error may come from somebody in between
            self.known.ours = False
        revision = response.headers.get("x-policy-revision")
        snapshot = self.known.snapshot
        if revision and snapshot is not None and revision != snapshot.revision:
            self.known.snapshot = None  # the policy changed: only the server knows now
        return response

    async def read(self, response: httpx.Response, endpoint: str) -> bytes:
        """The whole body."""
        try:
            return await response.aread()
        except httpx.TransportError as error:
            raise await self.lost(error, endpoint) from None

    def decoded(self, call: Call[T], response: httpx.Response, body: bytes) -> T:
        """The result of a success, which must be a JSON object."""
        try:
            value = json.loads(body)
            if isinstance(value, dict):
                return call.decode(value)
        except (ValueError, RecursionError):
            pass
        kind = response.headers.get("content-type", "no content type")
        message = f"the server answered {response.status_code} with {len(body)} bytes of {kind}, not a JSON object"
        raise protocol_error(message, response.status_code, call.endpoint, response.headers.get("x-request-id", ""))

    async def _refusal(self, response: httpx.Response, endpoint: str) -> ServerAPIError:
        body = b""
        try:
            async for piece in response.aiter_raw():
                body += piece
                if len(body) > _MOST_ERROR_BYTES:
                    break
        except httpx.TransportError:
            pass  # the status says enough
        finally:
            await response.aclose()
        text = self.binding.redact(body.decode("utf-8", "replace"))
        return error_from_response(response.status_code, response.headers, text, endpoint)

    async def lost(self, error: Exception, endpoint: str) -> SandboxConnectionError:
        """The exception for a failure below HTTP: says after one probe whether the sandbox is gone."""
        what = self.binding.redact(str(error).rstrip(".")) or type(error).__name__
        where = self.binding.address
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
            return SandboxConnectionError(f"no server answers at {where}: {what}", endpoint=endpoint, gone=True)
        if not await self.alive():
            message = f'the sandbox at {where} is gone; "{endpoint}" ended with: {what}'
            return SandboxConnectionError(message, endpoint=endpoint, gone=True)
        if isinstance(error, httpx.TimeoutException):
            message = f'no answer from {where} to "{endpoint}" within {self.binding.timeout:g} s; the server is up'
        else:
            message = f'the connection to {where} broke during "{endpoint}": {what}; the server is up'
        return SandboxConnectionError(message, endpoint=endpoint)

    async def alive(self) -> bool:
        """One quick probe of the server's health; False on any failure."""
        call = calls.health()
        try:
            response = await self._exchange(call, None, httpx.Timeout(min(_PROBE_SECONDS, self.binding.timeout)))
        except (httpx.TransportError, RuntimeError):  # the latter once the pool is closed
            return False
        try:
            return response.is_success and self.decoded(call, response, await response.aread())
        except (httpx.TransportError, ServerAPIError):
            return False
        finally:
            await response.aclose()

    async def ours(self) -> bool:
        """True when the server is of this project, and so offers raw transfers and framed streams."""
        if self.known.ours is None:
            await self.send(calls.health())
        return bool(self.known.ours)

    async def aclose(self) -> None:
        await self.pool.aclose()
        if self._twin is not None:  # async only
            self._twin.close()
