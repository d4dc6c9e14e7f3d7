"""Connections among threads, forks and event loops; nothing leaks, nothing is trusted by accident."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from sandbox_sdk import AsyncServerClient, SandboxConnectionError, ServerClient
from tests.sdk._sync.test_transfers import Ranges
from tests.sdk.scripted import Exchange, scripted
from tests.support.server import ServerProcess


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.field(122)
def test_field_122_many_threads_share_one_client(server: ServerProcess, home: Path) -> None:
    def work(number: int) -> str:
        client.files.write(f"{home.name}/{number}", f"content {number}")
        assert client.process.run(["cat", str(number)], cwd=home.name).stdout == f"content {number}"
        return client.files.read_text(f"{home.name}/{number}")

    with ServerClient(server.url) as client, ThreadPoolExecutor(32) as pool:
        assert list(pool.map(work, range(96))) == [f"content {number}" for number in range(96)]


def test_threads_that_start_at_the_same_time_get_the_same_pool(server: ServerProcess) -> None:
    barrier = threading.Barrier(16)

    def work(_: int) -> httpx.Client:
        barrier.wait()
        return client._connection.pool.client()

    with ServerClient(server.url) as client, ThreadPoolExecutor(16) as pool:
        assert len(set(map(id, pool.map(work, range(16))))) == 1


@pytest.mark.field(119)
def test_field_119_one_client_serves_several_event_loops_in_a_row(server: ServerProcess, home: Path) -> None:
    client = AsyncServerClient(server.url)

    async def use(number: int) -> int:
        await client.files.write(f"{home.name}/{number}", "x")
        async with client.process.stream("echo hi") as events:
            assert b"".join([event.data async for event in events]) == b"hi\n"
        return len(await client.files.list(home.name))

    before = descriptors()
    for number in range(5):
        assert asyncio.run(use(number)) == number + 1
    assert descriptors() <= before, "a loop that ends closes its connections"
    asyncio.run(client.aclose())
    with pytest.raises(RuntimeError, match="is closed"):
        asyncio.run(use(9))


def test_loops_in_several_threads_have_connections_of_their_own(server: ServerProcess) -> None:
    client = AsyncServerClient(server.url)

    async def use() -> int:
        found = await asyncio.gather(*(client.process.run("echo hi") for _ in range(4)))
        return sum(result.success for result in found)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: asyncio.run(use()), range(4))) == [4, 4, 4, 4]
    asyncio.run(client.aclose())


def test_closing_from_another_loop_closes_what_runs_elsewhere(server: ServerProcess) -> None:
    client = AsyncServerClient(server.url)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        assert asyncio.run_coroutine_threadsafe(client.health(), loop).result(60)
        asyncio.run(client.aclose())
        assert not client._connection.pool._own
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@pytest.mark.field(119)
def test_field_119_without_an_event_loop_there_is_one_clear_error() -> None:
    client = AsyncServerClient("http://127.0.0.1:9")
    with pytest.raises(RuntimeError, match="no running event loop"):
        client.files.list().send(None)


@pytest.mark.field(121)
def test_field_121_a_forked_child_gets_a_fresh_pool(server: ServerProcess, home: Path) -> None:
    with ServerClient(server.url) as client:
        client.files.write(f"{home.name}/parent", "x")
        pool = client._connection.pool.client()
        (connection,) = [c for c in pool._transport._pool.connections]  # type: ignore[attr-defined]
        assert connection.is_idle()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads, which is the point
            child = os.fork()
        if not child:
            status = 1
            try:
                assert client._connection.pool.client() is not pool
                client.files.write(f"{home.name}/child", "y")
                client.close()
                status = 0
            finally:
                os._exit(status)
        for _ in range(20):
            assert client.files.read(f"{home.name}/parent") == b"x"
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client._connection.pool.client() is pool, "the child closed nothing of ours"
        assert client.files.read(f"{home.name}/child") == b"y"


@pytest.mark.field(125)
def test_field_125_clients_that_come_and_go_leave_no_descriptor(server: ServerProcess) -> None:
    def once() -> None:
        with ServerClient(server.url) as client:
            assert client.health()

    once()
    before = descriptors()
    for _ in range(300):
        once()
    assert descriptors() <= before


@pytest.mark.field(125)
def test_field_125_asynchronous_clients_leave_no_descriptor(server: ServerProcess) -> None:
    async def main() -> None:
        async def once() -> None:
            async with AsyncServerClient(server.url) as client:
                assert await client.health()
                assert client.health_sync()

        await once()
        before = descriptors()
        for _ in range(100):
            await once()
        assert descriptors() <= before

    asyncio.run(main())


@pytest.mark.field(125)
def test_field_125_a_forgotten_client_warns_once_and_closes(server: ServerProcess) -> None:
    gc.collect()
    before = descriptors()
    client = ServerClient(server.url)
    assert client.health()
    with pytest.warns(ResourceWarning, match=f"unclosed client of {server.url}") as caught:
        del client
        gc.collect()
    assert len(caught) == 1
    assert descriptors() <= before


@pytest.mark.field(125)
def test_field_125_a_forgotten_asynchronous_client_warns_once_and_closes(server: ServerProcess) -> None:
    async def main() -> None:
        before = descriptors()
        client = AsyncServerClient(server.url)
        assert await client.health()
        with pytest.warns(ResourceWarning, match=f"unclosed client of {server.url}") as caught:
            del client
            gc.collect()
        assert len(caught) == 1
        for _ in range(10):
            await asyncio.sleep(0)
        assert descriptors() <= before

    asyncio.run(main())


def test_a_client_that_was_never_used_needs_no_closing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for made in (ServerClient("http://h"), AsyncServerClient("http://h")):
            del made
        gc.collect()


def test_a_closed_client_says_so(server: ServerProcess) -> None:
    client = ServerClient(server.url)
    client.close()
    client.close()
    with pytest.raises(RuntimeError, match="is closed"):
        client.files.list()


@pytest.fixture
def proxies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with scripted(lambda exchange: exchange.reply(200, {"entries": [], "proxied": True})) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        yield
        assert proxy.seen == []


@pytest.mark.field(131)
@pytest.mark.usefixtures("proxies")
def test_field_131_nothing_in_the_environment_redirects_a_call(server: ServerProcess, home: Path) -> None:
    with ServerClient(server.url) as client:
        assert client.files.list(home.name) == []


@pytest.mark.field(131)
def test_field_131_clients_with_different_transports_are_independent() -> None:
    def answering(name: str) -> httpx.Client:
        entry = {"name": name, "type": "file"}
        return httpx.Client(
            transport=httpx.MockTransport(lambda request: httpx.Response(200, json={"entries": [entry]}))
        )

    with answering("one") as first, answering("two") as second:
        clients = [ServerClient("http://h", http_client=given) for given in (first, second)]
        for _ in range(2):
            assert [client.files.list()[0].name for client in clients] == ["one", "two"]
        for client in clients:
            client.close()
        assert not first.is_closed and not second.is_closed, "what the caller brings stays open"


def test_a_given_client_carries_transfers_and_streams_too(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    async def main() -> None:
        async with httpx.AsyncClient() as given, AsyncServerClient(server.url, http_client=given) as client:
            await client.files.write(f"{home.name}/f", b"x" * 3_000_000)
            await client.files.download(f"{home.name}/f", tmp_path / "f")
            assert (tmp_path / "f").stat().st_size == 3_000_000
            assert (await client.process.run("echo hi")).stdout == "hi\n"

    asyncio.run(main())

    async def broken(url: str) -> None:
        async with httpx.AsyncClient() as given, AsyncServerClient(url, http_client=given) as client:
            await client.files.download("f", tmp_path / "resumed")
            with pytest.raises(SandboxConnectionError):
                await client.files.read("f")

    ranges = Ranges()
    with scripted(ranges) as cut:
        asyncio.run(broken(cut.url))
    assert (tmp_path / "resumed").read_bytes() == ranges.content
    with httpx.Client() as given, ServerClient(server.url, http_client=given) as client:
        client.files.download(f"{home.name}/f", tmp_path / "g")
        assert (tmp_path / "g").stat().st_size == 3_000_000


@pytest.mark.field(103)
def test_field_103_the_token_goes_to_the_server_and_nowhere_else() -> None:
    def answer(exchange: Exchange) -> None:
        assert exchange.headers["authorization"] == "Bearer s3cret"
        assert "x-access-token" not in exchange.headers
        exchange.reply(400, {"error": f"odd header {exchange.headers['authorization']}", "type": "ValueError"})

    with scripted(answer) as server, ServerClient(server.url, token="s3cret") as client:
        with pytest.raises(Exception, match=r"odd header Bearer \[secret\]") as refused:
            client.files.mkdir("d")
        assert "s3cret" not in repr(refused.value) + str(vars(refused.value))


def test_many_streams_at_once_do_not_wait_for_each_other(server: ServerProcess) -> None:
    with ServerClient(server.url) as client:
        streams = [client.process.stream("cat /proc/self/stat") for _ in range(12)]
        for stream in streams:
            assert next(stream).kind == "output"
        for stream in streams:
            stream.close()


def test_a_stream_can_be_closed_from_another_thread(server: ServerProcess) -> None:
    with ServerClient(server.url) as client:
        stream = client.process.stream(["sh", "-c", "echo ready; sleep 60"])
        assert next(stream).text == "ready\n"
        timer = threading.Timer(0.2, stream.close)
        timer.start()
        assert list(stream) == []
        timer.join()
        assert stream.exit_code is None


def test_an_idle_connection_that_the_server_closed_is_replaced() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.read()
        exchange.reply(200, {"path": "d"})
        exchange.close()
        closed.set()

    closed = threading.Event()
    with scripted(answer) as server, ServerClient(server.url) as client:
        for _ in range(5):
            assert client.files.mkdir("d") == "d"
            assert closed.wait(60)
            closed.clear()


def test_an_answer_that_never_ends_its_head_is_bounded() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.send(b"HTTP/1.1 200 OK\r\n" + b"X-Filler: " + b"x" * 300_000)

    with scripted(answer) as server, ServerClient(server.url) as client, pytest.raises(SandboxConnectionError):
        client.files.mkdir("d")


def test_a_port_that_nobody_listens_on_is_a_gone_sandbox() -> None:
    with socket.socket() as taken:  # so that nobody else listens there
        taken.bind(("127.0.0.1", 0))
        with ServerClient(f"http://127.0.0.1:{taken.getsockname()[1]}") as client:
            with pytest.raises(ConnectionError, match="no server answers at http://127.0.0.1") as lost:
                client.files.list()
            assert isinstance(lost.value, SandboxConnectionError) and lost.value.gone
            assert not client.health()


@pytest.mark.field(133)
def test_field_133_nothing_holds_up_the_event_loop(
    server: ServerProcess, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread counts hundredths of a second: whatever stops the whole process is nobody's fault here."""
    (tmp_path / "f").write_bytes(os.urandom(20 << 20))
    ticks, over, run = 0, threading.Event(), asyncio.Handle._run
    held: list[str] = []

    def tick() -> None:
        nonlocal ticks
        while not over.wait(0.01):
            ticks += 1

    def watched(handle: asyncio.Handle) -> None:
        before = ticks
        run(handle)
        if ticks - before > 50:
            held.append(repr(handle))

    async def main() -> None:
        async with AsyncServerClient(server.url) as client:
            await client.process.run("true")  # the first call imports what httpx needs
            monkeypatch.setattr(asyncio.Handle, "_run", watched)
            await client.files.upload(tmp_path / "f", f"{home.name}/f", verify="sha256")
            await client.files.download(f"{home.name}/f", tmp_path / "g", verify="sha256")
            await client.files.upload(tmp_path, f"{home.name}/tree")
            await client.process.run("seq 100000")

    ticking = threading.Thread(target=tick)
    ticking.start()
    try:
        asyncio.run(main())
    finally:
        over.set()
        ticking.join()
    assert ticks and not held
