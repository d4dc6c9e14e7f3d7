"""How one server is set up, and what is said when it cannot be set up like that."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from .catalogue import Catalogue, builtin
from .custom.commands import CommandRegistry
from .messages import quoted
from .policy import BoundPolicy, ServerPolicy
from .services import PROGRAM_PATH

if TYPE_CHECKING:
    from .custom.routes import Route

DEFAULT_PORT = 9000
DEFAULT_PTY_PORT = 9001


class ConfigurationError(ValueError):
    """The server cannot start as asked; the text says what to change."""


class ClosedByDefault(ConfigurationError):
    """No identity is configured and anonymous access was not asked for."""


class Settings(NamedTuple):
    """How one server is set up. `environ` is read, never the process's own environment.

    Without `base_dir` and `host` the defaults are those of ``agent-sandbox-server serve``. `unix_socket` and
    `audit_file` are paths; without `audit_file`, audit lines go to standard error. `isolation` is what discovery
    reports, `program_path` where programs are looked up, `code_groups` what the embedding program switches on or off,
    `commands` and `routes` what it adds.
    """

    policy: ServerPolicy
    environ: Mapping[str, str]
    base_dir: str | None = None
    host: str | None = None
    port: int | None = DEFAULT_PORT  # None opens no TCP port, 0 any free one
    pty_port: int | None = None  # the same for one where terminals alone are reached
    unix_socket: str | None = None
    listen_fds: tuple[int, ...] = ()  # inherited descriptors of sockets that are listened on already
    allow_anonymous: bool = False
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    audit_file: str | None = None
    audit_max_bytes: int | None = None  # None lets it grow
    isolation: str = "none"
    program_path: tuple[str, ...] = PROGRAM_PATH
    open_files: int | None = None  # how many children may have open, where that is less than the server itself may
    scratch: tuple[str, ...] = ()  # where confined children may write whatever their rule; else a place per rule
    code_groups: Mapping[str, bool] = MappingProxyType({})
    commands: CommandRegistry | None = None
    routes: tuple[Route, ...] = ()

    @property
    def address(self) -> str:
        """The host to bind: any, unless everybody who reaches it is let in."""
        return self.host or ("127.0.0.1" if self.allow_anonymous else "0.0.0.0")


def _catalogue(routes: tuple[Route, ...]) -> Catalogue:
    if not routes:
        return builtin()
    from .custom.routes import catalogue_with  # most servers have none of their own

    return catalogue_with(routes)


def bind_policy(settings: Settings) -> BoundPolicy:
    """The policy against this server's catalogue and environment. Raises `PolicyConfigError`, `ConfigurationError`."""
    try:
        catalogue = _catalogue(settings.routes)
    except ValueError as error:
        raise ConfigurationError(f"the endpoints of your own: {error}") from None
    return settings.policy.bind(
        catalogue,
        environ=settings.environ,
        base_dir=settings.base_dir,
        code_groups=settings.code_groups,
        allow_anonymous=settings.allow_anonymous,
        command_scopes={scope for command in settings.commands or () for scope in command.scopes},
    )


def check_encoding() -> None:
    """Paths are UTF-8 on the wire, so they must be UTF-8 on the disk too. Raises `ConfigurationError`."""
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        raise ConfigurationError(
            f'this Python names files in "{encoding}", but clients name them in UTF-8; start it with PYTHONUTF8=1'
        )


def check_open(settings: Settings, policy: BoundPolicy) -> None:
    """Closed by default. Raises `ClosedByDefault`."""
    if not policy.tokens and policy.anonymous is None:
        raise ClosedByDefault(
            "no identity is configured, so nobody could call this server; set ABX_SERVER_TOKEN (or auth.tokens in the "
            "policy), or pass --allow-anonymous (or auth.allow_anonymous: true) to let anyone on this machine in"
        )
    if settings.port is not None or settings.pty_port is not None:
        check_reach(settings.address, policy)


def check_reach(host: str, policy: BoundPolicy) -> None:
    """Anonymous callers only where no other machine and no web page can reach. Raises `ClosedByDefault`."""
    if policy.anonymous is not None and not _is_loopback(host):
        raise ClosedByDefault(
            f"anonymous access on {quoted(host)} would be open to the network; "
            "bind to 127.0.0.1 or a unix socket, or configure tokens instead"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    import ipaddress  # needed for anonymous callers only

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
