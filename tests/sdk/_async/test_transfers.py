"""Single files up and down: exact, checked, resumed, and never half a file."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sandbox_sdk import (
    AsyncServerClient,
    ConflictError,
    EndpointNotAvailableError,
    FilePolicyDeniedError,
    NotFoundError,
    SandboxConnectionError,
    TransferError,
)
from tests.sdk.scripted import Exchange, scripted
from tests.support.server import ServerProcess

pytestmark = pytest.mark.anyio

MIB = 1 << 20
SIZES = [0, 1, 2, 8191, 8192, 16384, 18 * 1024, 65535, 65536, 65537, MIB - 1, MIB, MIB + 1, 3 * MIB + 7]


@pytest.mark.field(19)
@pytest.mark.field(20)
@pytest.mark.parametrize("size", SIZES)
async def test_field_019_020_every_size_arrives_exactly(
    server: ServerProcess, home: Path, tmp_path: Path, size: int
) -> None:
    content = os.urandom(size)
    (tmp_path / "f").write_bytes(content)
    async with AsyncServerClient(server.url) as client:
        receipt = await client.files.upload(tmp_path / "f", f"{home.name}/f")
        assert (receipt.bytes, receipt.path) == (size, str(home / "f"))
        assert (home / "f").read_bytes() == content
        back = await client.files.download(f"{home.name}/f", tmp_path / "back")
        assert back.bytes == size and back.etag == receipt.etag
        assert (tmp_path / "back").read_bytes() == content
        assert await client.files.read(f"{home.name}/f") == content
    assert sorted(os.listdir(tmp_path)) == ["back", "f"]


async def test_every_kind_of_source_can_be_uploaded(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    content = os.urandom(2 * MIB + 3)
    (tmp_path / "f").write_bytes(content)
    pieces = [content[i : i + 100_000] for i in range(0, len(content), 100_000)]

    async def generated() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async with AsyncServerClient(server.url) as client:
        with (tmp_path / "f").open("rb") as file:
            sources = [
                tmp_path / "f",
                str(tmp_path / "f"),
                content,
                bytearray(content),
                file,
                iter(pieces),
                generated(),
            ]
            sources.append(io.BytesIO(content))
            for number, source in enumerate(sources):
                receipt = await client.files.upload(source, f"{home.name}/{number}")
                assert receipt.bytes == len(content)
                assert (home / str(number)).read_bytes() == content, number


async def test_a_source_that_fails_leaves_the_old_file(server: ServerProcess, home: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * (2 * MIB)
        raise RuntimeError("broken")

    (home / "f").write_text("old")
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(RuntimeError, match="broken"):
            await client.files.write(f"{home.name}/f", broken())
        assert await client.files.list(home.name)
    assert os.listdir(home) == ["f"] and (home / "f").read_text() == "old"


async def test_a_file_that_shrinks_on_the_way_is_an_error_and_nothing_is_stored(
    server: ServerProcess, home: Path, tmp_path: Path
) -> None:
    local = tmp_path / "f"
    local.write_bytes(b"x" * (8 * MIB))

    def shrink(done: int, total: int) -> None:
        os.truncate(local, 0)

    async with AsyncServerClient(server.url) as client:
        with pytest.raises(TransferError, match="became shorter meanwhile"):
            await client.files.upload(local, f"{home.name}/f", progress=shrink)
        assert await client.files.list(home.name) == []


@pytest.mark.field(44)
async def test_field_044_a_file_goes_where_cp_would_put_it(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (home / "old").mkdir()
    (tmp_path / "dir").mkdir()
    async with AsyncServerClient(server.url) as client:
        for target, expected in (
            ("new", "new"),
            ("deep/er", "deep/er"),
            ("old", "old/a"),
            ("old/", "old/a"),
            ("fresh/", "fresh/a"),
        ):
            receipt = await client.files.upload(tmp_path / "a", f"{home.name}/{target}")
            assert receipt.path == str(home / expected)
            assert (home / expected).read_text() == "x"
        for local, expected in (("n", "n"), ("dir", "dir/new"), ("dir/", "dir/new"), ("made/", "made/new")):
            await client.files.download(f"{home.name}/new", f"{tmp_path}/{local}")
            assert (tmp_path / expected).read_text() == "x"
        with pytest.raises(ValueError, match="names a directory"):
            await client.files.upload(b"x", f"{home.name}/old/")


async def test_the_first_reason_is_told_when_a_target_cannot_be_written(
    server: ServerProcess, home: Path, tmp_path: Path
) -> None:
    (home / "file").write_text("x")
    (home / "dir" / "a").mkdir(parents=True)
    (tmp_path / "a").write_text("y")
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(ConflictError, match="in the way"):
            await client.files.upload(tmp_path / "a", f"{home.name}/file/below")
        with pytest.raises(NotFoundError, match="not a regular file") as refused:
            await client.files.upload(tmp_path / "a", f"{home.name}/dir")
        assert "dir/a" not in refused.value.message
        with pytest.raises(FilePolicyDeniedError):
            await client.files.upload(tmp_path / "a", "/etc/a")


@pytest.mark.field(26)
async def test_field_026_a_refused_download_leaves_the_local_file(
    server: ServerProcess, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "out.bin").write_text("old")
    async with AsyncServerClient(server.url) as client:
        for path, error in ((f"{home.name}/missing", NotFoundError), ("/etc/passwd", FilePolicyDeniedError)):
            with pytest.raises(error):
                await client.files.download(path, tmp_path / "out.bin")
            with pytest.raises(error):
                await client.files.download(path, tmp_path / "absent")
    assert os.listdir(tmp_path) == ["out.bin"]
    assert (tmp_path / "out.bin").read_text() == "old"


async def test_digests_are_compared_when_asked_for(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    content = os.urandom(3 * MIB)
    expected = hashlib.sha256(content).hexdigest()
    async with AsyncServerClient(server.url) as client:
        receipt = await client.files.write(f"{home.name}/f", content, verify="sha256")
        assert receipt.sha256 == expected
        receipt = await client.files.download(f"{home.name}/f", tmp_path / "f", verify="sha256")
        assert receipt.sha256 == expected
        assert (await client.files.write(f"{home.name}/f", content)).sha256 is None


async def test_progress_is_reported_up_and_down(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    content = bytes(5 * MIB)
    for_up: list[tuple[int, int]] = []
    for_down: list[tuple[int, int]] = []
    async with AsyncServerClient(server.url) as client:
        await client.files.write(f"{home.name}/f", content, progress=lambda *facts: for_up.append(facts))
        await client.files.download(f"{home.name}/f", tmp_path / "f", progress=lambda *facts: for_down.append(facts))
    for seen in (for_up, for_down):
        assert seen[-1] == (5 * MIB, 5 * MIB)
        assert seen == sorted(seen)
        assert all(total == 5 * MIB for _, total in seen)


async def test_a_progress_callback_that_fails_ends_the_transfer(
    server: ServerProcess, home: Path, tmp_path: Path
) -> None:
    def broken(done: int, total: int) -> None:
        raise RuntimeError("enough")

    with (home / "f").open("wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "sub").mkdir()
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(RuntimeError, match="enough"):
            await client.files.write(f"{home.name}/g", bytes(3 * MIB), progress=broken)
        with pytest.raises(RuntimeError, match="enough"):
            await client.files.download(f"{home.name}/f", tmp_path / "sub" / "f", progress=broken)
    assert os.listdir(tmp_path / "sub") == []


def receipt_for(exchange: Exchange, **changes: object) -> None:
    facts = {"path": "f", "bytes": exchange.length, "sha256": None, **changes}
    exchange.read()
    exchange.reply(200, facts)


@pytest.mark.field(20)
async def test_field_020_a_receipt_that_does_not_match_is_an_error() -> None:
    with scripted(lambda exchange: receipt_for(exchange, bytes=3)) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(TransferError, match="holds 3 bytes, 5 were sent"):
                await client.files.write("f", b"12345")
    with scripted(lambda exchange: receipt_for(exchange, sha256="0" * 64)) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(TransferError, match="SHA-256"):
                await client.files.write("f", b"12345", verify="sha256")


@pytest.mark.field(124)
async def test_field_124_an_upload_that_broke_is_not_sent_again() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.read(MIB)
        exchange.reset()

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(SandboxConnectionError, match="the server is up") as lost:
                await client.files.write("f", bytes(32 * MIB))
            assert not lost.value.gone
            assert server.asked("/files/upload-stream") == 1


async def test_a_refusal_in_mid_upload_is_what_the_caller_sees() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.read(MIB)
        exchange.reply(507, {"error": "full", "type": "OSError", "code": "no_space", "needed": 9, "free": 1})
        exchange.connection.shutdown(1)
        while exchange.connection.recv(MIB):
            pass
        exchange.close()

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(Exception, match="full") as refused:
                await client.files.write("f", bytes(8 * MIB))
            assert type(refused.value).__name__ == "NoSpaceError"


CONTENT = bytes(range(256)) * (4 * MIB // 256)


class Ranges:
    """Serves one file with ranges, and cuts every answer off after `portion` bytes."""

    def __init__(self, content: bytes = CONTENT, portion: int = 3 * MIB // 2, etag: str = '"v1"') -> None:
        self.content = content
        self.portion = portion
        self.etag = etag
        self.firsts: list[int] = []

    def __call__(self, exchange: Exchange) -> None:
        asked = re.match(r"bytes=(\d+)-", exchange.headers.get("range", ""))
        matches = exchange.headers.get("if-range") == self.etag
        first = int(asked[1]) if asked and matches else 0
        self.firsts.append(first)
        body = self.content[first:]
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(len(body)), "ETag": self.etag}
        if first:
            headers["Content-Range"] = f"bytes {first}-{len(self.content) - 1}/{len(self.content)}"
        if "want-repr-digest" in exchange.headers:
            headers["Repr-Digest"] = f"sha-256=:{self.digest()}:"
        exchange.head(206 if first else 200, headers)
        exchange.send(body[: self.portion])
        if len(body) > self.portion:
            exchange.close()

    def digest(self) -> str:
        return base64.b64encode(hashlib.sha256(self.content).digest()).decode()


async def test_a_download_that_breaks_goes_on_where_it_stopped(tmp_path: Path) -> None:
    answer = Ranges()
    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            receipt = await client.files.download("f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert receipt.bytes == len(CONTENT)
    assert receipt.sha256 == hashlib.sha256(CONTENT).hexdigest(), "what was put together is compared as a whole"
    assert answer.firsts == [0, 3 * MIB // 2, 3 * MIB]
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("how", ["stall", "reset"])
async def test_a_download_that_stalls_or_is_reset_goes_on_where_it_stopped(tmp_path: Path, how: str) -> None:
    whole = Ranges(portion=len(CONTENT))

    def answer(exchange: Exchange) -> None:
        if whole.firsts:
            whole(exchange)
            return
        whole.firsts.append(0)
        exchange.head(200, {"Content-Length": str(len(CONTENT)), "ETag": whole.etag})
        exchange.send(CONTENT[: 2 * MIB])
        if how == "stall":
            exchange.connection.recv(1)
        else:
            time.sleep(0.2)  # else the reset overtakes what was sent
            exchange.reset()

    with scripted(answer) as server:
        async with AsyncServerClient(server.url, timeout=2 if how == "stall" else 30) as client:
            await client.files.download("f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert len(whole.firsts) == 2 and 0 < whole.firsts[1] <= 2 * MIB


async def test_a_file_that_changes_meanwhile_is_begun_anew(tmp_path: Path) -> None:
    answer = Ranges()

    def change(exchange: Exchange) -> None:
        if answer.firsts:
            answer.content, answer.etag, answer.portion = b"other", '"v2"', MIB
        answer(exchange)

    with scripted(change) as server:
        async with AsyncServerClient(server.url) as client:
            await client.files.download("f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"other"
    assert answer.firsts == [0, 0]


async def test_a_download_that_never_gets_further_is_given_up(tmp_path: Path) -> None:
    answer = Ranges(portion=0)
    (tmp_path / "f").write_text("old")
    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(SandboxConnectionError, match='broke during "files_download_stream"'):
                await client.files.download("f", tmp_path / "f")
    assert len(answer.firsts) == 6
    assert os.listdir(tmp_path) == ["f"] and (tmp_path / "f").read_text() == "old"


async def test_without_a_version_nothing_is_resumed(tmp_path: Path) -> None:
    answer = Ranges(etag="")
    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(SandboxConnectionError):
                await client.files.download("f", tmp_path / "f")
    assert answer.firsts == [0]
    assert os.listdir(tmp_path) == []


@pytest.mark.field(128)
async def test_field_128_a_server_that_dies_in_mid_download_is_said_to_be_gone(tmp_path: Path) -> None:
    def answer(exchange: Exchange) -> None:
        exchange.head(200, {"Content-Length": str(8 * MIB), "ETag": '"v"'})
        exchange.send(bytes(2 * MIB))
        server.die()
        exchange.close()

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(SandboxConnectionError, match='is gone; "files_download_stream" ended') as lost:
                await client.files.download("f", tmp_path / "f")
    assert lost.value.gone
    assert os.listdir(tmp_path) == []
    assert server.asked("/files/download-stream") == 1


async def test_a_damaged_download_is_an_error(tmp_path: Path) -> None:
    answer = Ranges(portion=8 * MIB)
    answer.digest = lambda: "AAAA"  # type: ignore[method-assign]
    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(TransferError, match="arrived damaged"):
                await client.files.download("f", tmp_path / "f", verify="sha256")
    assert os.listdir(tmp_path) == []


@pytest.mark.finding("R2-C8")
async def test_a_server_without_raw_transfers_gets_and_gives_json(tmp_path: Path) -> None:
    content, stored = os.urandom(2 * MIB), bytearray()

    def answer(exchange: Exchange) -> None:
        if exchange.method == "POST":
            stored[:] = base64.b64decode(json.loads(exchange.read())["content_base64"])
            exchange.reply(200, {"path": "f", "bytes": len(stored)})
        else:
            encoded = base64.b64encode(stored).decode()
            exchange.reply(200, {"path": "f", "content_base64": encoded, "bytes": len(stored)})

    with scripted(answer, ours=False) as server:
        async with AsyncServerClient(server.url) as client:
            assert (await client.files.write("f", content)).bytes == len(content)
            assert await client.files.read("f") == content
            await client.files.download("f", tmp_path / "f")
            assert (tmp_path / "f").read_bytes() == content
            with pytest.raises(EndpointNotAvailableError, match="refuse to overwrite"):
                await client.files.write("f", content, overwrite=False)
            stored.append(0)
            with pytest.raises(TransferError, match="holds"):
                client._connection.known.ours = None
                server.answer = lambda exchange: exchange.read() and exchange.reply(200, {"path": "f", "bytes": 1})
                await client.files.write("f", content)
