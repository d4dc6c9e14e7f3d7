"""A sandbox: started here, found again by name, talked to through its server, ended."""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from .._acompat import arun_blocking
from .._errors import SandboxError
from .._models import CommandResult, Decision
from .._output import KEEP
from .._public import public
from .._sync.sandbox import Sandbox  # async only
from ..sandbox.local import attach, local_sandboxes, start
from ..sandbox.local_sandbox import LocalSandbox, SandboxList
from ..sandbox.policies import DEFAULT_PRESET, PolicySource
from ..sandbox.settings import Settings
from ._twins import AsyncSandboxTwins  # async only
from .browser import AsyncBrowser
from .capabilities import AsyncCapabilities
from .client import AsyncServerClient
from .code import AsyncCode
from .files import AsyncFiles
from .process import AsyncProcesses
from .system import AsyncCommands, AsyncGit, AsyncSystem
from .terminal import AsyncTerminals

SERVER_PORT = 9000
NETWORKS = {"off": "off", "no tcp": "no TCP", "shared": "shared with this machine"}


@public
class AsyncSandbox(AsyncSandboxTwins):
    """One sandbox and the client of its server. Make it with `local`, `create` or `attach`; end it with `kill`.

    As a context manager it ends with the block, and at the latest with this process, unless it is kept.
    """

    _owned = False  # a twin shares the finalizer of the one that owns the sandbox
    _finalizer: weakref.finalize[[LocalSandbox], Any] | None = None

    def __init__(self, found: LocalSandbox, *, owned: bool = False) -> None:
        self._local = found
        self._server: AsyncServerClient | None = None
        self._closed = False
        self._owned = owned
        if owned:
            self._finalizer = weakref.finalize(self, _end, found)

    @classmethod
    async def local(
        cls,
        policy: PolicySource = DEFAULT_PRESET,
        *,
        only: str | Iterable[str] | None = None,
        download_from: str | None = None,
        upload_to: str | None = None,
        root: str | os.PathLike[str] | None = None,
        keep: bool = False,
        name: str | None = None,
        network: bool = False,
        isolation: str = "auto",
    ) -> AsyncSandbox:
        """Start a sandbox on this machine, in an empty directory or in `root`.

        `policy` is a preset's name, a policy file or a document. `only` opens these endpoints and nothing else
        (``"transfer"`` stands for both transfers, which `download_from` and `upload_to` bind to a directory each).
        `isolation` is ``auto``, ``bubblewrap``, ``landlock`` or ``none``; by name it is that or an error. A sandbox to
        `keep` outlives this process, and the same call with the same `name` finds it again.

        Raises `IsolationUnavailableError`, `SandboxNameTakenError`, and `SandboxStartError` with the server's log.
        """
        settings = Settings.of(
            policy,
            only=only,
            download_from=download_from,
            upload_to=upload_to,
            root=root,
            keep=keep,
            name=name,
            network=network,
            isolation=isolation,
        )
        found = await arun_blocking(lambda: start(settings))
        return cls(found, owned=not keep)

    @classmethod
    async def create(cls, *, engine: str = "local", **options: Any) -> AsyncSandbox:
        """Start a sandbox by the engine of this name; the options are those of `local`."""
        if engine != "local":
            raise SandboxError(f'engine "{engine}" is not known; expected "local"')
        return await cls.local(**options)

    @classmethod
    async def attach(cls, name: str) -> AsyncSandbox:
        """The kept sandbox of this name, started by whichever process of this user; else `SandboxNotFoundError`."""
        return cls(await arun_blocking(lambda: attach(name)))

    @classmethod
    def list_local(cls) -> SandboxList:
        """All sandboxes of this user on this machine; kept ones also when they have stopped."""
        return local_sandboxes()

    @property
    def _twin(self) -> Sandbox:  # async only
        twin = Sandbox(self._local)
        twin._server, twin._finalizer = self.server._twin, self._finalizer
        return twin

    @property
    def name(self) -> str:
        """What it was called, or ``sandbox-1``, ``sandbox-2`` … within this process."""
        return self._local.name

    @property
    def root(self) -> str:
        """The directory, by its name inside, that relative paths start from."""
        return self._local.state.root

    @property
    def isolation(self) -> str:
        """What is in force: ``bubblewrap``, ``landlock`` or ``none``."""
        return self._local.isolation

    @property
    def network(self) -> str:
        """What is in force: ``off``, ``no tcp`` or ``shared`` (with this machine)."""
        return self._local.network

    @property
    def policy(self) -> str:
        """The preset, or a word for the document; `discover` tells what it allows."""
        return self._local.state.policy

    @property
    def kept(self) -> bool:
        """True when it outlives this process."""
        return self._local.kept

    @property
    def running(self) -> bool:
        """True while its server runs."""
        return self._local.running

    @property
    def server(self) -> AsyncServerClient:
        """The client of the sandbox's server."""
        if self._closed or self._local.stopped:
            raise SandboxError(f'sandbox "{self.name}" is closed', hint="start another one, or attach to a kept one")
        if self._server is None:
            self._server = self.server_at()
        return self._server

    def server_at(
        self, port: int = SERVER_PORT, *, token: str | None = None, timeout: float = 30.0
    ) -> AsyncServerClient:
        """Another client: with another identity's token, or of another server inside. The caller closes it."""
        if port == SERVER_PORT:
            token = token or self._local.state.token
            client = AsyncServerClient(uds=self._local.socket, token=token, timeout=timeout)
            client._connection.known.sandbox = self.name
            return client
        if self.network != "shared":
            raise SandboxError(
                f'port {port} of sandbox "{self.name}" cannot be reached, its network is {self.network}',
                hint="start it with network=True",
            )
        return AsyncServerClient(f"http://127.0.0.1:{port}", token=token, timeout=timeout)

    @property
    def files(self) -> AsyncFiles:
        """Read and write its files."""
        return self.server.files

    @property
    def process(self) -> AsyncProcesses:
        """Run commands in it."""
        return self.server.process

    @property
    def pty(self) -> AsyncTerminals:
        """Open terminals in it."""
        return self.server.pty

    @property
    def code(self) -> AsyncCode:
        """Run pieces of code in it."""
        return self.server.code

    @property
    def git(self) -> AsyncGit:
        """Look at repositories in it."""
        return self.server.git

    @property
    def browser(self) -> AsyncBrowser:
        """The page of this identity; see `AsyncBrowser`."""
        return self.server.browser

    @property
    def system(self) -> AsyncSystem:
        """Ask for facts about the machine."""
        return self.server.system

    @property
    def commands(self) -> AsyncCommands:
        """Run the operator's commands."""
        return self.server.commands

    async def run(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        stdin: str | bytes | None = None,
        check: bool = False,
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        keep: int = KEEP,
    ) -> CommandResult:
        """Run a command to its end. Whatever stops this call stops the command.

        `command` is a list of arguments, passed on as they are, or text that is split as a POSIX shell would split it;
        no shell runs it. `cwd` is a directory of the sandbox, `env` adds variables. After `timeout` seconds (300 when
        nobody says) it is killed: `CommandTimeoutError`, with the output so far. `check` turns an exit code other than
        0 into `CommandFailedError`. The callbacks get text as it comes; the result holds the last `keep` bytes
        (64 MiB) of each stream. Raises `NotFoundError` for a program that is not there, `PolicyDeniedError` for one
        that the policy forbids.
        """
        return await self.process.run(
            command,
            cwd=cwd,
            env=env,
            timeout=timeout,
            stdin=stdin,
            check=check,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            keep=keep,
        )

    async def discover(self) -> AsyncCapabilities:
        """Ask what may be done here. From now on, calls that the policy forbids are refused without being sent."""
        return await self.server.discover()

    async def check(
        self, endpoint: str, *, path: str | None = None, paths: Sequence[str] | None = None, op: str | None = None
    ) -> Decision:
        """Ask what the policy would say to a call, and why, without making it."""
        return await self.server.check(endpoint, path=path, paths=paths, op=op)

    def forget_discovery(self) -> None:
        """Send every call again, and let the server decide."""
        self.server.forget_discovery()

    def info(self) -> dict[str, Any]:
        """What this sandbox is, without asking it."""
        state = self._local.state
        return {
            "name": self.name,
            "running": self.running,
            "isolation": self.isolation,
            "isolation_refused": list(self._local.refused),
            "network": self.network,
            "policy": self.policy,
            "root": self.root,
            "directory": state.directory,
            "kept": self.kept,
        }

    async def kill(self) -> None:
        """End everything inside and remove its files, unless the directory was given. Also for a kept one."""
        if self._finalizer is not None:
            self._finalizer.detach()
        await arun_blocking(self._local.stop)
        await self._close_server()

    async def aclose(self) -> None:
        """End the sandbox. A kept one, or one of the process that this one was forked from, is only let go of."""
        if self._finalizer is not None and self._finalizer.detach() is not None:
            await arun_blocking(lambda: _end(self._local))
        await self._close_server()

    async def _close_server(self) -> None:
        self._closed = True
        server, self._server = self._server, None
        if server is not None:
            await server.aclose()

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if sys.is_finalizing() or not self._owned or self._finalizer is None or not self._finalizer.alive:
            return
        if os.getpid() == self._local.owner:
            warnings.warn(f'unclosed sandbox "{self.name}"', ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        facts = ", ".join(f"{key} {value}" for key, value in self._facts().items())
        return f'<{type(self).__name__} "{self.name}": {facts}>'

    def _repr_html_(self) -> str:
        from .._display.table import Table, as_html, pairs

        return as_html(Table(pairs([("sandbox", self.name), *self._facts().items()])))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

    def _facts(self) -> dict[str, str]:
        """The same text for the same sandbox, on every machine and in every run."""
        if not self.running:
            return {"state": "ended"}
        facts = {"isolation": self.isolation, "network": NETWORKS[self.network], "policy": self.policy}
        return {**facts, "state": "kept"} if self.kept else facts


def _end(found: LocalSandbox) -> None:
    """End what this process started. A forked copy of it must not."""
    if os.getpid() == found.owner:
        found.stop()
