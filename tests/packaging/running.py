"""A server as users start it: from a file or a folder, on any Python, as any user."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.server import SYSTEM_PATH
from tests.support.websocket import WebSocketClient

TOKEN = "standalone-token"
#: The starting folder is the last thing that this Python would look into by itself, and ``-S`` leaves its packages out.
FROM_A_FOLDER = "import sys; sys.path.insert(0, sys.argv.pop(1)); from sandbox_server.cli import main; main()"


@dataclass(frozen=True)
class Running:
    """A server that listens."""

    port: int

    def ask(self, path: str, body: dict[str, Any] | None = None, method: str | None = None, accept: str = "") -> bytes:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "Accept": accept or "*/*"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            content: bytes = answer.read()
            return content

    def tell(self, path: str, body: dict[str, Any] | None = None, method: str | None = None) -> Any:
        return json.loads(self.ask(path, body, method))

    def terminal(self) -> WebSocketClient:
        id = self.tell("/pty/sessions", {"shell": "/bin/sh"})["session_id"]
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return WebSocketClient(("127.0.0.1", self.port), f"/pty?session_id={id}", headers)


@contextmanager
def serving(
    command: Sequence[str], base: Path, *arguments: str, user: int | None = None, **environ: str
) -> Iterator[Running]:
    """A running server over `base`; stopped by SIGTERM, which must end it with 0 and without complaint."""
    process = subprocess.Popen(
        [*command, "serve", "--host", "127.0.0.1", "--port", "0", "--base-dir", str(base), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env={"ABX_SERVER_TOKEN": TOKEN, "PATH": SYSTEM_PATH, **environ},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line + process.stderr.read()
        yield Running(int(line.rpartition(":")[2]))
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors
