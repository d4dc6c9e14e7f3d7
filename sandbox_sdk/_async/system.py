"""The machine inside the sandbox, the operator's own commands and repositories: one plain call each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _calls as calls
from .._call import call, each, nothing
from .._parts import Part
from .._public import public
from .._reports import (
    CommandInfo,
    CommandList,
    GitDiff,
    GitStatus,
    ListeningPort,
    Package,
    PackageList,
    PortList,
    SystemInfo,
    SystemMetrics,
)
from .._sync.system import Commands, Git, System  # async only
from ._twins import AsyncCommandsTwins, AsyncGitTwins, AsyncSystemTwins  # async only
from .connection import AsyncConnection


@public
class AsyncSystem(AsyncSystemTwins, Part[AsyncConnection]):
    """Facts about the machine."""

    @property
    def _twin(self) -> System:  # async only
        return self._connection.twin.system

    async def info(self) -> SystemInfo:
        """Hardware and software."""
        return await self._connection.send(call("system_info", SystemInfo.from_wire))

    async def metrics(self) -> SystemMetrics:
        """Load, memory and disk, now."""
        return await self._connection.send(call("system_metrics", SystemMetrics.from_wire))

    async def prometheus(self) -> str:
        """What the server has counted so far, as a monitoring system reads it (Prometheus text format)."""
        request = call("metrics", nothing)
        async with self._connection.stream(request) as response:
            return (await self._connection.read(response, request.endpoint)).decode("utf-8", "replace")

    async def env(self, names: Sequence[str] | None = None) -> dict[str, str]:
        """Environment variables, secrets left out."""
        return await self._connection.send(calls.variables(names))

    async def set_env(self, variables: Mapping[str, str]) -> list[str]:
        """Set variables for later commands; answers the names that changed."""
        return await self._connection.send(calls.set_variables(variables))

    async def ports(self) -> PortList:
        """Ports that something inside listens on."""
        return PortList(await self._connection.send(call("ports", each("listening", ListeningPort.from_wire))))

    async def packages(self, manager: str = "pip") -> PackageList:
        """Installed packages."""
        decode = each("packages", Package.from_wire)
        return PackageList(await self._connection.send(call("packages", decode, manager=manager)))


@public
class AsyncCommands(AsyncCommandsTwins, Part[AsyncConnection]):
    """Commands that the operator of the server has registered."""

    @property
    def _twin(self) -> Commands:  # async only
        return self._connection.twin.commands

    async def list(self) -> CommandList:
        """The commands this identity may run."""
        decode = each("commands", CommandInfo.from_wire)
        return CommandList(await self._connection.send(call("list_commands", decode)))

    async def run(self, name: str, /, *, timeout: float | None = None, **arguments: Any) -> Any:
        """Run one by name with JSON arguments; answers what it returns."""
        return await self._connection.send(calls.custom(name, arguments, timeout))


@public
class AsyncGit(AsyncGitTwins, Part[AsyncConnection]):
    """Looks at repositories."""

    @property
    def _twin(self) -> Git:  # async only
        return self._connection.twin.git

    async def status(self, path: str = ".") -> GitStatus:
        """The branch and the changed files."""
        return await self._connection.send(call("git_status", GitStatus.from_wire, path=path))

    async def diff(self, path: str = ".", *, staged: bool = False, file: str | None = None) -> GitDiff:
        """The changes as a diff."""
        request = call("git_diff", GitDiff.from_wire, path=path, staged=staged or None, file=file)
        return await self._connection.send(request)
