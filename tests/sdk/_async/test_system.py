"""The machine, the operator's commands and repositories, asked for through the client."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_sdk import AsyncServerClient, GitFile, PolicyDeniedError, ServerAPIError
from tests.support.repositories import git, repository
from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.anyio

COMMANDS = Path(__file__).resolve().parents[2] / "support" / "sample_commands.py"
POLICY = {"groups": ["dev_tools"]}


async def test_the_machine_tells_what_it_is_and_how_busy(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        info, metrics = await client.system.info(), await client.system.metrics()
        assert (info.os, info.cpu_count, info.hostname) == (os.uname().sysname, os.cpu_count(), os.uname().nodename)
        assert info.memory_total_mb >= info.memory_available_mb > 0
        assert info.memory_source == metrics.memory_source and info.memory_source in ("host", "cgroup")
        assert metrics.memory_total_mb == info.memory_total_mb
        assert 0 <= metrics.disk_percent <= 100


async def test_a_port_is_told_with_the_process_that_listens(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        own = [port for port in await client.system.ports() if port.port == server.port]
        assert [(port.protocol, port.address) for port in own] == [("tcp", "127.0.0.1")]


async def test_variables_are_set_for_later_commands(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        assert await client.system.set_env({"B": "2", "A": "1"}) == ["A", "B"]
        assert await client.system.env(["A", "NOPE"]) == {"A": "1"}
        with pytest.raises(PolicyDeniedError):
            await client.system.set_env({"ABX_X": "1"})
        with pytest.raises(ServerAPIError):
            await client.system.set_env({"PATH": "/x"})


async def test_packages_are_listed_by_manager(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        for manager in ("pip", "npm"):
            assert all(package.name and package.version for package in await client.system.packages(manager))
        with pytest.raises(ServerAPIError, match='manager "cargo" is unknown'):
            await client.system.packages("cargo")


async def test_counters_and_the_document_of_the_server(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        assert "# TYPE sandbox_server_requests_total counter" in await client.system.prometheus()
        document = await client.openapi()
        assert document["openapi"] == "3.1.0"
        assert "/files/stat" in document["paths"]


async def test_an_operators_commands_are_listed_and_run(tmp_path: Path) -> None:
    with running_server(tmp_path, arguments=["--commands", str(COMMANDS)]) as server:
        async with AsyncServerClient(server.url) as client:
            known = {command.name: command for command in await client.commands.list()}
            assert [argument.name for argument in known["greet"].args] == ["name", "times", "loud"]
            assert "secret_cmd" not in known
            assert await client.commands.run("greet", name="bob", times=2) == "hi bob hi bob"
            assert await client.commands.run("with space") == "spaced"
            assert await client.commands.run("nothing") is None
            with pytest.raises(ServerAPIError) as failed:
                await client.commands.run("boom")
            assert (failed.value.status_code, failed.value.error_type) == (500, "KeyError")
            assert "internal detail" not in str(failed.value)
            with pytest.raises(ServerAPIError) as unknown:
                await client.commands.run("nope")
            assert (unknown.value.status_code, unknown.value.code) == (404, "command_not_found")
            with pytest.raises(ServerAPIError, match='argument "times" must be a whole number'):
                await client.commands.run("greet", times="many")


async def test_a_repository_is_looked_at(tmp_path: Path) -> None:
    with running_server(tmp_path, policy=POLICY) as server:
        made = repository(tmp_path / "base" / "repo")
        (made / "old.txt").write_text("a line that is long enough\n")
        git(made, "add", ".")
        git(made, "commit", "-q", "-m", "old")
        git(made, "mv", "old.txt", "new.txt")
        (made / "f.txt").write_text("two\n")
        async with AsyncServerClient(server.url) as client:
            status = await client.git.status("repo")
            assert (status.branch, status.clean) == ("main", False)
            assert status.files == (GitFile("f.txt", "modified"), GitFile("new.txt", "renamed", "old.txt"))
            diff = await client.git.diff("repo")
            assert (diff.files_changed, diff.insertions, diff.deletions) == (1, 1, 1)
            assert "-one\n+two\n" in diff.diff
            assert (await client.git.diff("repo", staged=True)).diff.startswith("diff --git a/old.txt b/new.txt\n")
            assert (await client.git.diff("repo", file="new.txt")).diff == ""
            with pytest.raises(ServerAPIError) as nowhere:
                await client.git.status(".")
            assert (nowhere.value.code, nowhere.value.error_type) == ("git_error", "GitError")
