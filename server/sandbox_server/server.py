"""Builds a server from its settings, runs it, and stops it gracefully."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import signal
import socket
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import secrecy
from .application import Application
from .audit import AuditLog
from .auth import Authenticator
from .catalogue import builtin
from .guards.environment import EnvGuard
from .guards.paths import PathGuards
from .handlers import HANDLERS
from .http.hosts import HostRules
from .http.reactor import Reactor
from .policy import BoundPolicy, ServerPolicy
from .process.table import ProcessTable
from .services import PROGRAM_PATH, Services

log = logging.getLogger("sandbox_server")

DEFAULT_PORT = 9000
DEFAULT_PTY_PORT = 9001
DEFAULT_BASE_DIR = "/home/user"
STOP_GRACE = 10.0  # seconds that running requests get after SIGTERM


class ConfigurationError(ValueError):
    """The server cannot start as asked; the text says what to change."""


class ClosedByDefault(ConfigurationError):
    """No identity is configured and anonymous access was not asked for."""


@dataclass(frozen=True)
class Settings:
    """How one server is set up. `environ` is read, never the process's own environment."""

    policy: ServerPolicy
    environ: Mapping[str, str]
    base_dir: str | None = None
    host: str | None = None
    port: int | None = DEFAULT_PORT
    unix_socket: str | None = None
    allow_anonymous: bool = False
    allow_hosts: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    audit_file: str | None = None
    isolation: str = "none"
    program_path: tuple[str, ...] = PROGRAM_PATH
    code_groups: Mapping[str, bool] = field(default_factory=dict)


def bind_policy(settings: Settings) -> BoundPolicy:
    """The policy against this server's catalogue and environment. Raises `PolicyConfigError`."""
    return settings.policy.bind(
        builtin(),
        environ=settings.environ,
        base_dir=settings.base_dir,
        code_groups=settings.code_groups,
        allow_anonymous=settings.allow_anonymous,
    )


class SandboxServer:
    """One server: listening sockets, application, process table. `run` blocks until a signal or `stop`."""

    def __init__(self, settings: Settings, bound: BoundPolicy | None = None) -> None:
        self.settings = settings
        self.policy = bound or bind_policy(settings)
        _check_open(settings, self.policy)
        if self.policy.require_landlock:
            raise ConfigurationError(
                "policy.require_landlock: this version cannot hold path rules by the kernel yet; "
                "remove the key, or run the server in a sandbox of its own"
            )
        if not os.path.isdir(self.policy.base_dir):
            raise ConfigurationError(
                f"base directory '{self.policy.base_dir}' does not exist; create it or pass --base-dir DIR"
            )
        self.audit = AuditLog(settings.audit_file)
        self.path_guards = PathGuards(self.policy.base_dir)
        # Every allowed directory is opened now, before anybody could put a link in the place of one.
        own = (token.identity.paths for token in self.policy.tokens)
        for paths in (*(rule.paths for rule in self.policy.rules.values()), *own):
            if paths is not None:
                self.path_guards.of(paths)
        self.processes = ProcessTable()
        self.services = Services(
            catalogue=builtin(),
            rules=self.policy,
            path_guards=self.path_guards,
            environment=EnvGuard(self.policy.secret_names),
            processes=self.processes,
            child_environment=_child_environment(settings.environ, self.policy.secret_names),
            isolation=settings.isolation,
            program_path=settings.program_path,
            implemented=frozenset(HANDLERS),
            has_tokens=bool(self.policy.tokens),
        )
        self.application = Application(
            self.services,
            Authenticator(self.policy.tokens, self.policy.anonymous),
            HANDLERS,
            audit=self.audit,
            audit_unrouted=self.policy.audit_unrouted,
        )
        self.listeners = _listen(settings)
        hosts = HostRules(settings.allow_hosts, settings.allow_origins)
        self.reactor = Reactor(self.application, self.listeners, hosts=hosts)
        self._stopping = False
        self._sleeper, self._rouser = socket.socketpair()
        self._rouser.setblocking(False)

    @property
    def addresses(self) -> list[str]:
        """Where it listens: URLs with the real port, or ``unix:PATH``."""
        return [_address(listener) for listener in self.listeners]

    def run(self) -> None:
        """Serve until SIGTERM, SIGINT or `stop`, then finish what runs, kill the children and return."""
        self.path_guards.sweep()
        in_main = threading.current_thread() is threading.main_thread()
        if in_main:
            # Python runs a handler only between two of its instructions; the byte that the signal itself sends wakes
            # us even when it comes just before we sleep.
            signal.set_wakeup_fd(self._rouser.fileno(), warn_on_full_buffer=False)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: self.stop())
            signal.signal(signal.SIGCHLD, lambda *_: self.processes.reap())
            self.processes.adopt_orphans()
        thread = threading.Thread(target=self.reactor.run, name="reactor")
        thread.start()
        while not self._stopping:
            self._sleeper.recv(4096)
        self.reactor.stop(STOP_GRACE)
        self.processes.close()
        thread.join()
        if in_main:
            signal.set_wakeup_fd(-1)
        self.close()

    def stop(self) -> None:
        """Ask `run` to end. Safe in a signal handler and from any thread."""
        self._stopping = True
        with contextlib.suppress(OSError):  # it is roused already, or gone
            self._rouser.send(b"\0")

    def close(self) -> None:
        self._rouser.close()
        self._sleeper.close()
        self.path_guards.close()
        self.audit.close()
        if self.settings.unix_socket:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.settings.unix_socket)


def hide_secrets(policy: BoundPolicy) -> None:
    """Take the tokens out of this process's environment, where children and neighbours could read them."""
    secrecy.hide(policy.secret_names)


def _child_environment(environ: Mapping[str, str], secret_names: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in secret_names}


def _check_open(settings: Settings, policy: BoundPolicy) -> None:
    """Closed by default; anonymous callers only where no other machine and no web page can reach."""
    if not policy.tokens and policy.anonymous is None:
        raise ClosedByDefault(
            "no identity is configured, so nobody could call this server; set ABX_SERVER_TOKEN (or auth.tokens in the "
            "policy), or pass --allow-anonymous (or auth.allow_anonymous: true) to let anyone on this machine in"
        )
    if policy.anonymous is not None and _opens_tcp(settings) and not _is_loopback(_host(settings)):
        raise ClosedByDefault(
            f"anonymous access on '{_host(settings)}' would be open to the network; "
            "bind to 127.0.0.1 or a unix socket, or configure tokens instead"
        )


def _opens_tcp(settings: Settings) -> bool:
    return settings.port is not None


def _host(settings: Settings) -> str:
    return settings.host or ("127.0.0.1" if settings.allow_anonymous else "0.0.0.0")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(settings: Settings) -> list[socket.socket]:
    listeners = []
    if settings.unix_socket is not None:
        listeners.append(_listen_unix(settings.unix_socket))
    if _opens_tcp(settings):
        host, port = _host(settings), settings.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listeners.append(socket.create_server((host, port or 0), family=family, backlog=1024))
        except OSError as error:
            raise ConfigurationError(f"cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}") from None
    return listeners


def _listen_unix(path: str) -> socket.socket:
    """A socket only its owner may connect to. A stale one of ours is replaced, anything else is left alone."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise ConfigurationError(f"'{path}' exists and is no socket; choose another --unix-socket path")
        probe = socket.socket(socket.AF_UNIX)
        with probe:
            if probe.connect_ex(path) == 0:
                raise ConfigurationError(f"another server already listens on '{path}'")
        os.unlink(path)
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)
    try:
        listener.bind(path)
    except OSError as error:
        listener.close()
        raise ConfigurationError(f"cannot listen on '{path}': {os.strerror(error.errno or 0) or error}") from None
    finally:
        os.umask(mask)
    listener.listen(1024)
    return listener


def _address(listener: socket.socket) -> str:
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"http://{host}:{name[1]}"
