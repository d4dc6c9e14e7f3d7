"""Raw bytes to a real server, and what comes back until it closes."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.support.server import ServerProcess

PATIENCE = 60.0  # only keeps a failing test from hanging


def connect(server: ServerProcess) -> socket.socket:
    if server.socket_path:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE)
        connection.connect(server.socket_path)
        return connection
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)


def rest(connection: socket.socket) -> bytes:
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def post(path: str, body: Mapping[str, Any], *fields: str) -> bytes:
    """A request after whose answer the connection closes."""
    data = json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(data)}", *fields]
    return "\r\n".join([*head, "", ""]).encode() + data


def running(word: str) -> bool:
    """Whether a process has this word in its command line."""
    return subprocess.run(["pgrep", "-f", word], stdout=subprocess.DEVNULL, check=False).returncode == 0
