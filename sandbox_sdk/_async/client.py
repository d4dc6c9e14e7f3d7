"""The client of one sandbox server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import httpx

from .. import _calls as calls
from .._binding import Binding
from .._call import call
from .._capabilities import Snapshot
from .._errors import ServerAPIError
from .._known import Known
from .._models import Decision
from .._public import public
from .._sync.client import ServerClient  # async only
from ._twins import AsyncServerClientTwins  # async only
from .browser import AsyncBrowser
from .capabilities import AsyncCapabilities
from .code import AsyncCode
from .connection import AsyncConnection
from .files import AsyncFiles
from .process import AsyncProcesses
from .system import AsyncCommands, AsyncGit, AsyncSystem
from .terminal import AsyncTerminals


@public
class AsyncServerClient(AsyncServerClientTwins):
    """Talks to one server. Use it as a context manager, or `aclose` it.

    Give a base URL, or `uds`, the path of a unix socket. Nothing is sent before the first call; nothing is checked
    locally before `discover`. An `http_client` that the caller brings is used as it is and not closed.
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        uds: str | None = None,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30.0,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        binding = Binding.of(base_url, uds=uds, token=token, headers=headers, timeout=timeout)
        self._bind(AsyncConnection(binding, http_client))

    @classmethod
    def _around(cls, binding: Binding, known: Known) -> AsyncServerClient:
        """A client that shares what another one knows."""
        client = cls.__new__(cls)
        client._bind(AsyncConnection(binding, None, known))
        return client

    def _bind(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.files = AsyncFiles(connection)
        self.process = AsyncProcesses(connection)
        self.commands = AsyncCommands(connection)
        self.system = AsyncSystem(connection)
        self.pty = AsyncTerminals(connection)
        self.code = AsyncCode(connection)
        self.git = AsyncGit(connection)
        self.browser = AsyncBrowser(connection)

    @property
    def _twin(self) -> ServerClient:  # async only
        return self._connection.twin

    @property
    def address(self) -> str:
        """Where the server is: its URL, or ``unix:`` and the path of its socket."""
        return self._connection.binding.address

    @property
    def capabilities(self) -> AsyncCapabilities | None:
        """The last discovery; None before `discover`, and once the policy is known to have changed."""
        snapshot = self._connection.known.snapshot
        return None if snapshot is None else AsyncCapabilities(snapshot.as_dict(), self._connection)

    async def health(self) -> bool:
        """Is the server alive? False on any failure."""
        return await self._connection.alive()

    async def discover(self) -> AsyncCapabilities:
        """Ask what this identity may do. From now on, calls that the policy forbids are refused without being sent."""
        self._connection.known.snapshot = None
        document = await self._connection.send(calls.capabilities())
        self._connection.known.snapshot = Snapshot(document)
        return AsyncCapabilities(document, self._connection)

    async def openapi(self) -> dict[str, Any]:
        """The server's OpenAPI 3.1 document: what it offers, whoever may use it."""
        return await self._connection.send(call("openapi", dict))

    def forget_discovery(self) -> None:
        """Send every call again, and let the server decide."""
        self._connection.known.snapshot = None

    async def check(
        self, endpoint: str, *, path: str | None = None, paths: Sequence[str] | None = None, op: str | None = None
    ) -> Decision:
        """Ask what the policy would say to a call, and why, without making it."""
        return await self._connection.send(calls.check(endpoint, path, paths, op))

    def on_refusal(self, listener: Callable[[ServerAPIError], object]) -> Callable[[], None]:
        """Call `listener` with every refusal that this client gets from now on; call what is returned to end that.

        It runs where the refused call does, before that raises. What other clients are refused, it does not hear.
        """
        listeners = self._connection.known.listeners
        listeners.append(listener)
        return lambda: listeners.remove(listener) if listener in listeners else None

    def with_token(self, token: str) -> AsyncServerClient:
        """Another client of the same server, with another credential."""
        return self._around(self._connection.binding.with_token(token), Known(sandbox=self._connection.known.sandbox))

    async def aclose(self) -> None:
        """Close the connections. A client that the caller brought stays open."""
        await self._connection.aclose()

    async def __aenter__(self) -> AsyncServerClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        of = "of " if self._connection.known.sandbox else ""
        return f"<{type(self).__name__} {of}{self._connection.where}>"
