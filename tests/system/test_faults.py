"""What breaks around a running server, and what must still be true afterwards."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time

import pytest

from sandbox_server.process import kernel
from tests.support.memory import MIB, peak, reset_peak
from tests.support.processes import processes_with
from tests.support.server import ServerProcess, running_server, start_server
from tests.support.waiting import eventually


def connect(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), 60)


def head(method: str, target: str, length: int, kind: str) -> bytes:
    return (
        f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


@pytest.mark.finding("R1-F3")
def test_a_server_killed_in_mid_upload_leaves_the_old_file_and_the_next_one_sweeps_the_rest(tmp_path):
    base, state = tmp_path / "base", tmp_path / "state"
    base.mkdir()
    state.mkdir()
    (base / "data.bin").write_bytes(b"the old content")
    server = start_server(base, state)
    with connect(server) as sock:
        sock.sendall(head("POST", "/files/upload-stream?path=data.bin", 64 * MIB, "application/octet-stream"))
        sock.sendall(bytes(16 * MIB))
        eventually(lambda: any(name.startswith(".nsb-") for name in os.listdir(base)))
        server.process.kill()
        server.process.wait()
        server.process.stdout.close()
    assert (base / "data.bin").read_bytes() == b"the old content"
    server = start_server(base, state)
    eventually(lambda: os.listdir(base) == ["data.bin"])
    assert server.stop() == 0


@pytest.mark.field(95)
@pytest.mark.parametrize("path", ["/shell", "/shell/stream"])
def test_field_095_a_vanished_client_takes_its_command_along(tmp_path, path):
    mark = f"600.0{os.getpid()}"
    with running_server(tmp_path) as server:
        body = f'{{"command": "sleep {mark}"}}'.encode()
        with connect(server) as sock:
            sock.sendall(head("POST", path, len(body), "application/json") + body)
            eventually(lambda: processes_with(f"sleep\0{mark}"))
        eventually(lambda: not processes_with(f"sleep\0{mark}"))
        assert server.request("GET", "/health").status == 200


def test_orphans_are_reaped_however_many_end_at_once_and_also_when_nothing_else_happens(tmp_path):
    """The server hears of ten ends a second at most, and looks for the others then."""

    def children() -> list[int]:
        return [line.pid for line in kernel.processes() if line.parent == server.pid]

    with running_server(tmp_path) as server:
        for go in ("first", "second"):  # it listens again afterwards
            left = f"(setsid sh -c 'until [ -e {go} ]; do sleep 0.1; done' &)"
            ends = [f"(setsid sleep 0.{tenth} &)" for tenth in range(10)]  # some while it does not listen
            (tmp_path / "base" / "leave.sh").write_text("\n".join(["exec >/dev/null 2>&1", left, *ends]))
            assert server.request("POST", "/shell", {"command": "sh leave.sh"}).json()["exit_code"] == 0
            eventually(children)
            (tmp_path / "base" / go).touch()
            eventually(lambda: not children())
        started = server.request("POST", "/process/start", {"command": "sleep 600"}).json()
        assert server.request("POST", "/shell", {"command": "true"}).json()["exit_code"] == 0
        assert server.stop() == 0  # at once after an end that it has not looked at yet
        with pytest.raises(ProcessLookupError):
            os.kill(started["pid"], 0)


@pytest.mark.field(58)
def test_field_058_a_flood_of_output_stays_bounded_and_the_server_healthy(tmp_path):
    with running_server(tmp_path) as server:
        server.request("POST", "/shell", {"command": "true"})
        before = reset_peak(server.pid)
        reply = server.request("POST", "/shell", {"command": "yes", "timeout": 10})
        assert reply.status == 408
        assert reply.json()["code"] == "timeout"
        assert reply.json()["truncated"] is True
        assert reply.json()["stdout"].startswith("y\ny\n")
        assert peak(server.pid) - before < 160 * MIB  # the default cap of 16 MiB, decoded and encoded once
        assert server.request("GET", "/health").status == 200


def test_a_slow_reader_of_a_flood_holds_the_command_back_not_the_server(tmp_path):
    with running_server(tmp_path) as server:
        server.request("POST", "/shell", {"command": "true"})
        before = reset_peak(server.pid)
        body = b'{"command": "yes"}'
        with connect(server) as sock:
            request = head("POST", "/shell/stream", len(body), "application/json")
            sock.sendall(request.replace(b"\r\n\r\n", b"\r\nAccept: application/vnd.docker.multiplexed-stream\r\n\r\n"))
            sock.sendall(body)
            for _ in range(20):  # two seconds, a little at a time
                assert sock.recv(4096)
                time.sleep(0.1)
                assert server.request("GET", "/health").status == 200
        assert peak(server.pid) - before < 16 * MIB


def test_a_child_that_ignores_sigterm_does_not_hold_up_the_end(tmp_path):
    mark = f"601.0{os.getpid()}"
    with running_server(tmp_path) as server:
        command = f"sh -c 'trap : TERM; while :; do sleep {mark}; done'"
        assert server.request("POST", "/process/start", {"command": command}).status == 200
        eventually(lambda: processes_with(f"sleep\0{mark}"))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    eventually(lambda: not processes_with(mark))  # killed, if not yet gone


@pytest.mark.field(139)
def test_field_139_a_server_out_of_descriptors_recovers(tmp_path):
    with running_server(tmp_path) as server:
        server.request("POST", "/shell", {"command": "true"})  # what the first command opens for good
        limit = len(os.listdir(f"/proc/{server.pid}/fd")) + 30
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))
        crowd = [connect(server) for _ in range(200)]
        try:
            reply = server.request("POST", "/shell", {"command": "true"})
            assert reply.status in (200, 503, 0)
        finally:
            for sock in crowd:
                sock.close()
        eventually(lambda: server.request("POST", "/shell", {"command": "true"}).status == 200)
        assert server.process.poll() is None
