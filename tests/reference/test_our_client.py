"""Our client against the unmodified reference server: everything both sides know works, the rest is not available."""

from __future__ import annotations

import asyncio
import os
from itertools import islice
from pathlib import Path

import pytest

from sandbox_sdk import (
    AsyncServerClient,
    AuthenticationError,
    CommandTimeoutError,
    EndpointNotAvailableError,
    FilePolicyDeniedError,
    NotFoundError,
    ServerAPIError,
    ServerClient,
)
from tests.reference.conftest import ReferenceServer

pytestmark = [pytest.mark.finding("R2-C8"), pytest.mark.slow]


@pytest.fixture
def client(reference_server: ReferenceServer):
    with ServerClient(reference_server.url, token=reference_server.token) as client:
        yield client


def test_discovery_and_checks(client: ServerClient, reference_server: ReferenceServer) -> None:
    caps = client.discover()
    assert caps.identity_id == "server"
    assert caps.can("files_list") and not caps.can("code_run")
    assert caps.denial("files_unpack") == "unknown_endpoint"
    paths = caps.paths("files_list")
    assert paths is not None and paths.read_only is False
    assert client.check("files_stat", path="/etc/passwd").code == "path_not_allowed"
    assert caps.check_path("files_stat", str(reference_server.base / "x")).allowed
    with pytest.raises(EndpointNotAvailableError):
        client.code.run("print(1)")
    client.forget_discovery()
    with pytest.raises(EndpointNotAvailableError) as refused:
        client.code.run("print(1)")
    assert refused.value.status_code == 404


def test_a_wrong_token(reference_server: ReferenceServer) -> None:
    with ServerClient(reference_server.url, token="wrong") as client, pytest.raises(AuthenticationError):
        client.files.list(str(reference_server.base))


def test_files(client: ServerClient, reference_server: ReferenceServer, tmp_path: Path) -> None:
    base = str(reference_server.base)
    content = os.urandom(1_000_000)
    progress: list[tuple[int, int]] = []
    receipt = client.files.write(f"{base}/d/ü b.bin", content, progress=lambda *facts: progress.append(facts))
    assert receipt.bytes == len(content) and progress[-1] == (len(content), len(content))
    assert client.files.read(f"{base}/d/ü b.bin") == content
    assert client.files.download(f"{base}/d/ü b.bin", tmp_path / "out").bytes == len(content)
    assert (tmp_path / "out").read_bytes() == content
    assert [(e.name, e.path, e.size) for e in client.files.list(f"{base}/d")] == [
        ("ü b.bin", f"{base}/d/ü b.bin", len(content))
    ]
    info = client.files.stat(f"{base}/d/ü b.bin")
    assert (info.type, info.size) == ("file", len(content))
    assert info.modified is not None and info.modified.tzinfo is not None
    assert not client.files.exists(f"{base}/absent")
    with pytest.raises(NotFoundError):
        client.files.stat(f"{base}/absent")
    with pytest.raises(NotFoundError):
        client.files.download(f"{base}/absent", tmp_path / "absent")
    with pytest.raises(FilePolicyDeniedError):
        client.files.read("/etc/passwd")
    assert client.files.mkdir(f"{base}/made/deep") == f"{base}/made/deep"
    assert client.files.move(f"{base}/d/ü b.bin", f"{base}/made/moved") == f"{base}/made/moved"
    assert [hit.name for hit in client.files.search(base, "mov*")] == ["moved"]
    with pytest.raises(EndpointNotAvailableError, match="search in files"):
        client.files.search(base, contents="x")
    with client.files.watch(f"{base}/made", interval=0.1, timeout=30) as watch:
        (reference_server.base / "made" / "new").touch()
        assert [(change.type, change.path, change.is_dir) for change in islice(watch, 1)] == [
            ("created", f"{base}/made/new", False)
        ]
    client.files.delete(f"{base}/made")
    assert not (reference_server.base / "made").exists()
    with pytest.raises(EndpointNotAvailableError, match="refuse to overwrite"):
        client.files.write(f"{base}/x", b"x", overwrite=False)


def test_directories(client: ServerClient, reference_server: ReferenceServer, tmp_path: Path) -> None:
    (tmp_path / "t" / "sub").mkdir(parents=True)
    (tmp_path / "t" / "sub" / "f").write_text("x")
    (tmp_path / "t" / ".hidden").write_text("y")
    client.files.upload(tmp_path / "t", f"{reference_server.base}/tree")
    assert (reference_server.base / "tree" / "sub" / "f").read_text() == "x"
    client.files.upload(tmp_path / "t" / "sub" / "f", f"{reference_server.base}/tree")
    assert (reference_server.base / "tree" / "f").read_text() == "x"
    client.files.download(f"{reference_server.base}/tree", tmp_path / "back")
    assert sorted(p.name for p in (tmp_path / "back").rglob("*")) == [".hidden", "f", "f", "sub"]


def test_commands(client: ServerClient, reference_server: ReferenceServer) -> None:
    result = client.process.run(["sh", "-c", "printf 'no line end'; echo err >&2; exit 3"])
    assert (result.stdout, result.stderr, result.exit_code) == ("no line end", "err\n", 3)
    lines: list[str] = []
    result = client.process.run(
        ["sh", "-c", "echo a; echo; echo b; pwd"], cwd=str(reference_server.base), on_stdout=lines.append
    )
    assert "".join(lines) == result.stdout == f"a\n\nb\n{reference_server.base}\n"
    assert client.process.run("printenv X", env={"X": "y"}).stdout == "y\n"
    with pytest.raises(CommandTimeoutError):
        client.process.run("sleep 30", timeout=1)
    said = reference_server.base / "said"
    for seconds in (1, 10, 60):  # the first is too short for a command to start only where a machine is slow
        with pytest.raises(CommandTimeoutError) as late:
            script = f"echo so far; touch {said}; sleep 600"
            client.process.run(["sh", "-c", script], timeout=seconds, on_stdout=lines.append)
        if said.exists():
            break
    assert late.value.stdout == "so far\n"
    with client.process.stream(["sh", "-c", "echo a; exit 4"]) as events:
        assert [(event.kind, event.data) for event in events] == [("output", b"a\n"), ("exit", b"")]
    assert events.exit_code == 4
    with pytest.raises(EndpointNotAvailableError, match="standard input"):
        client.process.run("cat", stdin="x")


def test_background_processes(client: ServerClient) -> None:
    process = client.process.start(["sh", "-c", "read line; echo got $line; exit 5"], stdin=True)
    assert process.pid in [info.pid for info in client.process.list()]
    assert process.refresh().running
    process.stdin.write("é\n")
    with process.follow() as events:
        data = b"".join(event.data for event in events)
    assert data == "got é\n".encode()
    assert events.exit_code == 5
    sleeper = client.process.start("sleep 60")
    sleeper.terminate()
    assert sleeper.wait(60) == -15
    assert sleeper.signal == 15
    with pytest.raises(NotFoundError):
        client.process.get(2**22 + 1)


def test_the_machine(client: ServerClient) -> None:
    assert client.system.info().cpu_count >= 1
    assert client.system.metrics().memory_total_mb > 0
    assert client.system.env(["LANG"]) == {"LANG": "C.UTF-8"}
    assert client.system.set_env({"GREETING": "hello"}) == ["GREETING"]
    assert client.process.run("printenv GREETING").stdout == "hello\n"
    assert all(port.port > 0 for port in client.system.ports())
    assert isinstance(client.system.packages(), list)
    assert client.commands.list() == []
    with pytest.raises(NotFoundError):
        client.commands.run("absent", n=1)


def test_the_asynchronous_client_does_the_same(reference_server: ReferenceServer, tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncServerClient(reference_server.url, token=reference_server.token) as client:
            assert (await client.discover()).can("shell")
            base = str(reference_server.base)
            await client.files.write(f"{base}/async", "text")
            await client.files.download(f"{base}/async", tmp_path / "x")
            assert (await client.process.run("cat async", cwd=base)).stdout == "text"
            process = await client.process.start("echo hi")
            async with process.follow() as events:
                assert b"".join([event.data async for event in events]) == b"hi\n"
            with pytest.raises(ServerAPIError):
                await client.process.signal(process.pid, 99)

    asyncio.run(main())
    assert (tmp_path / "x").read_text() == "text"
