"""WebSocket connections, blocking and not. `websockets` has the two; they are imported with the first terminal.

Both speak text only, raise `Closed` once the connection is, and `TimeoutError` where waiting has a bound.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import TYPE_CHECKING, Any

from ._binding import Binding
from ._errors import SandboxError
from ._refusals import error_from_response
from ._version import __version__

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection as AsyncClientConnection
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import ClientConnection

_CLOSE_SECONDS = 2.0
_MOST_BYTES = 1 << 22
#: What a connection has that broke off without a word.
BROKEN = 1006


class Closed(Exception):
    """The connection is closed, with a code and a reason that the other side gave."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class WebSocket:
    """A blocking connection."""

    def __init__(self, stack: ExitStack, connection: ClientConnection) -> None:
        self._stack = stack
        self._connection = connection

    @classmethod
    def connect(cls, binding: Binding, target: str, endpoint: str) -> WebSocket:
        """Raises the exception for an answer that is no upgrade, or `OSError`."""
        _require()
        from websockets.exceptions import InvalidHandshake
        from websockets.sync.client import connect, unix_connect

        stack = ExitStack()
        url, settings = _url(binding, target), _settings(binding)
        try:
            connecting = unix_connect(binding.uds, url, **settings) if binding.uds else connect(url, **settings)
            return cls(stack, stack.enter_context(connecting))
        except InvalidHandshake as error:
            raise _refused(error, binding, endpoint) from None

    def send(self, text: str) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            self._connection.send(text)
        except ConnectionClosed as error:
            raise _closed(error) from None

    def receive(self, timeout: float | None = None) -> str | bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            return self._connection.recv(timeout)
        except ConnectionClosed as error:
            raise _closed(error) from None

    def close(self) -> None:
        with suppress(Exception):  # it is as good as closed
            self._stack.close()


class AsyncWebSocket:
    """The same on an event loop."""

    def __init__(self, stack: AsyncExitStack, connection: AsyncClientConnection) -> None:
        self._stack = stack
        self._connection = connection

    @classmethod
    async def connect(cls, binding: Binding, target: str, endpoint: str) -> AsyncWebSocket:
        _require()
        from websockets.asyncio.client import connect, unix_connect
        from websockets.exceptions import InvalidHandshake

        stack = AsyncExitStack()
        url, settings = _url(binding, target), _settings(binding)
        try:
            connecting = unix_connect(binding.uds, url, **settings) if binding.uds else connect(url, **settings)
            return cls(stack, await stack.enter_async_context(connecting))
        except InvalidHandshake as error:
            raise _refused(error, binding, endpoint) from None

    async def send(self, text: str) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._connection.send(text)
        except ConnectionClosed as error:
            raise _closed(error) from None

    async def areceive(self, timeout: float | None = None) -> str | bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            return await asyncio.wait_for(self._connection.recv(), timeout)
        except asyncio.TimeoutError:  # until Python 3.11 not the built-in one
            raise TimeoutError from None
        except ConnectionClosed as error:
            raise _closed(error) from None

    async def aclose(self) -> None:
        with suppress(Exception):
            await self._stack.aclose()


def _require() -> None:
    try:
        import websockets  # noqa: F401  # the lazy one of our two third-party imports
    except ImportError:
        raise SandboxError("terminals need the package websockets", hint='pip install "websockets>=15"') from None


def _url(binding: Binding, target: str) -> str:
    return "ws" + binding.url(target).removeprefix("http")


def _settings(binding: Binding) -> dict[str, Any]:
    return {
        "additional_headers": binding.headers,
        "user_agent_header": f"notebook-sandbox/{__version__}",
        "compression": None,
        "proxy": None,  # none that merely happens to be in the environment
        "open_timeout": binding.timeout,
        "close_timeout": _CLOSE_SECONDS,
        "ping_interval": None,  # the server asks; and a reader who takes his time is not gone
        "max_size": _MOST_BYTES,
    }


def _refused(error: Exception, binding: Binding, endpoint: str) -> Exception:
    response = getattr(error, "response", None)
    if response is None:
        return OSError("the answer is no WebSocket handshake")
    body = binding.redact(bytes(response.body or b"").decode("utf-8", "replace"))
    return error_from_response(response.status_code, response.headers, body, endpoint)


def _closed(error: ConnectionClosed) -> Closed:
    return Closed(BROKEN, "") if error.rcvd is None else Closed(error.rcvd.code, error.rcvd.reason)
