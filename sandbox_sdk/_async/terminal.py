"""Terminals: a shell on the other side that one types into, and whose screen one reads."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any

from .. import _pty_calls as calls
from .. import _wire as wire
from .._display.shown import Shown
from .._display.table import Cell, Table
from .._errors import CommandTimeoutError, EndpointNotAvailableError, SandboxError, ServerAPIError
from .._parts import Part
from .._pty_models import CONNECT, SIGNALS, TerminalInfo, TerminalList, error_from_close, message
from .._public import public
from .._sockets import AsyncWebSocket, Closed
from .._sync.terminal import Terminals  # async only
from ._twins import AsyncTerminalsTwins  # async only
from .connection import AsyncConnection


@public
class AsyncTerminals(AsyncTerminalsTwins, Part[AsyncConnection]):
    """Opens terminals, and finds those that are open."""

    @property
    def _twin(self) -> Terminals:  # async only
        return self._connection.twin.pty

    async def create(
        self,
        shell: str | None = None,
        *,
        cols: int = 80,
        rows: int = 24,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> AsyncTerminal:
        """Open a terminal and connect to it. It stays open, and can be connected to again, until its shell ends.

        `shell` is one of those that the server knows (``/bin/bash`` when nobody says). A terminal that nobody and
        nothing uses is closed after a while, half an hour by default.
        """
        id = await self._connection.send(calls.create(shell, cols=cols, rows=rows, env=env, cwd=cwd))
        try:
            return await self.connect(id)
        except BaseException:
            with suppress(SandboxError):
                await self.close(id)
            raise

    async def connect(self, id: str, *, takeover: bool = False) -> AsyncTerminal:
        """Connect to an open terminal: first comes what it has shown lately, then what it shows.

        Several may be connected, and all see the same; `takeover` closes everybody else's connection.
        """
        terminal = AsyncTerminal(self._connection, id)
        await terminal._open(takeover)
        return terminal

    async def list(self) -> TerminalList:
        """The open terminals of this identity."""
        terminals = await self._connection.send(calls.sessions())
        return TerminalList(terminals)

    async def get(self, id: str) -> TerminalInfo:
        """How a terminal is; of one that has ended not long ago, how it ended."""
        return await self._connection.send(calls.session(id))

    async def resize(self, id: str, cols: int, rows: int) -> TerminalInfo:
        """Change the size of a terminal, 1 to 1000 columns and rows."""
        return await self._connection.send(calls.resize(id, cols, rows))

    async def close(self, id: str) -> None:
        """Close a terminal: its shell ends, and everything that it started."""
        await self._connection.send(calls.delete(id))


@public
class AsyncTerminal(Shown):
    """A connection to a terminal. Iterate it for what the terminal shows, as text with its control sequences.

    Leaving the ``with`` block, or closing it, leaves the terminal as it is: `connect` with the same id comes back.
    """

    def __init__(self, connection: AsyncConnection, id: str) -> None:
        self.id = id
        self.pid = 0
        self.exit_code: int | None = None  # once the shell has ended
        self.exit_signal: int | None = None  # the one that ended it, if one did
        self.skipped = 0  # bytes that we were too slow to be shown
        self._connection = connection
        self._socket: AsyncWebSocket | None = None
        self._shown: deque[str] = deque()
        self._ended = False

    async def __aenter__(self) -> AsyncTerminal:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncTerminal:
        return self

    async def __anext__(self) -> str:
        while not self._shown:
            if self._ended or self._socket is None:
                raise StopAsyncIteration
            await self._hear(None)
        return self._shown.popleft()

    async def read(self, timeout: float | None = None) -> str:
        """The next piece that the terminal shows, ``""`` when its shell has ended; `TimeoutError` if none comes."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._shown:
            if self._ended or self._socket is None:
                return ""
            await self._hear(deadline)
        return self._shown.popleft()

    async def send(self, text: str) -> None:
        """Type. A line ends with ``\\n``; Ctrl-C is ``\\x03``."""
        await self._say(type="input", data=text)

    async def resize(self, cols: int, rows: int) -> None:
        """Change the size, 1 to 1000 columns and rows."""
        if not (1 <= cols <= 1000 and 1 <= rows <= 1000):
            raise ValueError(f"a terminal has 1 to 1000 columns and rows, not {cols} and {rows}")
        await self._say(type="resize", cols=cols, rows=rows)

    async def signal(self, name: str = "SIGINT") -> None:
        """A signal for what runs in the foreground: SIGINT, SIGTERM, SIGKILL, SIGHUP or SIGQUIT."""
        if name not in SIGNALS:
            raise ValueError(f'signal "{name}" cannot be sent to a terminal; expected one of {", ".join(SIGNALS)}')
        await self._say(type="signal", signal=name)

    async def take_over(self) -> None:
        """Close everybody else's connection to this terminal."""
        await self._say(type="takeover")

    async def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the shell; answers its exit code. What it shows meanwhile is dropped."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._ended and self._socket is not None:
            self._shown.clear()
            try:
                await self._hear(deadline)
            except TimeoutError:
                raise CommandTimeoutError(
                    f"the shell of terminal {self.id} still runs after {timeout:g} s",
                    endpoint=CONNECT,
                    hint="it goes on; wait() again, or kill() it",
                ) from None
        if not self._ended:
            info = await self._connection.send(calls.session(self.id))
            self.exit_code, self.exit_signal, self._ended = info.exit_code, info.signal, not info.alive
        if self.exit_code is None:
            raise ServerAPIError(f"how terminal {self.id} ended is not known", endpoint=CONNECT)
        return self.exit_code

    async def kill(self) -> None:
        """Close the terminal itself: its shell ends, and everything that it started."""
        await self._connection.send(calls.delete(self.id))

    async def aclose(self) -> None:
        """Close the connection. The terminal stays open."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.aclose()

    def _table(self) -> Table:
        return Table(headline=Cell(f"terminal · {self._state()}", "strong"))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self._state()}>"

    def _state(self) -> str:
        return f"exited {self.exit_code}" if self._ended else "closed" if self._socket is None else "connected"

    async def _open(self, takeover: bool) -> None:
        connection, call = self._connection, calls.connect(self.id, takeover)
        connection.known.require(call.endpoint)
        if not await connection.ours():
            raise EndpointNotAvailableError(
                "this server has its terminals on another port, which this client does not know", endpoint=CONNECT
            )
        try:
            self._socket = await AsyncWebSocket.connect(connection.binding, call.target, call.endpoint)
            while not self.pid:
                await self._hear(time.monotonic() + connection.binding.timeout)
        except BaseException as error:
            await self.aclose()
            if isinstance(error, (OSError, EOFError)) and not isinstance(error, SandboxError):
                raise await connection.lost(error, call.endpoint) from None
            raise

    async def _hear(self, deadline: float | None) -> None:
        """Take in one message; `TimeoutError` when none comes in time."""
        assert self._socket is not None
        try:
            received = await self._socket.areceive(None if deadline is None else max(0.0, deadline - time.monotonic()))
        except Closed as closed:
            await self.aclose()
            if not self._ended:
                raise error_from_close(closed, self._connection.binding.address) from None
            return
        told = message(received)
        if wire.text(told, "type") == "output":
            self._shown.append(wire.text(told, "data"))
            return
        match wire.text(told, "event"):
            case "started":
                self.pid = wire.whole(told, "pid")
            case "skipped":
                self.skipped += wire.whole(told, "bytes")
            case "exited":
                self.exit_code = wire.whole_or_none(told, "exit_code")
                self.exit_signal = wire.whole_or_none(told, "signal")
                self._ended = True
                await self.aclose()

    async def _say(self, **fields: Any) -> None:
        if self._socket is None:
            raise ServerAPIError(f"the connection to terminal {self.id} is closed", endpoint=CONNECT)
        try:
            await self._socket.send(json.dumps(fields))
        except Closed as closed:
            await self.aclose()
            raise error_from_close(closed, self._connection.binding.address) from None
