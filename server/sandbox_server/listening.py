"""The sockets that a server listens on: TCP, and a unix socket that only its owner may connect to."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator

from .settings import ConfigurationError, Settings

_BACKLOG = 1024
_Identity = tuple[int, int, int]


class Listeners:
    """Listening sockets. Whoever serves on them closes them; `remove_file` takes the unix socket's name away."""

    def __init__(self, settings: Settings) -> None:
        self.sockets: list[socket.socket] = []
        self._file: tuple[str, _Identity] | None = None
        try:
            if settings.unix_socket is not None:
                self.sockets.append(_listen_unix(settings.unix_socket))
                self._file = settings.unix_socket, _identity(settings.unix_socket)
            if settings.port is not None:
                self.sockets.append(_listen_tcp(settings.address, settings.port))
        except ConfigurationError:
            self.close()
            raise
        self.addresses = [_address(listener) for listener in self.sockets]

    def close(self) -> None:
        for listener in self.sockets:
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


def _listen_tcp(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with _said(f"{host}:{port}"):
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


def _clear(path: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise ConfigurationError(f"'{path}' exists and is no socket; choose another --unix-socket path")
    with socket.socket(socket.AF_UNIX) as probe:
        answer = probe.connect_ex(path)
    if answer not in (errno.ECONNREFUSED, errno.ENOENT):  # refused: nobody listens on it any more
        raise ConfigurationError(f"another server listens on '{path}'; stop it or choose another --unix-socket path")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


@contextlib.contextmanager
def _said(where: str) -> Iterator[None]:
    """Faults of the operating system as faults of the settings."""
    try:
        yield
    except OSError as error:
        # Python's own complaint, such as a path too long for a socket, has no number and no strerror.
        raise ConfigurationError(f"cannot listen on '{where}': {error.strerror or error}") from None


def _address(listener: socket.socket) -> str:
    name = listener.getsockname()
    if listener.family == socket.AF_UNIX:
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"http://{host}:{name[1]}"
