"""The sockets that a server listens on: TCP, a unix socket that only its owner may connect to, and inherited ones.

An inherited socket is one that the parent process listens on already (as in socket activation): callers may connect
before the server runs, and a unix socket keeps its name where nobody in the server's own file system can take it away.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator

from .messages import quoted
from .settings import ConfigurationError, Settings

#: What every request to the terminals' own port asks for, whatever its path.
TERMINAL_PATH = "/pty"

_BACKLOG = 1024
_Identity = tuple[int, int, int]


class Listeners:
    """Listening sockets. Whoever serves on them closes them; `remove_file` takes the unix socket's name away.

    The name of an inherited one belongs to whoever made it.
    """

    def __init__(self, settings: Settings, *, terminals: bool = True) -> None:
        self.sockets: list[socket.socket] = []
        self.terminal: socket.socket | None = None  # for those alone, where they are wanted
        self._file: tuple[str, _Identity] | None = None
        try:
            for number in settings.listen_fds:
                if any(number == each.fileno() for each in self.sockets):
                    raise ConfigurationError(f"--listen-fd {number} is given twice")
                self.sockets.append(_inherited(number))
            self.inherited_hosts = [each.getsockname()[0] for each in self.sockets if each.family != socket.AF_UNIX]
            if settings.unix_socket is not None:
                self.sockets.append(_listen_unix(settings.unix_socket))
                self._file = settings.unix_socket, _identity(settings.unix_socket)
            if settings.port is not None:
                self.sockets.append(_listen_tcp(settings.address, settings.port))
            if settings.pty_port is not None and terminals:
                self.terminal = _listen_tcp(settings.address, settings.pty_port, "--pty-port")
        except ConfigurationError:
            self.close()
            raise
        self.addresses = [_address(listener) for listener in self.sockets]
        if self.terminal is not None:
            self.addresses.append(f"ws{_address(self.terminal).removeprefix('http')}{TERMINAL_PATH}")

    @property
    def terminal_port(self) -> int | None:
        """The real one."""
        return None if self.terminal is None else int(self.terminal.getsockname()[1])

    @property
    def doors(self) -> list[tuple[socket.socket, str]]:
        return [] if self.terminal is None else [(self.terminal, TERMINAL_PATH)]

    def close(self) -> None:
        for listener in (*self.sockets, *(door for door, _ in self.doors)):
            listener.close()
        self.remove_file()

    def remove_file(self) -> None:
        """Unlink the socket, unless another server has taken its name meanwhile."""
        if self._file is not None:
            path, identity = self._file
            self._file = None
            with contextlib.suppress(OSError):
                if _identity(path) == identity:
                    os.unlink(path)


def _identity(path: str) -> _Identity:
    status = os.lstat(path)
    return status.st_dev, status.st_ino, status.st_ctime_ns  # inode numbers are used again at once


def _listen_tcp(host: str, port: int, option: str = "--port") -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with _said(f"{host}:{port}", f"; choose another {option}"):
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def _listen_unix(path: str) -> socket.socket:
    """A stale socket is replaced, anything else is left alone."""
    with _said(path):
        _clear(path)
        listener = socket.socket(socket.AF_UNIX)
        mask = os.umask(0o177)
        try:
            listener.bind(path)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
        finally:
            os.umask(mask)
    return listener


def _inherited(number: int) -> socket.socket:
    """The listening socket behind a descriptor. What is no such thing is left alone."""
    with contextlib.suppress(OSError, ValueError, OverflowError):
        listener = socket.socket(fileno=number)
        if _is_listening(listener):
            listener.set_inheritable(False)  # for this process, not for the programs that it runs
            return listener
        listener.detach()
    raise ConfigurationError(
        f"--listen-fd {number} is no listening unix or TCP socket; "
        "bind it, listen on it, and let this process inherit it under that number"
    )


def _is_listening(listener: socket.socket) -> bool:
    return (
        listener.family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)
        and listener.type == socket.SOCK_STREAM
        and bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    )


def _clear(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigurationError(f"{quoted(path)} exists and is no socket; choose another --unix-socket path")
    with socket.socket(socket.AF_UNIX) as probe:
        answer = probe.connect_ex(path)
    if answer not in (errno.ECONNREFUSED, errno.ENOENT):  # refused: nobody listens on it any more
        raise ConfigurationError(
            f"another server listens on {quoted(path)}; stop it or choose another --unix-socket path"
        )
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@contextlib.contextmanager
def _said(where: str, advice: str = "") -> Iterator[None]:
    """Faults of the operating system as faults of the settings."""
    try:
        yield
    except OSError as error:
        # The system's own words, to which Python may add; what only Python or a resolver says has no such number.
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or error
        raise ConfigurationError(f"cannot listen on {quoted(where)}: {reason}{advice}") from None


def _address(listener: socket.socket) -> str:
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return f"unix:{name if isinstance(name, str) else '@' + name[1:].decode(errors='replace')}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"http://{host}:{name[1]}"
