"""Archives: packed there and stored here, sent from here and unpacked there."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from sandbox_sdk import AsyncServerClient, ConflictError, NotFoundError, ServerAPIError, Unpacked
from sandbox_sdk._archive_calls import ArchiveFormat
from tests.support.server import ServerProcess

pytestmark = pytest.mark.anyio


def plant(home: Path) -> None:
    (home / "d/e").mkdir(parents=True)
    (home / "d/a.txt").write_text("alpha")
    (home / "d/e/ü").write_bytes(bytes(range(256)) * 5000)


@pytest.mark.parametrize("format", ["tar", "tar.gz", "zip"])
async def test_what_is_packed_arrives_and_can_be_unpacked_again(
    server: ServerProcess, home: Path, tmp_path: Path, format: ArchiveFormat
) -> None:
    plant(home)
    local = tmp_path / "got" / "d.archive"
    seen: list[tuple[int, int]] = []
    async with AsyncServerClient(server.url) as client:
        receipt = await client.files.archive(
            f"{home.name}/d", local, format=format, progress=lambda done, total: seen.append((done, total))
        )
        assert (receipt.path, receipt.bytes) == (str(local), local.stat().st_size)
        assert seen[-1][0] == receipt.bytes
        assert [place.name for place in local.parent.iterdir()] == [local.name]
        unpacked = await client.files.unpack(local, f"{home.name}/t")
        assert unpacked == Unpacked(str(home / "t"), 2, 2, 0, 1_280_005)
        assert await client.files.unpack(local.read_bytes(), f"{home.name}/u", format=format)
    for name in ("t", "u"):
        assert (home / name / "d/e/ü").read_bytes() == (home / "d/e/ü").read_bytes()
        assert (home / name / "d/a.txt").read_text() == "alpha"


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.zip", b"PK"),
        ("x.ZIP", b"PK"),
        ("x.tar", b"d/"),
        ("x.tar.gz", b"\x1f\x8b"),
        ("x.tgz", b"\x1f\x8b"),
        ("x", b"\x1f\x8b"),
    ],
)
async def test_the_name_of_an_archive_tells_its_format(
    server: ServerProcess, home: Path, tmp_path: Path, name: str, start: bytes
) -> None:
    plant(home)
    async with AsyncServerClient(server.url) as client:
        await client.files.archive(f"{home.name}/d", tmp_path / name)
        assert (tmp_path / name).read_bytes()[:2] == start
        await client.files.archive(f"{home.name}/d", tmp_path / name, format="zip")
        assert (tmp_path / name).read_bytes()[:2] == b"PK"


async def test_a_format_that_there_is_not_is_refused_in_words(server: ServerProcess, tmp_path: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(ValueError, match='"rar" is no format of an archive; use one of tar, tar.gz, zip'):
            await client.files.archive(".", tmp_path / "x.rar", format="rar")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match='"rar" is no format'):
            await client.files.unpack(b"Rar!", format="rar")  # type: ignore[arg-type]
    assert not (tmp_path / "x.rar").exists()


async def test_several_paths_go_into_one_archive(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    plant(home)
    async with AsyncServerClient(server.url) as client:
        await client.files.archive([f"{home.name}/d/a.txt", f"{home.name}/d/e"], tmp_path / "x.zip", format="zip")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert archive.namelist() == ["a.txt", "e/", "e/ü"]


async def test_a_refused_archive_leaves_the_local_file_alone(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    local = tmp_path / "kept"
    local.write_text("kept")
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(NotFoundError):
            await client.files.archive(f"{home.name}/none", local)
    assert local.read_text() == "kept"


async def test_bad_archives_and_existing_files_are_refused(server: ServerProcess, home: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(ServerAPIError) as failure:
            await client.files.unpack(b"nothing of the kind", home.name)
        assert failure.value.error_code == "bad_archive"
        assert failure.value.message.startswith("this is neither a tar, a tar.gz nor a zip")
        data.seek(0)
        assert (await client.files.unpack(data, home.name)).files == 1
        with pytest.raises(ConflictError):
            await client.files.unpack(data.getvalue(), home.name, overwrite=False)
