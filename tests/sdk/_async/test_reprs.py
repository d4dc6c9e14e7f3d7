"""What handles and streams say of themselves: whose they are and how far, and never where in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_sdk import AsyncServerClient
from tests.support.server import ServerProcess

pytestmark = pytest.mark.anyio


async def test_a_stream_says_of_which_server_it_is_and_how_far(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        stream = client.process.stream("echo x")
        start = f"<{type(stream).__name__} of {server.url}: "
        assert repr(stream) == start + "not begun>"
        async with stream:
            assert repr(stream) == start + "open>"
            assert [event.kind async for event in stream] == ["output", "exit"]
            assert repr(stream) == start + "ended>"
        async with client.process.stream("sleep 600") as left:
            pass
        assert repr(left) == start + "closed>"


async def test_a_watch_says_so_too(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client, client.files.watch(home.name) as watch:
        assert repr(watch) == f"<{type(watch).__name__} of {server.url}: open>"


async def test_an_upload_says_what_it_is_of_and_how_much_has_arrived(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        upload = await client.files.begin_upload(f"{home.name}/f", size=10)
        start = f'<{type(upload).__name__} "{home}/f": '
        assert repr(upload) == start + "0 of 10 bytes>"
        await upload.append(b"12345")
        assert repr(upload) == start + "5 of 10 bytes>"
        await upload.cancel()
        assert repr(upload) == start + "5 of 10 bytes, over>"
        async with await client.files.begin_upload(f"{home.name}/g") as other:
            assert repr(other) == f'<{type(upload).__name__} "{home}/g": 0 bytes>'


async def test_a_standard_input_says_whose_it_is(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        process = await client.process.start("cat", stdin=True)
        assert process.stdin is not None
        assert repr(process.stdin) == f"<{type(process.stdin).__name__} of process {process.info.id}>"
        await process.kill()
        await process.wait(60)
