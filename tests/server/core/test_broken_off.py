"""What the audit log says of bodies and answers that did not arrive whole."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.server import ServerProcess, running_server
from tests.support.waiting import eventually

RAW = "Accept: application/octet-stream\r\n"
BIG = 64 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    place = tmp_path_factory.mktemp("broken-off")
    (place / "base").mkdir()
    with (place / "base" / "big").open("wb") as file:
        file.truncate(BIG)
    with running_server(place, policy={"defaults": {"audit": "all"}}) as running:
        yield running


def lines(server: ServerProcess, endpoint: str) -> list[dict[str, Any]]:
    return [line for line in server.audit_lines() if line["endpoint"] == endpoint]


def leave(server: ServerProcess, head: str, body: str = "", *, answered: bool) -> None:
    """Ask, read a part of the answer if there is one, and go."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as caller:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        caller.sendall(f"{head} HTTP/1.1\r\nHost: localhost\r\n{RAW}{length}\r\n{body}".encode())
        assert not answered or caller.recv(100)


@pytest.mark.parametrize(
    ("endpoint", "head", "body"),
    [
        ("files_download_stream", "GET /files/download-stream?path=big", ""),
        ("shell_stream", "POST /shell/stream", '{"command": "yes"}'),
        ("files_watch", "GET /files/watch?path=.", ""),
    ],
)
def test_an_answer_that_its_caller_leaves_is_written_as_aborted(
    server: ServerProcess, endpoint: str, head: str, body: str
) -> None:
    leave(server, head, body, answered=True)
    eventually(lambda: lines(server, endpoint))
    [line] = lines(server, endpoint)
    assert (line["decision"], line["status"], line["aborted"]) == ("allow", 200, True)


def test_so_is_a_command_that_nobody_waits_for(server: ServerProcess) -> None:
    leave(server, "POST /shell", '{"command": "sleep 600"}', answered=False)
    eventually(lambda: lines(server, "shell"))
    [line] = lines(server, "shell")
    assert (line["program"], line["aborted"]) == ("/usr/bin/sleep", True)


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/files/download-stream?path=big", None),
        ("HEAD", "/files/download-stream?path=big", None),
        ("GET", "/files/list?path=.&recursive=true", None),
        ("HEAD", "/files/list?path=.&recursive=true", None),
        ("POST", "/files/archive", {"paths": ["big"]}),
        ("POST", "/shell/stream", {"command": "true"}),
        ("GET", "/files/watch?path=.&timeout=0.1", None),
        ("GET", "/openapi.json", None),
    ],
)
def test_whole_answers_are_not(server: ServerProcess, method: str, target: str, body: Any) -> None:
    answer = server.request(method, target, body, {"Accept": "application/octet-stream"})
    assert answer.status == 200
    written: list[dict[str, Any]] = []
    id = answer.headers["x-request-id"]
    eventually(lambda: written.extend(line for line in server.audit_lines() if line["id"] == id) or written)
    assert "aborted" not in written[0]


@pytest.mark.parametrize("way", ["upload", "large upload", "upload with a digest", "upload in parts", "JSON"])
@pytest.mark.parametrize("reads_on", [True, False])
def test_a_body_that_its_sender_ends_too_early_is_written_as_aborted(
    server: ServerProcess, way: str, reads_on: bool
) -> None:
    path = f"{way}-{reads_on}".replace(" ", "-")
    length = 100 << 20 if way == "large upload" else 1000
    fields = {"upload with a digest": "Want-Repr-Digest: sha-256=1\r\n", "upload in parts": "Upload-Complete: ?0\r\n"}
    kind = "application/json" if way == "JSON" else "application/octet-stream"
    before = len(server.audit_lines())
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as caller:
        caller.sendall(
            f"POST /files/upload-stream?path={path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {length}\r\n{fields.get(way, '')}\r\n".encode()
            + b"x" * 600
        )
        if reads_on:
            caller.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: caller.recv(1 << 16), b""))
            assert answer.startswith(b"HTTP/1.1 400 ")
            assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "bad_request"
    eventually(lambda: len(server.audit_lines()) > before)
    [line] = server.audit_lines()[before:]
    assert (line["endpoint"], line["status"], line["code"], line["aborted"]) == (
        "files_upload_stream", 400, "bad_request", True
    )  # fmt: skip


def test_a_request_that_is_refused_for_what_it_says_is_not(server: ServerProcess) -> None:
    answer = server.request("POST", "/files/upload-stream", b"{", {"Content-Type": "application/json"})
    assert answer.status == 400
    written: list[dict[str, Any]] = []
    id = answer.headers["x-request-id"]
    eventually(lambda: written.extend(line for line in server.audit_lines() if line["id"] == id) or written)
    assert (written[0]["code"], "aborted" in written[0]) == ("bad_body", False)
