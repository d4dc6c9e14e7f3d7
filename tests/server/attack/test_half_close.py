"""A caller may say that it has nothing more to send, and still waits for its answer. One that leaves does not."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_server.messages import OCTETS_TYPE
from tests.server.attack.wire import connect, post, rest, running
from tests.support.server import ServerProcess, running_server
from tests.support.waiting import eventually

# It says something after the caller's end has certainly been seen.
SLOW = {"command": "sh -c 'sleep 0.5; echo done'"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("half-closed")


@pytest.fixture(scope="module", params=["tcp", "unix"])
def server(request: pytest.FixtureRequest, directory: Path) -> Iterator[ServerProcess]:
    options = {"unix_socket": directory / "socket"} if request.param == "unix" else {}
    with running_server(directory, **options) as running:
        yield running


def half_closed(server: ServerProcess, request: bytes) -> bytes:
    with connect(server) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return rest(connection)


@pytest.mark.parametrize("path", ["/shell", "/shell/stream"])
def test_a_command_is_answered_to_a_caller_that_has_closed_its_sending_side(server: ServerProcess, path: str) -> None:
    answer = half_closed(server, post(path, SLOW))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"done" in answer


def test_output_that_is_waited_for_is_answered_to_such_a_caller(server: ServerProcess) -> None:
    started = half_closed(server, post("/process/start", {**SLOW, "capture_output": True}))
    id = started.rpartition(b'{"id":"')[2][:32].decode()
    request = f"GET /process/{id}/output?wait=20 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    assert b'"data":"done\\n"' in half_closed(server, request.encode())


def test_a_digest_is_computed_for_such_a_caller(server: ServerProcess, directory: Path) -> None:
    (directory / "base" / "large").write_bytes(bytes(3 << 20))
    answer = half_closed(
        server,
        f"GET /files/download-stream?path=large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Accept: {OCTETS_TYPE}\r\nWant-Repr-Digest: sha-256=1\r\n\r\n".encode(),
    )
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(bytes(3 << 20))


@pytest.mark.field(95)
@pytest.mark.parametrize("path", ["/shell", "/shell/stream"])
def test_field_095_a_command_ends_when_a_caller_leaves_that_had_closed_its_sending_side(
    server: ServerProcess, path: str
) -> None:
    mark = f"caller{uuid.uuid4().hex}"
    with connect(server) as connection:
        connection.sendall(post(path, {"command": f"sh -c 'sleep 60; : {mark}'"}))
        eventually(lambda: running(mark))
        connection.shutdown(socket.SHUT_WR)
        with connect(server) as other:  # by its answer the server had time to see the end
            other.sendall(post("/shell", SLOW))
            assert b"done" in rest(other)
        assert running(mark)
    eventually(lambda: not running(mark))
