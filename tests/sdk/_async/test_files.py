"""Files in a real sandbox: every verb, odd names, missing paths."""

from __future__ import annotations

import os
from datetime import timezone
from pathlib import Path

import pytest

from sandbox_sdk import (
    AsyncServerClient,
    ConflictError,
    FilePolicyDeniedError,
    NotFoundError,
    NotTextError,
    PayloadTooLargeError,
)
from tests.sdk.scripted import Exchange, scripted
from tests.support.server import ServerProcess

pytestmark = pytest.mark.anyio

ODD_NAMES = [
    "日本語 é.txt",
    "a b",
    "-rf",
    "--help.txt",
    "%2e%2e%2fetc",
    "100%",
    'a"b\r\nX: y.txt',
    "a&b=c#d?e;f",
    "+plus",
    "~",
    "$HOME",
    "a\\b",
    "{x}",
    ".hidden",
    "\x7f\x01",
]


@pytest.mark.field(1)
@pytest.mark.field(2)
@pytest.mark.field(5)
@pytest.mark.field(10)
@pytest.mark.field(11)
@pytest.mark.parametrize("name", ODD_NAMES)
async def test_field_001_002_005_010_011_every_call_takes_every_name(
    server: ServerProcess, home: Path, tmp_path: Path, name: str
) -> None:
    path, content = f"{home.name}/{name}", name.encode()
    async with AsyncServerClient(server.url) as client:
        assert (await client.files.write(path, content)).path == str(home / name)
        assert os.listdir(home) == [name]
        assert (home / name).read_bytes() == content
        assert await client.files.read(path) == content
        assert [(e.name, e.path) for e in await client.files.list(home.name)] == [(name, path)]
        assert (await client.files.stat(path)).name == name
        await client.files.download(path, tmp_path / "down" / "x")
        assert (tmp_path / "down" / "x").read_bytes() == content
        (tmp_path / "up").mkdir()
        (tmp_path / "up" / name).write_bytes(b"new")
        assert (await client.files.upload(tmp_path / "up" / name, home.name + "/")).path == str(home / name)
        assert (await client.files.move(path, f"{home.name}/moved {name}")) == str(home / f"moved {name}")
        await client.files.delete(f"{home.name}/moved {name}")
        assert os.listdir(home) == []
        assert await client.files.mkdir(path) == str(home / name)
        assert (home / name).is_dir()
        assert (await client.process.run(["ls", "--", name], cwd=home.name)).exit_code == 0


async def test_names_that_are_not_utf8_are_listed_and_read(server: ServerProcess, home: Path) -> None:
    (home / "caf\udce9").write_bytes(b"x")
    async with AsyncServerClient(server.url) as client:
        (entry,) = await client.files.list(home.name)
        assert entry.name == "caf\udce9"
        assert await client.files.read(entry.path) == b"x"


@pytest.mark.field(49)
async def test_field_049_a_missing_path_is_not_found_in_every_verb(
    server: ServerProcess, home: Path, tmp_path: Path
) -> None:
    missing = f"{home.name}/missing"
    async with AsyncServerClient(server.url) as client:
        for work in (
            lambda: client.files.stat(missing),
            lambda: client.files.list(missing),
            lambda: client.files.read(missing),
            lambda: client.files.read_text(missing),
            lambda: client.files.delete(missing),
            lambda: client.files.move(missing, f"{home.name}/x"),
            lambda: client.files.download(missing, tmp_path / "x"),
        ):
            with pytest.raises(FileNotFoundError) as refused:
                await work()
            assert isinstance(refused.value, NotFoundError)
            assert refused.value.code == "not_found"
        assert await client.files.exists(missing) is False
        assert await client.files.exists(home.name) is True
    assert os.listdir(tmp_path) == []


@pytest.mark.field(50)
async def test_field_050_times_are_aware_and_in_utc(server: ServerProcess, home: Path) -> None:
    (home / "f").write_text("x")
    os.utime(home / "f", (1_700_000_000, 1_700_000_000.5))
    async with AsyncServerClient(server.url) as client:
        info = await client.files.stat(f"{home.name}/f")
        (entry,) = await client.files.list(home.name)
    assert info.modified is not None and info.modified.tzinfo is timezone.utc
    assert info.modified.timestamp() == 1_700_000_000.5
    assert info.accessed is not None and info.accessed.timestamp() == 1_700_000_000
    assert info.created is not None and info.created.tzinfo is timezone.utc
    assert entry.modified == info.modified


@pytest.mark.field(40)
async def test_field_040_links_are_described_as_links(server: ServerProcess, home: Path) -> None:
    (home / "real").write_text("12345")
    (home / "link").symlink_to("real")
    async with AsyncServerClient(server.url) as client:
        followed = await client.files.stat(f"{home.name}/link")
        assert (followed.type, followed.size, followed.is_symlink, followed.link_target) == ("file", 5, True, "real")
        itself = await client.files.stat(f"{home.name}/link", follow=False)
        assert itself.is_symlink and itself.size == len("real")
        entries = {entry.name: entry for entry in await client.files.list(home.name)}
        assert (entries["link"].kind, entries["link"].link_target) == ("symlink", "real")
        assert (entries["real"].kind, entries["real"].link_target) == ("file", None)


@pytest.mark.field(46)
async def test_field_046_lists_are_complete_and_go_as_deep_as_asked(server: ServerProcess, home: Path) -> None:
    for number in range(2_500):
        (home / f"{number:04}").touch()
    deep = home.joinpath(*"abcdefghij")
    deep.mkdir(parents=True)
    async with AsyncServerClient(server.url) as client:
        names = [entry.name for entry in await client.files.list(home.name)]
        assert names == sorted(os.listdir(home)) and len(names) == 2_501
        assert len(await client.files.list(home.name, max_entries=1_700)) == 1_700
        assert await client.files.list(home.name, max_entries=0) == []
        found = await client.files.list(f"{home.name}/a", recursive=True, max_depth=10)
        assert [entry.path for entry in found][-1] == f"{home.name}/a/b/c/d/e/f/g/h/i/j"
        assert all(entry.is_dir for entry in found) and len(found) == 9


async def test_entries_and_facts_tell_mode_and_owner(server: ServerProcess, home: Path) -> None:
    (home / "f").write_text("x")
    (home / "f").chmod(0o640)
    async with AsyncServerClient(server.url) as client:
        (entry,) = await client.files.list(home.name)
        assert entry.mode.endswith("640") and entry.owner
        assert (await client.files.stat(f"{home.name}/f")).permissions == "640"


@pytest.mark.finding("R1-U3")
async def test_a_denied_path_raises_with_the_reason(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(FilePolicyDeniedError) as refused:
            await client.files.exists("/etc/passwd")
        assert isinstance(refused.value, PermissionError)
        assert (refused.value.code, refused.value.endpoint) == ("path_not_allowed", "files_stat")
        assert "/etc/passwd" in refused.value.message
        assert "discover().paths('files_stat')" in refused.value.hint


@pytest.mark.field(25)
async def test_field_025_bytes_are_exact_and_what_is_no_text_is_said_to_be_none(
    server: ServerProcess, home: Path
) -> None:
    content = b"PK\x03\x04\x00\xff\xfe binary"
    path = f"{home.name}/book.xlsx"
    async with AsyncServerClient(server.url) as client:
        await client.files.write(path, content)
        assert await client.files.read(path) == content
        with pytest.raises(NotTextError, match="byte 5 does not fit") as refused:
            await client.files.read_text(path)
        assert isinstance(refused.value, ValueError)
        assert await client.files.read_text(path, errors="replace") == content.decode("utf-8", "replace")
        assert await client.files.read_text(path, encoding="latin-1") == content.decode("latin-1")


@pytest.mark.field(22)
async def test_field_022_text_is_text_wherever_its_characters_fall(server: ServerProcess, home: Path) -> None:
    text = "a" * 8190 + "日本語" + "é" * 100_000
    async with AsyncServerClient(server.url) as client:
        await client.files.write(f"{home.name}/t", text)
        assert await client.files.read_text(f"{home.name}/t") == text


@pytest.mark.field(23)
async def test_field_023_a_huge_file_is_refused_before_it_is_read(server: ServerProcess, home: Path) -> None:
    with (home / "sparse").open("wb") as file:
        file.truncate(2 << 30)
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(PayloadTooLargeError, match="2147483648 bytes") as refused:
            await client.files.read_text(f"{home.name}/sparse")
        assert (refused.value.limit, refused.value.status_code) == (256 << 20, 0)
        await client.files.write(f"{home.name}/small", "12345")
        with pytest.raises(PayloadTooLargeError):
            await client.files.read(f"{home.name}/small", limit=4)
        assert await client.files.read(f"{home.name}/small", limit=5) == b"12345"
        assert await client.files.read(f"{home.name}/small", limit=None) == b"12345"


async def test_a_part_of_a_huge_file_is_read_without_the_rest(server: ServerProcess, home: Path) -> None:
    with (home / "sparse").open("wb") as file:
        file.write(b"0123456789")
        file.truncate(2 << 30)
    path = f"{home.name}/sparse"
    async with AsyncServerClient(server.url) as client:
        assert await client.files.read(path, length=4) == b"0123"
        assert await client.files.read(path, offset=8, length=4) == b"89\0\0"
        assert await client.files.read(path, offset=(2 << 30) - 3) == b"\0\0\0"
        assert await client.files.read(path, offset=(2 << 30) - 3, length=100) == b"\0\0\0"
        assert await client.files.read(path, offset=2 << 30, length=1) == b""
        with pytest.raises(PayloadTooLargeError):
            await client.files.read(path, offset=1)
        for wrong in ({"offset": -1}, {"length": 0}):
            with pytest.raises(ValueError, match="offset= begins at 0"):
                await client.files.read(path, **wrong)
        await client.files.write(f"{home.name}/empty", b"")
        assert await client.files.read(f"{home.name}/empty", length=5) == b""


async def test_who_knows_no_ranges_sends_all_and_the_part_is_kept() -> None:
    def whole(exchange: Exchange) -> None:
        exchange.reply(200, b"0123456789", {"Content-Type": "application/octet-stream"})

    with scripted(whole) as script:
        async with AsyncServerClient(script.url) as client:
            assert await client.files.read("x", offset=2, length=3, limit=3) == b"234"
            assert await client.files.read("x", offset=8, limit=2) == b"89"
            assert await client.files.read("x", offset=20, length=3) == b""


async def test_moving_into_a_directory_and_deleting_a_tree(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        await client.files.write(f"{home.name}/d/deep/f", "x")
        await client.files.write(f"{home.name}/g", "y")
        assert await client.files.move(f"{home.name}/g", f"{home.name}/d") == str(home / "d" / "g")
        await client.files.delete(f"{home.name}/d")
    assert os.listdir(home) == []


async def test_an_existing_file_is_kept_when_overwriting_is_not_wanted(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        await client.files.write(f"{home.name}/f", "old")
        with pytest.raises(ConflictError) as refused:
            await client.files.write(f"{home.name}/f", "new", overwrite=False)
        assert refused.value.code == "file_exists"
        assert await client.files.read_text(f"{home.name}/f") == "old"


@pytest.mark.field(34)
async def test_field_034_an_upload_is_visible_to_the_next_command(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        for number in range(100):
            await client.files.write(f"{home.name}/f", str(number))
            result = await client.process.run(["cat", "f"], cwd=home.name)
            assert result.stdout == str(number)


@pytest.mark.field(41)
async def test_field_041_files_of_commands_and_of_the_api_live_together(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        await client.process.run(["mkdir", "made"], cwd=home.name, check=True)
        await client.files.write(f"{home.name}/made/f", "one")
        await client.process.run(["cp", "made/f", "made/g"], cwd=home.name, check=True)
        await client.files.write(f"{home.name}/made/g", "two")
        assert (await client.process.run("cat made/f made/g", cwd=home.name)).stdout == "onetwo"


async def test_permissions_can_be_set(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        receipt = await client.files.write(f"{home.name}/f", "#!/bin/sh\n", mode="750", durable=True)
    assert receipt.mode is not None and receipt.mode.endswith("750")
    assert (home / "f").stat().st_mode & 0o777 == 0o750
    assert receipt.created is True and receipt.etag and receipt.sha256 is None
