"""A real server as a child process, and the smallest HTTP client that can talk to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class NotStarted(AssertionError):
    """The server ended instead of listening."""

    def __init__(self, code: int, log: str) -> None:
        super().__init__(f"the server did not start (exit code {code}):\n{log}")
        self.code = code


@dataclass(frozen=True)
class Reply:
    """One answer, read to its end. `status` is 0 when the server closed the connection without one."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class ServerProcess:
    """One running server. `stop` ends it as an operator would."""

    process: subprocess.Popen[str]
    port: int
    socket_path: str | None
    log: Path
    audit: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def request(
        self,
        method: str,
        target: str,
        body: bytes | str | Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | Sequence[tuple[str, Any]] | None = None,
        timeout: float = 60,
    ) -> Reply:
        """Send one request on a connection of its own; a mapping as body goes out as JSON."""
        fields = dict(headers or {})
        if isinstance(body, Mapping):
            body = json.dumps(body).encode()
            fields.setdefault("Content-Type", "application/json")
        if query:
            target += "?" + urlencode(query)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before the end; the answer says so
                connection.request(method, target, body, fields)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        except (http.client.RemoteDisconnected, ConnectionResetError):
            return Reply(0, {}, b"")
        finally:
            connection.close()

    def audit_lines(self) -> list[dict[str, Any]]:
        """Those that are there; one that is just being written is not yet."""
        written = self.audit.read_bytes() if self.audit.exists() else b""
        return [json.loads(line) for line in written.split(b"\n")[:-1]]

    def stop(self, timeout: float = 60) -> int:
        """SIGTERM, then wait; answers the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not stop; its log:\n{self.log.read_text()}") from None
        finally:
            if self.process.stdout:
                self.process.stdout.close()


def start_server(
    base_dir: Path,
    state_dir: Path,
    *,
    policy: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    allow_anonymous: bool = True,
    unix_socket: Path | None = None,
    python: str = sys.executable,
) -> ServerProcess:
    """Start a server over `base_dir`; its own files (policy, log, audit lines) go to `state_dir`.

    `environ` is the whole environment, so that nothing of ours leaks into the child. Raises `NotStarted` when the
    server does not come up.
    """
    log, audit = state_dir / "server.log", state_dir / "audit.jsonl"
    command = [python, "-m", "sandbox_server", "serve", "--audit-file", str(audit)]
    if "ABX_SERVER_BASE_DIR" not in (environ or {}):
        command += ["--base-dir", str(base_dir)]
    if unix_socket:
        command += ["--unix-socket", str(unix_socket)]
    else:
        command += ["--host", "127.0.0.1", "--port", "0"]
    if allow_anonymous:
        command.append("--allow-anonymous")
    if policy is not None:
        file = state_dir / "policy.json"
        file.write_text(json.dumps(policy))
        command += ["--policy", str(file)]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=base_dir,
            env=child_environment(environ),
        )
    assert process.stdout
    line = process.stdout.readline().strip()
    server = ServerProcess(process, 0, str(unix_socket) if unix_socket else None, log, audit)
    if not line.startswith("listening on "):
        code = server.stop()
        raise NotStarted(code, log.read_text())
    if not unix_socket:
        server.port = int(line.rpartition(":")[2])
    return server


def child_environment(environ: Mapping[str, str] | None) -> dict[str, str]:
    """A plain environment, plus what a coverage run needs to follow its children."""
    plain = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "HOME": "/nonexistent"} if environ is None else dict(environ)
    return plain | {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}


@contextmanager
def running_server(directory: Path, **options: Any) -> Iterator[ServerProcess]:
    """A server over ``directory/base``, stopped at the end. Options are those of `start_server`."""
    base_dir, state_dir = directory / "base", directory / "state"
    base_dir.mkdir(exist_ok=True)
    state_dir.mkdir(exist_ok=True)
    server = start_server(base_dir, state_dir, **options)
    try:
        yield server
    finally:
        server.stop()
