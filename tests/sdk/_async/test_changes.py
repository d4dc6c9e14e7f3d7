"""Appends, edits, permission bits, and uploads in parts that survive a broken connection."""

from __future__ import annotations

import hashlib
import inspect
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandbox_sdk import (
    AsyncServerClient,
    ConflictError,
    EndpointNotAvailableError,
    NotFoundError,
    SandboxConnectionError,
    ServerAPIError,
    TransferError,
)
from tests.sdk.scripted import Exchange, scripted
from tests.support.relay import relaying
from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.anyio

MIB = 1 << 20


def transfers_of(client: Any) -> Any:
    """The module that decides how files go."""
    return inspect.getmodule(type(client.files._transfers))


def pieces_of(content: bytes, size: int = 700_000) -> Iterator[bytes]:
    return (content[at : at + size] for at in range(0, len(content), size))


async def test_appends_add_and_offsets_write_into(server: ServerProcess, home: Path) -> None:
    path = f"{home.name}/log"
    async with AsyncServerClient(server.url) as client:
        assert (await client.files.append(path, "one\n", mode="600")).created is True
        receipt = await client.files.append(path, [b"tw", b"o\n"])
        assert (receipt.bytes, receipt.created) == (4, False)
        await client.files.write(path, b"TWO", offset=4)
        await client.files.write(path, "three\n", append=True)
        etag = (await client.files.append(path, b"", durable=True)).etag
        assert (home / "log").read_bytes() == b"one\nTWO\nthree\n"
        assert stat.S_IMODE((home / "log").stat().st_mode) == 0o600
        await client.files.append(path, b"4", etag=etag)
        with pytest.raises(ConflictError):
            await client.files.append(path, b"5", etag=etag)
        with pytest.raises(ServerAPIError) as refused:
            await client.files.write(path, b"x", offset=99)
        assert (refused.value.status_code, refused.value.facts["size"]) == (416, 15)
        with pytest.raises(ValueError, match="not both"):
            await client.files.write(path, b"x", offset=0, append=True)
    assert (home / "log").read_bytes() == b"one\nTWO\nthree\n4"


@pytest.mark.field(28)
async def test_field_028_appends_send_only_what_they_add(server: ServerProcess, home: Path) -> None:
    with relaying(server.port, []) as relay:
        async with AsyncServerClient(relay.url) as client:
            for _ in range(100):
                await client.files.append(f"{home.name}/log", b"x" * 4096)
        assert 100 * 4096 < relay.passed < 100 * (4096 + 1000)
    assert (home / "log").read_bytes() == b"x" * 409_600


async def test_edits_answer_what_became_of_the_file(server: ServerProcess, home: Path) -> None:
    (home / "f").write_bytes(b"one\ntwo\n")
    path = f"{home.name}/f"
    async with AsyncServerClient(server.url) as client:
        planned = await client.files.edit(path, {"old": "one", "new": "1"}, dry_run=True)
        assert (planned.dry_run, planned.changed, planned.bytes) == (True, True, 6)
        assert (home / "f").read_bytes() == b"one\ntwo\n"
        digest = hashlib.sha256(b"one\ntwo\n").hexdigest()
        done = await client.files.edit(
            path,
            [{"old": "one", "new": "1"}, {"start_line": 3, "end_line": 2, "new": "three"}],
            expected_sha256=digest,
        )
        content = (home / "f").read_bytes()
        assert content == b"1\ntwo\nthree\n"
        assert (done.replacements, done.sha256) == ((1, 1), hashlib.sha256(content).hexdigest())
        await client.files.append(path, b"", etag=done.etag)
        assert "+three" in done.diff and not done.diff_truncated
        with pytest.raises(ConflictError) as refused:
            await client.files.edit(path, [{"old": "t", "new": "T"}])
        assert refused.value.error_code == "edit_mismatch"
        assert (refused.value.facts["edit"], refused.value.facts["count"]) == (0, 2)
        with pytest.raises(ConflictError):
            await client.files.edit(path, {"old": "1", "new": "2"}, expected_sha256=digest)
        with pytest.raises(NotFoundError):
            await client.files.edit(f"{home.name}/missing", {"old": "1", "new": "2"})


async def test_permission_bits_are_text_or_a_number(server: ServerProcess, home: Path) -> None:
    (home / "d").mkdir()
    (home / "d/f").write_text("")
    async with AsyncServerClient(server.url) as client:
        assert await client.files.chmod(f"{home.name}/d/f", "640") == 1
        assert stat.S_IMODE((home / "d/f").stat().st_mode) == 0o640
        assert await client.files.chmod(f"{home.name}/d", 0o700, recursive=True) == 2
        assert stat.S_IMODE((home / "d/f").stat().st_mode) == 0o700


async def test_parts_are_pushed_by_whoever_has_them(server: ServerProcess, home: Path) -> None:
    content = os.urandom(3 * MIB)
    async with AsyncServerClient(server.url) as client:
        async with await client.files.begin_upload(
            f"{home.name}/f", size=len(content), mode="640", verify="sha256"
        ) as upload:
            assert (upload.offset, upload.size, upload.path) == (0, len(content), str(home / "f"))
            assert await upload.append(content[:MIB]) == MIB
            assert await upload.resume() == MIB
            assert await upload.append(memoryview(content)[MIB:]) == len(content)
            assert not (home / "f").exists()
            receipt = await upload.finish()
        assert (receipt.bytes, receipt.mode) == (len(content), "0640")
        assert receipt.sha256 == hashlib.sha256(content).hexdigest()
    assert (home / "f").read_bytes() == content
    assert os.listdir(home) == ["f"]


async def test_an_upload_that_is_not_finished_leaves_nothing(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(ZeroDivisionError):
            async with await client.files.begin_upload(f"{home.name}/f") as upload:
                await upload.append(b"x")
                assert len(os.listdir(home)) == 1
                raise ZeroDivisionError
        assert os.listdir(home) == []
        upload = await client.files.begin_upload(f"{home.name}/f")
        await upload.cancel()
        with pytest.raises(NotFoundError):
            await upload.append(b"x")
        with pytest.raises(ConflictError):
            (home / "f").write_text("")
            await client.files.begin_upload(f"{home.name}/f", overwrite=False)


@pytest.mark.parametrize("half", [False, True], ids=["both sides notice", "the server does not notice"])
async def test_a_large_file_survives_broken_connections_and_nothing_is_sent_twice(
    half: bool, server: ServerProcess, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(9 * MIB + 5)
    (tmp_path / "f").write_bytes(content)
    reports: list[tuple[int, int]] = []
    with relaying(server.port, [3 * MIB, 2 * MIB, 3 * MIB], half=half) as relay:
        async with AsyncServerClient(relay.url) as client:
            monkeypatch.setattr(transfers_of(client), "IN_PARTS", MIB)
            receipt = await client.files.upload(
                tmp_path / "f",
                f"{home.name}/f",
                progress=lambda done, total: reports.append((done, total)),
                verify="sha256",
            )
        assert relay.cuts == []
        assert len(content) <= relay.passed < len(content) + 20_000
    assert (receipt.bytes, receipt.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert (home / "f").read_bytes() == content
    assert reports[-1] == (len(content), len(content))
    assert os.listdir(home) == ["f"]


async def test_a_sender_that_somebody_else_takes_for_gone_goes_on_where_it_was(
    server: ServerProcess, home: Path
) -> None:
    content = os.urandom(2 * MIB)
    starts: list[int] = []
    async with AsyncServerClient(server.url) as client:
        upload = await client.files.begin_upload(f"{home.name}/f", size=len(content), verify="sha256")

        def source(at: int) -> Iterator[bytes]:
            starts.append(at)
            if len(starts) == 1:
                yield content[:MIB]
                answer = httpx.head(server.url + upload._state.place, trust_env=False)
                assert answer.headers["upload-complete"] == "?0"
                at = MIB
            yield content[at:]

        receipt = upload._checked(await upload._send(source, len(content), last=True))
    assert len(starts) == 2
    assert receipt.sha256 == hashlib.sha256(content).hexdigest()
    assert (home / "f").read_bytes() == content


async def test_a_source_of_unknown_size_goes_in_parts_and_survives_broken_connections(
    server: ServerProcess, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(20 * MIB + 7)
    reports: list[tuple[int, int]] = []
    with relaying(server.port, [5 * MIB, 9 * MIB]) as relay:
        async with AsyncServerClient(relay.url) as client:
            monkeypatch.setattr(transfers_of(client), "Spool", None)
            receipt = await client.files.write(
                f"{home.name}/f",
                pieces_of(content),
                progress=lambda done, total: reports.append((done, total)),
                verify="sha256",
            )
        assert relay.cuts == []
        assert relay.passed < len(content) + 20_000
    assert receipt.bytes == len(content)
    assert (home / "f").read_bytes() == content
    assert reports[-1] == (len(content), len(content))


async def test_an_iterator_that_fails_leaves_nothing(server: ServerProcess, home: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield from pieces_of(bytes(20 * MIB))
        raise ZeroDivisionError

    async with AsyncServerClient(server.url) as client:
        with pytest.raises(ZeroDivisionError):
            await client.files.write(f"{home.name}/f", broken())
    assert os.listdir(home) == []


async def test_a_source_that_becomes_shorter_is_an_error_and_leaves_nothing(
    server: ServerProcess, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(bytes(4 * MIB))
    async with AsyncServerClient(server.url) as client:
        monkeypatch.setattr(transfers_of(client), "IN_PARTS", MIB)
        with (tmp_path / "f").open("rb") as file, pytest.raises(TransferError, match="became shorter"):

            def shorten(done: int, total: int) -> None:
                os.truncate(tmp_path / "f", MIB)

            await client.files.write(f"{home.name}/f", file, progress=shorten)
    assert os.listdir(home) == []


async def test_a_server_that_stays_away_is_an_error(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        async with AsyncServerClient(server.url) as client:
            upload = await client.files.begin_upload("f")
            await upload.append(b"x" * 100_000)
            server.stop()
            with pytest.raises(SandboxConnectionError) as lost:
                await upload.append(b"y")
            assert lost.value.gone


async def test_a_server_without_parts_gets_whole_files(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies: list[bytes] = []

    def older(exchange: Exchange) -> None:
        if exchange.target.startswith("/health"):
            exchange.reply(200, {"status": "ok"})
        elif exchange.method == "POST":
            bodies.append(exchange.read())
            assert "upload-complete" not in exchange.headers and "append" not in exchange.target
            exchange.reply(200, {"path": "/f", "bytes": len(bodies[-1])})
        else:
            exchange.reply(404, {"error": "no endpoint", "type": "ValueError", "code": "unknown_route"})

    content = os.urandom(9 * MIB)
    with scripted(older) as script:
        async with AsyncServerClient(script.url) as client:
            monkeypatch.setattr(transfers_of(client), "IN_PARTS", MIB)
            assert (await client.files.write("f", content)).bytes == len(content)
            assert (await client.files.write("f", pieces_of(content))).bytes == len(content)
            with pytest.raises(EndpointNotAvailableError):
                await client.files.append("f", b"x")
            with pytest.raises(EndpointNotAvailableError):
                await client.files.begin_upload("f")
    assert bodies == [content, content]
