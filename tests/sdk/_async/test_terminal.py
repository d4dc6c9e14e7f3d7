"""Terminals through the client: type, read, share, take over, end."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from sandbox_sdk import (
    AsyncServerClient,
    AsyncTerminal,
    AuthenticationError,
    CommandTimeoutError,
    ConflictError,
    EndpointNotAvailableError,
    NotFoundError,
    PolicyDeniedError,
    SandboxConnectionError,
    ServerAPIError,
    StreamInterruptedError,
)
from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.anyio


async def until(terminal: AsyncTerminal, text: str) -> str:
    shown = ""
    async for piece in terminal:
        shown += piece
        if text in shown:
            return shown
    raise AssertionError(f"{text!r} did not come: {shown!r}")


async def test_what_is_typed_runs_and_what_it_shows_comes_back(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client, await client.pty.create("/bin/sh", env={"X": "é"}) as terminal:
        await terminal.send("echo <$X''>\n")
        await until(terminal, "<")
        await terminal.resize(111, 33)
        await terminal.send('echo "<$X>"; stty size\n')
        shown = await until(terminal, "33 111")
        assert "<é>\r\n" in shown
        info = await client.pty.get(terminal.id)
        assert (info.pid, info.cols, info.rows, info.alive) == (terminal.pid, 111, 33, True)
        assert info.id in [each.id for each in await client.pty.list()]
        assert (await client.pty.resize(terminal.id, 90, 30)).cols == 90
        await terminal.kill()


async def test_it_starts_where_it_is_told(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        async with await client.pty.create("/bin/sh", cwd=home.name, cols=100, rows=40) as terminal:
            await terminal.send("pwd; stty size\n")
            assert f"{home}\r\n" in await until(terminal, "40 100")
            await terminal.kill()
        with pytest.raises(PolicyDeniedError):
            await client.pty.create(cwd="/etc")
        with pytest.raises(ServerAPIError, match="shell"):
            await client.pty.create("/bin/cat")


async def test_the_exit_code_is_told_and_stays_known(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        async with await client.pty.create("/bin/sh") as terminal:
            await terminal.send("echo la''st; exit 7\n")
            shown = "".join([piece async for piece in terminal])
            assert shown.rstrip().endswith("last") or "last\r\n" in shown
            assert (terminal.exit_code, terminal.exit_signal, await terminal.wait()) == (7, None, 7)
            assert await terminal.read() == ""
        assert (await client.pty.get(terminal.id)).exit_code == 7
        async with await client.pty.connect(terminal.id) as late:
            assert "last\r\n" in await late.read()
            assert await late.wait() == 7
        async with await client.pty.create("/bin/sh") as terminal:
            await terminal.send("kill -9 $$\n")
            assert (await terminal.wait(), terminal.exit_signal) == (-9, 9)


async def test_waiting_has_a_bound(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client, await client.pty.create("/bin/sh") as terminal:
        with pytest.raises(CommandTimeoutError, match="still runs"):
            await terminal.wait(0.2)
        with pytest.raises(TimeoutError):
            while True:
                await terminal.read(0.2)
        await terminal.send("exit 0\n")
        assert await terminal.wait(60) == 0


async def test_leaving_keeps_the_terminal_and_coming_back_shows_what_was_missed(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        async with await client.pty.create("/bin/sh") as terminal:
            await terminal.send("echo be''fore\n")
            await until(terminal, "before\r\n")
        with pytest.raises(ServerAPIError, match="closed"):
            await terminal.send("x")
        async with await client.pty.connect(terminal.id) as again:
            await until(again, "before\r\n")
            assert again.pid == terminal.pid
            await again.send("exit 3\n")
            assert await again.wait() == 3
        assert await terminal.wait() == 3  # asks, since it is not connected


async def test_signals_go_to_the_job_in_the_foreground(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client, await client.pty.create("/bin/sh") as terminal:
        await terminal.send('sh -c \'trap "echo cau""ght; exit" INT; echo rea""dy; while :; do sleep 0.05; done\'\n')
        await until(terminal, "ready\r\n")
        await terminal.signal()
        await until(terminal, "caught\r\n")
        await terminal.send("echo still he''re\n")
        await until(terminal, "still here")
        with pytest.raises(ValueError, match="SIGNOPE"):
            await terminal.signal("SIGNOPE")
        with pytest.raises(ValueError, match="1000"):
            await terminal.resize(0, 24)
        await terminal.kill()


async def test_a_takeover_is_told_to_the_others(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client, await client.pty.create("/bin/sh") as first:
        second = await client.pty.connect(first.id, takeover=True)
        async with second:
            with pytest.raises(ConflictError, match="taken the terminal over") as refused:
                await until(first, "never")
            assert refused.value.code == "taken_over"
            async with await client.pty.connect(first.id) as third:
                await third.take_over()
                with pytest.raises(ConflictError):
                    await until(second, "never")
                await third.send("exit\n")
                assert await third.wait() == 0


async def test_a_terminal_that_is_not_there_is_not_found(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(NotFoundError):
            await client.pty.connect("f" * 32)
        with pytest.raises(NotFoundError):
            await client.pty.get("f" * 32)
        with pytest.raises(NotFoundError):
            await client.pty.close("f" * 32)


@pytest.mark.finding("R2-S14")
async def test_refusals_of_the_socket_are_typed(tmp_path: Path) -> None:
    def token(id: str, *scopes: str) -> dict[str, object]:
        return {"id": id, "token_sha256": hashlib.sha256(f"{id}-token-12345678".encode()).hexdigest(), "scopes": scopes}

    policy = {
        "auth": {"tokens": [token("ann", "*"), token("eve", "files:read"), token("sue", "terminal:*")]},
        "endpoints": {"pty_connect": {"scopes": ["terminal:use", "terminal:attach"], "limits": {"max_concurrency": 1}}},
    }
    with running_server(tmp_path, policy=policy, allow_anonymous=False) as server:
        async with AsyncServerClient(server.url, token="ann-token-12345678") as client:
            terminal = await client.pty.create()
            async with terminal:
                with pytest.raises(ServerAPIError) as limited:
                    await client.pty.connect(terminal.id)
                assert limited.value.code == "concurrency_limited"
                async with AsyncServerClient(server.url, token="eve-token-12345678") as eve:
                    with pytest.raises(PolicyDeniedError) as denied:
                        await eve.pty.connect(terminal.id)
                    assert denied.value.code == "missing_scope"
                    await eve.discover()
                    with pytest.raises(PolicyDeniedError):
                        await eve.pty.connect(terminal.id)  # now without asking
                async with AsyncServerClient(server.url, token="wrong") as stranger:
                    with pytest.raises(AuthenticationError):
                        await stranger.pty.connect(terminal.id)
                await terminal.kill()


async def test_where_attaching_is_switched_off_nothing_is_left_open(tmp_path: Path) -> None:
    with running_server(tmp_path, policy={"endpoints": {"pty_connect": {"enabled": False}}}) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(EndpointNotAvailableError) as refused:
                await client.pty.create()
            assert refused.value.code == "endpoint_disabled"
            assert await client.pty.list() == []


async def test_a_server_that_dies_breaks_the_connection_by_name(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        async with AsyncServerClient(server.url) as client:
            async with await client.pty.create() as terminal:
                server.process.kill()
                server.process.wait()
                with pytest.raises(StreamInterruptedError):
                    await until(terminal, "never")
            with pytest.raises(SandboxConnectionError):
                await client.pty.connect(terminal.id)


async def test_terminals_work_over_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running_server(tmp_path, unix_socket=path):
        async with AsyncServerClient(uds=str(path)) as client, await client.pty.create("/bin/sh") as terminal:
            await terminal.send("echo over ''uds; exit 2\n")
            await until(terminal, "over uds\r\n")
            assert await terminal.wait() == 2
