"""Directories up and down, with an outcome for every file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from sandbox_sdk import (
    AsyncServerClient,
    FilePolicyDeniedError,
    NotFoundError,
    PayloadTooLargeError,
    SandboxConnectionError,
    TransferError,
)
from tests.sdk.scripted import Exchange, scripted
from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.anyio


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "sub" / "deeper").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "empty").mkdir()
    (root / ".env").write_text("KEY=1")
    (root / ".git" / "config").write_text("[core]")
    (root / "-rf").write_bytes(b"")
    (root / "sub" / "ü b").write_text("x" * 1000)
    (root / "sub" / "deeper" / "leaf").write_text("leaf")
    return root


def content(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in sorted(root.rglob("*"))
    }


@pytest.mark.field(16)
@pytest.mark.field(19)
async def test_field_016_019_a_directory_arrives_whole_and_comes_back_whole(
    server: ServerProcess, home: Path, tree: Path, tmp_path: Path
) -> None:
    up: list[tuple[int, int]] = []
    down: list[tuple[int, int]] = []
    async with AsyncServerClient(server.url) as client:
        receipt = await client.files.upload(tree, f"{home.name}/t", progress=lambda *facts: up.append(facts))
        assert content(home / "t") == content(tree)
        assert receipt.bytes == 1015
        assert [(Path(o.source).name, o.ok) for o in receipt.files] == [
            ("-rf", True),
            (".env", True),
            ("config", True),
            ("leaf", True),
            ("ü b", True),
        ]
        assert all(outcome.receipt is not None for outcome in receipt.files)
        back = await client.files.download(
            f"{home.name}/t", tmp_path / "back", progress=lambda *facts: down.append(facts)
        )
        assert content(tmp_path / "back") == content(tree)
        assert back.bytes == 1015
    assert up[-1] == down[-1] == (1015, 1015)
    assert all(total == 1015 for _, total in up + down)


@pytest.mark.field(17)
@pytest.mark.field(44)
async def test_field_017_044_directories_go_where_cp_would_put_them(
    server: ServerProcess, home: Path, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    (home / "old").mkdir()
    (tmp_path / "here").mkdir()
    cases = [
        (str(tree), "new", "new"),
        (str(tree), "old", "old/tree"),
        (str(tree), "fresh/", "fresh/tree"),
        (f"{tree}/", "content", "content"),
        (f"{tree}/.", "old", "old"),
        (".", "dot", "dot"),
        ("./", "dotslash", "dotslash"),
        ("../tree", "again", "again"),
    ]
    async with AsyncServerClient(server.url) as client:
        for source, target, expected in cases:
            receipt = await client.files.upload(source, f"{home.name}/{target}")
            assert receipt.path == f"{home.name}/{expected}"
            assert (home / expected / "sub" / "ü b").exists(), (source, target)
        for source, local, expected in (
            ("new", "absent", "absent"),
            ("new", "here", "here/new"),
            ("new", "made/", "made/new"),
            ("new/", "here", "here"),
            ("new/.", "plain", "plain"),
        ):
            await client.files.download(f"{home.name}/{source}", f"{tmp_path}/{local}")
            assert content(tree).items() <= content(tmp_path / expected).items(), (source, local)


async def test_where_looking_is_not_allowed_a_tree_goes_where_it_is_told(tree: Path, tmp_path: Path) -> None:
    with running_server(tmp_path, policy={"version": 1, "preset": "transfer-only"}) as server:
        (tmp_path / "base" / "old").mkdir()
        async with AsyncServerClient(server.url) as client:
            (tree / "empty").rmdir()
            receipt = await client.files.upload(tree, "old")
            assert receipt.path == "old"
            assert content(tmp_path / "base" / "old") == content(tree)
            await client.files.upload(tree / ".env", "old")
            assert (await client.files.download("old/.env", tmp_path / "back")).bytes == 5
            with pytest.raises(NotFoundError):
                await client.files.download("old", tmp_path / "back")


async def test_a_listing_that_a_limit_cuts_off_is_no_whole_tree(tmp_path: Path) -> None:
    def answer(exchange: Exchange) -> None:
        if exchange.target.startswith("/files/list"):
            exchange.reply(200, {"entries": [{"name": "f", "type": "file"}], "truncated": True, "next": None})
        else:
            exchange.reply(404, {"error": "gone", "type": "FileNotFoundError", "code": "not_found"})

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(TransferError, match="cut off by a limit"):
                await client.files.download("d/", tmp_path / "d")


async def test_a_file_that_vanishes_meanwhile_is_one_outcome(tmp_path: Path) -> None:
    entries = [{"name": "f", "type": "file"}, {"name": "g", "type": "file"}]

    def answer(exchange: Exchange) -> None:
        if exchange.target.startswith("/files/list"):
            exchange.reply(200, {"entries": entries})
        elif "path=d%2Ff" in exchange.target:
            exchange.reply(404, {"error": "vanished", "type": "FileNotFoundError", "code": "not_found"})
        else:
            exchange.reply(403, {"error": "denied", "type": "PolicyDenied", "code": "path_denied"})

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(TransferError, match='2 of 2 files failed; the first is "d/f": vanished') as failed:
                await client.files.download("d/", tmp_path / "d")
    assert [type(outcome.error).__name__ for outcome in failed.value.outcomes] == [
        "NotFoundError",
        "FilePolicyDeniedError",
    ]
    assert os.listdir(tmp_path / "d") == []


@pytest.mark.field(146)
@pytest.mark.parametrize("kind", ["file", "directory"])
@pytest.mark.parametrize("name", ["../evil", "..", ".", "", "a/../../evil", "/ABSOLUTE/evil", "a\0b"])
async def test_field_146_a_name_that_is_none_writes_nothing_anywhere(tmp_path: Path, name: str, kind: str) -> None:
    name = name.replace("/ABSOLUTE", str(tmp_path))
    entries = [{"name": name, "type": kind}, {"name": "good", "type": "file"}]

    def answer(exchange: Exchange) -> None:
        if exchange.target.startswith("/files/list"):
            exchange.reply(200, {"entries": entries})
        else:
            exchange.reply(200, {"path": "d/x", "content_base64": "eA==", "bytes": 1})

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(TransferError, match="1 of 2 files failed.*is no name of a file"):
                await client.files.download("d/", tmp_path / "d")
    assert content(tmp_path) == {"d": None, "d/good": b"x"}


async def test_a_connection_that_breaks_ends_the_whole_tree(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "t" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "t" / name).write_text("x")

    def answer(exchange: Exchange) -> None:
        if exchange.target.startswith("/files/stat"):
            exchange.reply(200, {"exists": False})
        else:
            exchange.read()
            exchange.close()

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(SandboxConnectionError):
                await client.files.upload(tmp_path / "t", "t")
        assert server.asked("/files/upload-stream") == 1


async def test_an_empty_directory_is_made(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    async with AsyncServerClient(server.url) as client:
        receipt = await client.files.upload(tmp_path / "nothing", f"{home.name}/n")
        assert (home / "n").is_dir() and receipt.files == ()
        await client.files.download(f"{home.name}/n", tmp_path / "back")
    assert os.listdir(tmp_path / "back") == []


async def test_what_is_left_out_is_reported(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    (root / "f").write_text("x")
    (root / "alias").symlink_to("f")
    (root / "loop").symlink_to(".")
    os.mkfifo(root / "pipe")
    async with AsyncServerClient(server.url) as client:
        receipt = await client.files.upload(root, f"{home.name}/t")
        assert {(Path(o.source).name, o.skipped) for o in receipt.files} == {
            ("f", ""),
            ("alias", ""),
            ("loop", "a link to a directory"),
            ("pipe", "neither a file nor a directory"),
        }
        os.mkfifo(home / "t" / "remote pipe")
        (home / "t" / "remote loop").symlink_to(".")
        (home / "t" / "remote link").symlink_to("f")
        back = await client.files.download(f"{home.name}/t", tmp_path / "back")
    assert {Path(o.source).name: o.skipped for o in back.files} == {
        "f": "",
        "alias": "",
        "remote link": "",
        "remote pipe": "a fifo",
        "remote loop": "a link to a directory or to nothing",
    }
    assert sorted(os.listdir(tmp_path / "back")) == ["alias", "f", "remote link"]


@pytest.mark.field(35)
async def test_field_035_one_bad_file_does_not_hide_what_became_of_the_others(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    for number in range(10):
        (root / f"{number}.txt").write_text(str(number))
    policy = {"version": 1, "endpoints": {"files_upload_stream": {"paths": {"deny": ["**/3.txt"]}}}}
    with running_server(tmp_path, policy=policy) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(TransferError, match=r"1 of 10 files failed; the first is .*3\.txt") as failed:
                await client.files.upload(root, "t")
        outcomes = {Path(outcome.source).name: outcome for outcome in failed.value.outcomes}
        assert len(outcomes) == 10
        error = outcomes["3.txt"].error
        assert isinstance(error, FilePolicyDeniedError) and error.code == "path_denied"
        assert sum(outcome.receipt is not None for outcome in outcomes.values()) == 9
        assert sorted(os.listdir(tmp_path / "base" / "t")) == [f"{n}.txt" for n in range(10) if n != 3]


async def test_an_unreadable_local_file_is_one_outcome(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    (root / "a").write_text("x")
    (root / "b").write_text("x")
    async with AsyncServerClient(server.url) as client:

        def vanish(done: int, total: int) -> None:
            (root / "b").unlink(missing_ok=True)

        with pytest.raises(TransferError, match="1 of 2 files failed") as failed:
            await client.files.upload(root, f"{home.name}/t", progress=vanish)
    assert [(Path(o.source).name, o.ok) for o in failed.value.outcomes] == [("a", True), ("b", False)]
    assert "cannot read" in str(failed.value.outcomes[1].error)


async def test_a_directory_that_cannot_be_read_is_one_outcome_and_the_rest_arrives(
    server: ServerProcess, home: Path, tmp_path: Path
) -> None:
    root = tmp_path / "t"
    root.mkdir()
    (root / "a").write_text("x")
    here = os.open(root, os.O_PATH)
    for _ in range(17):  # its path is longer than the system takes
        os.mkdir("d" * 250, dir_fd=here)
        below = os.open("d" * 250, os.O_PATH, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    try:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(TransferError, match='1 of 2 files failed; .*: cannot read ".*name too long'):
                await client.files.upload(root, f"{home.name}/t")
    finally:
        shutil.rmtree(root)
    assert (home / "t" / "a").read_text() == "x"


@pytest.mark.field(32)
async def test_field_032_limits_are_judged_before_any_byte_moves(tmp_path: Path) -> None:
    root = tmp_path / "t"
    root.mkdir()
    (root / "a").write_bytes(b"x")
    (root / "b").write_bytes(b"x" * 2000)
    policy = {"version": 1, "endpoints": {"files_upload_stream": {"limits": {"max_bytes": 1000}}}}
    with running_server(tmp_path, policy=policy) as server:
        async with AsyncServerClient(server.url) as client:
            await client.discover()
            with pytest.raises(PayloadTooLargeError) as refused:
                await client.files.upload(root, "t")
            assert refused.value.status_code == 0
        assert os.listdir(tmp_path / "base") == []


async def test_a_tree_of_more_entries_than_a_page_holds_comes_back_whole(
    server: ServerProcess, home: Path, tmp_path: Path
) -> None:
    for number in range(1_005):
        (home / f"{number}").write_text("")
    async with AsyncServerClient(server.url) as client:
        receipt = await client.files.download(f"{home.name}/", tmp_path / "all")
    assert len(receipt.files) == len(os.listdir(tmp_path / "all")) == 1_005
