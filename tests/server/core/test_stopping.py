"""SIGTERM: what runs may finish for a while, then it is ended; nothing survives, and the exit code is 0."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sandbox_server import SandboxServer, server
from tests.server.core.test_server import settings
from tests.support.server import Reply, ServerProcess, running_server
from tests.support.waiting import eventually


class Asked(threading.Thread):
    """A request under way."""

    def __init__(self, server: ServerProcess, path: str, body: dict[str, Any]) -> None:
        super().__init__()
        self._work = lambda: server.request("POST", path, body, timeout=60)
        self.reply: Reply | None = None
        self.start()

    def run(self) -> None:
        self.reply = self._work()

    def answer(self) -> Reply:
        self.join()
        assert self.reply is not None
        return self.reply


@pytest.fixture
def running(tmp_path: Path) -> Iterator[ServerProcess]:
    with running_server(tmp_path) as server:
        yield server


def marked(server: ServerProcess) -> list[int]:
    """Living processes that descend from the server, or were started by it and have left its family."""
    found = []
    for name in os.listdir("/proc"):
        try:
            environ = Path(f"/proc/{name}/environ").read_bytes() if name.isdigit() else b""
        except OSError:
            continue
        if b"CORE_TEST=" + str(server.pid).encode() in environ.split(b"\0"):
            found.append(int(name))
    return found


def command_that_waits(tmp_path: Path) -> tuple[str, Path, Path]:
    """A command that says when it runs, and ends when it is told to."""
    here, go = tmp_path / "here", tmp_path / "go"
    return f"sh -c 'touch {here}; while [ ! -e {go} ]; do sleep 0.01; done; echo done'", here, go


def test_a_running_request_finishes_and_new_connections_are_refused(running: ServerProcess, tmp_path: Path) -> None:
    command, here, go = command_that_waits(tmp_path)
    asked = Asked(running, "/shell", {"command": command})
    eventually(here.exists)
    running.process.send_signal(signal.SIGTERM)
    eventually(lambda: _refused(running.port))
    go.touch()
    reply = asked.answer()
    assert (reply.status, reply.json()["stdout"], reply.headers["connection"]) == (200, "done\n", "close")
    assert running.stop() == 0
    assert running.log.read_text() == ""


def _refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionError:
        return True
    return False


def test_what_does_not_finish_is_ended_and_its_caller_is_answered(running: ServerProcess) -> None:
    env = {"CORE_TEST": str(running.pid)}
    script = "sh -c 'setsid sleep 1001 & trap \"\" TERM; echo started; sleep 1002'"
    asked = [
        Asked(running, "/shell", {"command": "sleep 1003", "env": env}),
        Asked(running, "/shell/stream", {"command": script, "env": env}),
    ]
    started = running.request("POST", "/process/start", {"command": script, "env": env}).json()
    assert started["pid"]
    eventually(lambda: len(marked(running)) >= 7)
    assert running.stop(60) == 0
    whole, streamed = (one.answer() for one in asked)
    assert (whole.status, whole.json()["signal"]) == (200, signal.SIGTERM)
    assert b'event: error\ndata: {"error":"shutdown"}\n\nevent: exit\n' in streamed.body  # killed, or its child was
    assert marked(running) == []
    assert "Traceback" not in running.log.read_text()


def test_background_processes_end_at_once_and_so_do_those_who_follow_them(running: ServerProcess) -> None:
    start = {"command": "sh -c 'trap \"echo bye; exit 3\" TERM; echo hello; while :; do sleep 0.01; done'"}
    started = running.request("POST", "/process/start", {**start, "capture_output": True}).json()
    with socket.create_connection(("127.0.0.1", running.port), timeout=60) as follower:
        follower.sendall(
            f"GET /process/{started['id']}/output?follow=1 HTTP/1.1\r\nHost: localhost\r\n"
            "Accept: application/vnd.docker.multiplexed-stream\r\n\r\n".encode()
        )
        told = b""
        while b"hello" not in told:
            told += follower.recv(65536)
        running.process.send_signal(signal.SIGTERM)
        while data := follower.recv(65536):
            told += data
    assert running.stop() == 0
    assert b"bye" in told
    end = json.loads(told[told.rindex(b'{"kind":"end"') :].partition(b"\r\n")[0])
    assert (end["exit_code"], end["reason"]) == (3, "shutdown")


def test_no_command_is_started_any_more(base: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with SandboxServer(settings(base, unix_socket=str(tmp_path / "s"))) as server:
        server._machinery.processes.retire()
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))
            body = b'{"command":"true"}'
            client.sendall(b"POST /shell HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            assert client.recv(65536).startswith(b"HTTP/1.1 503 ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_idle_server_ends_at_any_of_these_signals(running: ServerProcess, number: signal.Signals) -> None:
    with socket.create_connection(("127.0.0.1", running.port)) as idle:
        running.process.send_signal(number)
        assert running.stop() == 0
        assert idle.recv(1) == b""


def test_a_server_whose_terminal_closes_leaves_nobody_behind(running: ServerProcess) -> None:
    started = running.request(
        "POST", "/process/start", {"command": "sleep 600", "env": {"CORE_TEST": str(running.pid)}}
    )
    assert started.status == 200
    eventually(lambda: marked(running))
    running.process.send_signal(signal.SIGHUP)
    assert running.stop() == 0
    assert marked(running) == []


def test_a_server_told_to_ignore_a_signal_does_and_what_it_starts_does_not(base: Path) -> None:
    """``nohup`` has it ignore one, and a shell's ``&`` the others."""
    told = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    before = [signal.signal(number, signal.SIG_IGN) for number in told]
    try:
        with running_server(base.parent) as server:
            for number in (signal.SIGHUP, signal.SIGQUIT):
                server.process.send_signal(number)
                assert server.request("GET", "/health").status == 200
            for number in told:
                started = server.request("POST", "/process/start", {"command": "sleep 600"}).json()
                os.kill(started["pid"], number)
                eventually(lambda id=started["id"]: server.request("GET", f"/process/{id}").json()["signal"])
                assert server.request("GET", f"/process/{started['id']}").json()["signal"] == number
    finally:
        for number, handler in zip(told, before, strict=True):
            signal.signal(number, handler)


def test_who_has_asked_before_the_stop_is_answered(base: Path) -> None:
    server = SandboxServer(settings(base))
    port = int(server.addresses[0].rpartition(":")[2])
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(200)]
        for number, client in enumerate(clients):
            path = b"/health" if number % 2 else b"/files/list?path=."
            client.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        server.stop()
        server.run()
        for client in clients:
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
            assert client.recv(1) == b""


def test_a_second_signal_waits_for_nobody(running: ServerProcess, tmp_path: Path) -> None:
    command, here, _ = command_that_waits(tmp_path)
    asked = Asked(running, "/shell", {"command": command, "env": {"CORE_TEST": str(running.pid)}})
    eventually(here.exists)
    running.process.send_signal(signal.SIGTERM)
    eventually(lambda: _refused(running.port))
    running.process.send_signal(signal.SIGTERM)
    assert asked.answer().status == 0
    assert running.stop() == 0
    assert marked(running) == []


def test_an_upload_under_way_finishes_or_leaves_nothing(running: ServerProcess, tmp_path: Path) -> None:
    head = (
        "POST /files/upload-stream?path={} HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/octet-stream\r\nContent-Length: 100000\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", running.port)) as whole, \
            socket.create_connection(("127.0.0.1", running.port)) as half:  # fmt: skip
        for name, client in (("whole", whole), ("half", half)):
            client.sendall(head.format(name).encode() + b"x" * 90_000)
        eventually(lambda: _parts(running) >= 2)
        running.process.send_signal(signal.SIGTERM)
        eventually(lambda: _refused(running.port))
        whole.sendall(b"x" * 10_000)
        assert whole.recv(65536).startswith(b"HTTP/1.1 200 ")
        assert running.stop(60) == 0
    assert os.listdir(tmp_path / "base") == ["whole"]
    assert (tmp_path / "base/whole").read_bytes() == b"x" * 100_000


def _parts(server: ServerProcess) -> int:
    """Open files of the server that have no name, or that of a part."""
    links = []
    for name in os.listdir(f"/proc/{server.pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{server.pid}/fd/{name}"))
        except FileNotFoundError:
            continue
    return sum("(deleted)" in link or ".nsb-" in link for link in links)


def test_the_graces_together_are_shorter_than_the_patience_of_container_engines() -> None:
    assert server.STOP_GRACE + server.ANSWER_GRACE < 10


@pytest.mark.finding("R2-S13")
def test_the_token_is_gone_from_what_others_can_read_of_the_server(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "ABX_SERVER_TOKEN": "s3cret-token", "OTHER": "plain"}
    with running_server(tmp_path, environ=environ, allow_anonymous=False) as server:
        token = {"X-Access-Token": "s3cret-token"}
        told = server.request("POST", "/shell", {"command": "cat /proc/self/environ"}, token).json()["stdout"]
        parent = server.request("POST", "/shell", {"command": f"cat /proc/{server.pid}/environ"}, token).json()
    assert "OTHER=plain" in told and "s3cret-token" not in told
    assert "s3cret-token" not in parent["stdout"]
