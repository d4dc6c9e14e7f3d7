"""A server of the superuser leaves no set-id program in a directory that others see."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_server.guards.tree import _copy_dress
from tests.support.server import Reply, ServerProcess, running_server

OCTETS = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with running_server(tmp_path) as running:
        yield running


@pytest.fixture
def program(tmp_path: Path, server: ServerProcess) -> Path:
    """A set-id file, as a child of the server may have made one."""
    path = tmp_path / "base" / "program"
    path.write_text("old")
    path.chmod(0o6755)
    assert path.stat().st_mode & 0o7777 == 0o6755
    return path


def upload(server: ServerProcess, **query: str) -> Reply:
    return server.request("POST", "/files/upload-stream", b"new", OCTETS, query={"path": "program", **query})


@pytest.mark.parametrize("query", [{}, {"append": "true"}, {"offset": "0"}, {"mode": "755"}])
def test_what_an_upload_writes_is_not_set_id_any_more(
    server: ServerProcess, program: Path, query: dict[str, str]
) -> None:
    assert upload(server, **query).status == 200
    assert program.stat().st_mode & 0o7777 == 0o755
    assert b"new" in program.read_bytes()


def test_an_edit_takes_the_bits_away_too(server: ServerProcess, program: Path) -> None:
    edit = {"path": "program", "edits": [{"old": "old", "new": "new"}]}
    assert server.request("POST", "/files/edit", edit).status == 200
    assert (program.read_text(), program.stat().st_mode & 0o7777) == ("new", 0o755)


@pytest.mark.parametrize("mode", ["4755", "2755", "6755", "7777"])
def test_nobody_can_ask_for_the_bits(server: ServerProcess, tmp_path: Path, mode: str) -> None:
    (tmp_path / "base" / "plain").write_text("plain")
    assert server.request("POST", "/files/chmod", {"path": "plain", "mode": mode}).status == 400
    assert upload(server, mode=mode).status == 400
    assert (tmp_path / "base" / "plain").stat().st_mode & 0o7000 == 0


def test_an_archive_brings_none(server: ServerProcess, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("tool")
        member.size, member.mode = 4, 0o6755
        archive.addfile(member, io.BytesIO(b"tool"))
    answer = server.request(
        "POST", "/files/unpack", packed.getvalue(), {"Content-Type": "application/x-tar"}, query={"path": "."}
    )
    assert answer.status == 200, answer.body
    assert (tmp_path / "base" / "tool").stat().st_mode & 0o7777 == 0o755


def test_a_move_to_another_file_system_makes_none_anew(tmp_path: Path) -> None:
    (tmp_path / "from").write_text("x")
    (tmp_path / "from").chmod(0o6755)
    (tmp_path / "to").write_text("x")
    one, other = os.open(tmp_path / "from", os.O_RDONLY), os.open(tmp_path / "to", os.O_WRONLY)
    _copy_dress(one, other)
    os.close(one)
    os.close(other)
    assert (tmp_path / "to").stat().st_mode & 0o7777 == 0o755
