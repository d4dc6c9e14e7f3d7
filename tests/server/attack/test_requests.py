"""Single requests that once got a wrong answer from a real server."""

from __future__ import annotations

import http.client
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from sandbox_server import SandboxServer, ServerPolicy, Settings
from sandbox_server.messages import OCTETS_TYPE
from tests.server.attack.wire import connect, rest
from tests.support.server import ServerProcess, running_server

NEVER = {"auth": {"allow_anonymous": True}, "endpoints": {"files_*": {"paths": {"symlinks": "never"}}}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Path]]:
    """A server over a directory that every test finds empty."""
    directory = tmp_path_factory.mktemp("requests")
    with running_server(directory) as running:
        yield running, directory / "base"


@pytest.fixture
def server(shared: tuple[ServerProcess, Path]) -> ServerProcess:
    return shared[0]


@pytest.fixture
def base(shared: tuple[ServerProcess, Path]) -> Path:
    return emptied(shared[1])


def emptied(directory: Path) -> Path:
    shutil.rmtree(directory)
    directory.mkdir()
    return directory


@pytest.mark.field(2)
@pytest.mark.finding("R2-S17")
@pytest.mark.parametrize("character", ["a", "é", "語", "😀"])
def test_field_002_the_longest_path_fits_into_a_request_line(server: ServerProcess, base: Path, character: str) -> None:
    name = character * 60
    path = "/".join([name] * 68)[:4095] + "x"
    assert len(path) == 4096
    stored = server.request(
        "POST", f"/files/upload-stream?path={quote(path, safe='')}", b"1", {"Content-Type": OCTETS_TYPE}
    )
    assert stored.status == 200, stored.body
    seen = server.request("GET", f"/files/stat?path={quote(path, safe='')}").json()
    assert (seen["exists"], seen["path"]) == (True, f"{base}/{path}")


def test_a_head_request_has_no_range(server: ServerProcess, base: Path) -> None:
    (base / "file").write_bytes(bytes(100))
    fields = {"Accept": OCTETS_TYPE, "Range": "bytes=0-4"}
    assert server.request("GET", "/files/download-stream?path=file", headers=fields).status == 206
    head = server.request("HEAD", "/files/download-stream?path=file", headers=fields)
    assert (head.status, head.headers["content-length"], "content-range" in head.headers) == (200, "100", False)


def test_a_file_moves_onto_another_name_of_itself(server: ServerProcess, base: Path) -> None:
    (base / "one").write_text("text")
    os.link(base / "one", base / "two")
    assert server.request("POST", "/files/move", {"source": "one", "destination": "two"}).status == 200
    assert sorted(os.listdir(base)) == ["two"]
    assert (base / "two").read_text() == "text"


@pytest.mark.parametrize("destination", ["file", "./file", "link/file"])
def test_a_file_that_moves_onto_itself_stays(server: ServerProcess, base: Path, destination: str) -> None:
    (base / "file").write_text("text")
    (base / "link").symlink_to(".")
    assert server.request("POST", "/files/move", {"source": "file", "destination": destination}).status == 200
    assert (base / "file").read_text() == "text"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    secret = {"PATH": "/usr/bin", "ABX_SERVER_TOKEN": "secret"}
    with running_server(tmp_path_factory.mktemp("guarded"), allow_anonymous=False, environ=secret) as running:
        yield running


@pytest.mark.parametrize("token", [b"secret\xa0", b"\xa0secret", b"secret\x85"])
@pytest.mark.parametrize("field", [b"X-Access-Token: ", b"Authorization: Bearer "])
def test_a_token_is_compared_to_the_last_byte(guarded: ServerProcess, token: bytes, field: bytes) -> None:
    with connect(guarded) as wire:
        head = b"GET /capabilities HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        wire.sendall(head + field + token + b"\r\n\r\n")
        assert rest(wire).startswith(b"HTTP/1.1 401 ")


def test_a_question_asks_about_a_bounded_number_of_paths(server: ServerProcess) -> None:
    def ask(count: int) -> int:
        return server.request("POST", "/capabilities/check", {"endpoint": "files_stat", "paths": ["x"] * count}).status

    assert (ask(1000), ask(1001)) == (200, 400)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Path]]:
    directory = tmp_path_factory.mktemp("strict")
    with running_server(directory, policy=NEVER) as running:
        yield running, directory / "base"


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/files/stat?path=link", None),
        ("GET", "/files/stat?path=link&follow=false", None),
        ("DELETE", "/files?path=link", None),
        ("POST", "/files/move", {"source": "link", "destination": "new"}),
        ("POST", "/files/move", {"source": "file", "destination": "link"}),
        ("GET", "/files/stat?path=gone&follow=false", None),
        ("DELETE", "/files?path=gone", None),
    ],
)
def test_where_links_are_forbidden_a_link_is_not_even_touched_itself(
    strict: tuple[ServerProcess, Path], method: str, target: str, body: dict[str, str] | None
) -> None:
    server, base = strict[0], emptied(strict[1])
    (base / "file").write_text("text")
    (base / "link").symlink_to("file")
    (base / "gone").symlink_to("nowhere")
    answer = server.request(method, target, body)
    assert (answer.status, answer.json()["code"]) == (403, "symlink_denied")
    assert sorted(os.listdir(base)) == ["file", "gone", "link"]


@pytest.mark.parametrize(
    ("accept", "raw"),
    [
        (OCTETS_TYPE, True),
        (OCTETS_TYPE.upper(), True),
        (f"application/json;q=0.5 , {OCTETS_TYPE} ;q=0.9", True),
        (f"{OCTETS_TYPE};q=0", False),
        (f"{OCTETS_TYPE}; Q=0.000", False),
        (f"{OCTETS_TYPE}-x", False),
        (f"x{OCTETS_TYPE}", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_a_representation_is_asked_for_by_its_exact_name(
    server: ServerProcess, base: Path, accept: str, raw: bool
) -> None:
    (base / "file").write_text("text")
    answer = server.request("GET", "/files/download-stream?path=file", headers={"Accept": accept})
    assert (answer.body == b"text") is raw


@pytest.mark.parametrize("fields", [{}, {"Accept": OCTETS_TYPE, "Want-Repr-Digest": "sha-256=1"}])
def test_a_file_that_shrinks_before_the_answer_begins_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str]
) -> None:
    (tmp_path / "file").write_text("text")
    monkeypatch.setattr(os, "pread", lambda descriptor, size, offset: b"te")
    settings = Settings(ServerPolicy(), {}, base_dir=str(tmp_path), port=0, allow_anonymous=True)
    with SandboxServer(settings) as server:
        url = urlsplit(server.addresses[0])
        connection = http.client.HTTPConnection(str(url.hostname), url.port, timeout=60)
        connection.request("GET", "/files/download-stream?path=file", headers=fields)
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["code"]) == (409, "conflict")
        connection.close()


@pytest.mark.finding("R2-S18")
@pytest.mark.parametrize(
    ("method", "target", "body", "refused", "admitted"),
    [
        ("GET", "/files/stat?path=/etc/passwd", None, "/etc/passwd", []),
        ("GET", "/files/stat?path=%ff%0a/secret", None, "\udcff\n/secret", []),
        ("POST", "/files/move", {"source": "one", "destination": "secret"}, "secret", ["one"]),
        ("POST", "/shell", {"command": "ls", "cwd": "../.."}, "../..", []),
        ("GET", "/files/stat?path=one", None, None, None),
    ],
)
def test_an_audit_line_names_the_path_that_was_refused(
    tmp_path: Path,
    method: str,
    target: str,
    body: dict[str, str] | None,
    refused: str | None,
    admitted: list[str] | None,
) -> None:
    policy = {"endpoints": {"files_*": {"paths": {"deny": ["secret"]}}}}
    with running_server(tmp_path, policy=policy) as server:
        answer = server.request(method, target, body)
        assert (answer.status == 403) is (refused is not None)
    lines = server.audit_lines()
    assert [line["refused"] for line in lines] == ([] if refused is None else [refused])
    assert [line["paths"] for line in lines] == (
        [] if admitted is None else [[f"{tmp_path}/base/{name}" for name in admitted]]
    )
