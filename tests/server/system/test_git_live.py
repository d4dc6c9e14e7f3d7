"""A git that hangs, floods or fails: bounded, stopped with everything it started, and never quoted."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox_server.confinement import Confinement
from sandbox_server.handlers import git as handler
from tests.server.core.harness import House
from tests.support.processes import processes_with
from tests.support.repositories import repository
from tests.support.server import ServerProcess, running_server
from tests.support.waiting import eventually

ON = {"groups": ["dev_tools"]}


def fake_git(folder: Path, script: str) -> None:
    """A program of this name that lists an empty index, and does as told otherwise."""
    folder.mkdir(exist_ok=True)
    program = folder / "git"
    program.write_text(f'#!/bin/sh\ncase "$*" in *ls-files*) exit 0;; esac\n{script}\n')
    program.chmod(0o755)


@contextmanager
def serving(tmp_path: Path, script: str) -> Iterator[ServerProcess]:
    fake_git(tmp_path / "bin", script)
    (tmp_path / "base").mkdir()
    repository(tmp_path / "base" / "repo")
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    with running_server(tmp_path, policy=ON, arguments=["--program-path", path]) as server:
        yield server


@pytest.fixture
def nap() -> str:
    """Seconds to sleep, by which these processes are told from those of another run of these tests."""
    return f"4711{random.randrange(10**9):09}"


def test_a_caller_who_leaves_takes_git_along(tmp_path: Path, nap: str) -> None:
    with serving(tmp_path, f"sleep {nap} & sleep {nap}") as server:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(b"GET /git/status?path=repo HTTP/1.1\r\nHost: localhost\r\n\r\n")
            eventually(lambda: processes_with(nap))
        eventually(lambda: not processes_with(nap))


def test_a_flood_is_cut_off(tmp_path: Path) -> None:
    with serving(tmp_path, "exec yes 0123456789") as server:
        assert server.request("GET", "/git/diff?path=repo", timeout=120).status == 400  # the figures never end
        answer = server.request("GET", "/git/status?path=repo", timeout=120)
    assert (answer.status, answer.json()["code"]) == (400, "git_error")


def test_what_a_failing_git_says_is_not_told(tmp_path: Path) -> None:
    with serving(tmp_path, "echo /etc/secret-place >&2; echo more-of-it; exit 128") as server:
        answer = server.request("GET", "/git/status?path=repo")
    assert (answer.status, answer.json()["type"]) == (400, "GitError")
    assert b"secret-place" not in answer.body and b"more-of-it" not in answer.body


@pytest.mark.field(77)
def test_field_077_a_git_that_hangs_is_stopped_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nap: str
) -> None:
    fake_git(tmp_path / "bin", f"sleep {nap} & sleep {nap}")
    for folder in ("base", "state"):
        (tmp_path / folder).mkdir()
    repository(tmp_path / "base" / "repo")
    monkeypatch.setattr(handler, "SECONDS", 1.0)
    monkeypatch.setattr(Confinement, "available", False)  # it knows nothing of a program that comes later
    house = House(tmp_path / "base", tmp_path / "state", ON)
    try:
        house.machinery.application._services.program_path = (str(tmp_path / "bin"), "/usr/bin", "/bin")
        answer = house.ask("GET", "/git/status", query=[("path", "repo")])
        assert (answer.status, answer.code) == (408, "timeout")
        eventually(lambda: not processes_with(nap))
    finally:
        house.close()
