"""Where a server listens, terminals' own port included, and how many files it and its children may open."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_ports
from tests.support.server import SYSTEM_PATH, Reply, ServerProcess, running_server

TOKEN = {"X-Access-Token": "t"}


@contextmanager
def printed(
    tmp_path: Path, *arguments: str, environ: Mapping[str, str] | None = None, files: tuple[int, int] | None = None
) -> Iterator[tuple[list[str], int]]:
    """What a server says that it listens on, and its pid; it runs on meanwhile."""
    command: Sequence[str] = [sys.executable, "-m", "sandbox_server", "serve", "--base-dir", str(tmp_path), *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": SYSTEM_PATH, "ABX_SERVER_TOKEN": "t", **(environ or {})},
        preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, files)) if files else None,
    )
    assert process.stdout and process.stderr
    with process:
        try:
            lines = os.read(process.stdout.fileno(), 1 << 16).decode().splitlines()  # printed in one go
            yield [line.removeprefix("listening on ") for line in lines], process.pid
        finally:
            process.terminate()


LOCAL = ("--host", "127.0.0.1")


def test_terminals_have_a_port_of_their_own(tmp_path: Path) -> None:
    port, pty_port = free_ports(2)
    with printed(tmp_path, *LOCAL, "--port", str(port), "--pty-port", str(pty_port)) as (addresses, _):
        assert addresses == [f"http://127.0.0.1:{port}", f"ws://127.0.0.1:{pty_port}/pty"]


def test_the_variable_names_their_port_where_the_flag_does_not(tmp_path: Path) -> None:
    port, pty_port, other = free_ports(3)
    environ = {"ABX_PTY_PORT": str(pty_port)}
    with printed(tmp_path, *LOCAL, "--port", str(port), environ=environ) as (addresses, _):
        assert addresses[-1] == f"ws://127.0.0.1:{pty_port}/pty"
    with printed(tmp_path, *LOCAL, "--port", "0", "--pty-port", str(other), environ=environ) as (addresses, _):
        assert addresses[-1] == f"ws://127.0.0.1:{other}/pty"


@pytest.mark.parametrize("garbage", ["", "many", "70000", "-1"])
def test_garbage_in_the_variable_is_as_good_as_none(garbage: str, tmp_path: Path) -> None:
    with printed(tmp_path, *LOCAL, "--port", "0", environ={"ABX_PTY_PORT": garbage}) as (addresses, _):
        assert len(addresses) == 2
        assert addresses[1].startswith("ws://127.0.0.1:") and addresses[1].endswith("/pty")


def test_on_a_unix_socket_alone_terminals_have_no_port(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with printed(tmp_path, "--unix-socket", str(path), environ={"ABX_PTY_PORT": "9001"}) as (addresses, _):
        assert addresses == [f"unix:{path}"]
    [pty_port] = free_ports(1)
    beside = ("--unix-socket", str(path), *LOCAL, "--pty-port", str(pty_port))
    with printed(tmp_path, *beside) as (addresses, _):
        assert addresses == [f"unix:{path}", f"ws://127.0.0.1:{pty_port}/pty"]


def test_where_the_policy_allows_no_terminal_the_port_stays_closed(tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"version": 1, "groups": {"terminal": false}}')
    [pty_port] = free_ports(1)
    flags = (*LOCAL, "--port", "0", "--pty-port", str(pty_port), "--policy", str(tmp_path / "policy.json"))
    with printed(tmp_path, *flags) as (addresses, _):
        assert len(addresses) == 1
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", pty_port))


def test_a_port_that_is_taken_is_said_with_the_flag_that_chooses_another(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = ["serve", "--base-dir", str(tmp_path), "--allow-anonymous", "--port", "0", "--pty-port", str(port)]
        ended = subprocess.run(
            [sys.executable, "-m", "sandbox_server", *flags], capture_output=True, text=True, env={"PATH": SYSTEM_PATH}
        )
    assert ended.returncode == 1
    said = f'cannot listen on "127.0.0.1:{port}": Address already in use; choose another --pty-port'
    assert said in ended.stderr


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[ServerProcess, int]]:
    [pty_port] = free_ports(1)
    with running_server(tmp_path, arguments=["--pty-port", str(pty_port)]) as server:
        yield server, pty_port


def test_nothing_else_is_reachable_there(running: tuple[ServerProcess, int]) -> None:
    server, pty_port = running
    main = server.request("GET", "/health")
    there = ServerProcess(server.process, pty_port, None, server.log, server.audit)
    answers: list[Reply] = [there.request("GET", path) for path in ("/health", "/files/list?path=.", "/", "/pty")]
    assert main.status == 200
    assert {answer.status for answer in answers} == {answers[-1].status}
    assert all(answer.status >= 400 for answer in answers)
    assert there.request("POST", "/shell", {"command": "true"}).status == 405


def limits(pid: int) -> tuple[str, str]:
    _, _, line = Path(f"/proc/{pid}/limits").read_text().partition("Max open files")
    soft, hard = line.split()[:2]
    return soft, hard


def test_the_server_opens_as_many_files_as_it_may_and_its_children_find_the_limit_as_it_was(tmp_path: Path) -> None:
    with printed(tmp_path, *LOCAL, "--port", "0", files=(256, 4000)) as (addresses, pid):
        assert limits(pid) == ("4000", "4000")
        port = int(addresses[0].rpartition(":")[2])
        server = ServerProcess(None, port, None, tmp_path / "log", tmp_path / "audit")  # type: ignore[arg-type]
        child = server.request("POST", "/process/start", {"command": "sleep 60"}, TOKEN).json()
        assert limits(child["pid"]) == ("256", "4000")
