"""Watching and searching from the client: changes as values, across broken connections and the server's patience."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_sdk import (
    AsyncServerClient,
    EndpointNotAvailableError,
    FileChange,
    NotFoundError,
    SearchHit,
    ServerAPIError,
    StreamInterruptedError,
)
from tests.sdk.scripted import Exchange, scripted
from tests.support.server import ServerProcess

pytestmark = pytest.mark.anyio

SSE = "text/event-stream"


def ready(cursor: str) -> bytes:
    return f'event: ready\ndata: {{"path":"/d","mode":"inotify","cursor":"{cursor}"}}\n\n'.encode()


def change(name: str, cursor: str = "") -> bytes:
    return f'event: change\ndata: {{"type":"created","path":"/d/{name}","cursor":"{cursor}"}}\n\n'.encode()


def end(reason: str, cursor: str = "") -> bytes:
    return f'event: end\ndata: {{"reason":"{reason}","cursor":"{cursor}"}}\n\n'.encode()


def cursor_of(target: str) -> str:
    return target.partition("cursor=")[2].partition("&")[0]


async def test_changes_come_as_values(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    async with AsyncServerClient(server.url) as client:
        async with client.files.watch(home.name, recursive=True) as watch:
            assert watch.mode == "inotify"
            (tmp_path / "f").rename(home / "f")  # at once: who writes is seen twice, if between two looks
            made = await anext(watch)
            assert (made.type, made.path, made.is_dir) == ("created", str(home / "f"), False)
            (home / "f").rename(home / "g")
            moved = await anext(watch)
            assert (moved.type, moved.path, moved.old_path) == ("renamed", str(home / "g"), str(home / "f"))
            assert watch.cursor == moved.cursor != made.cursor
        (home / "d").mkdir()
        async with client.files.watch(home.name, recursive=True, cursor=moved.cursor, timeout=60) as watch:
            later = await anext(watch)
            assert (later.type, later.path, later.is_dir) == ("created", str(home / "d"), True)
            home.rename(home.with_name("elsewhere"))
            assert [found async for found in watch] == []
            assert watch.reason == "removed"
        home.with_name("elsewhere").rename(home)


async def test_a_watch_without_a_block_begins_with_the_first_step(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        watch = client.files.watch(home.name, timeout=0.1)
        assert [found async for found in watch] == []
        assert watch.reason == "timeout"
        with pytest.raises(NotFoundError):
            await anext(client.files.watch(f"{home.name}/nowhere"))
        with pytest.raises(NotFoundError):
            async with client.files.watch(f"{home.name}/nowhere"):
                pass
        async with client.files.watch(home.name) as watch:
            await watch.aclose()
            assert [found async for found in watch] == []


async def test_a_watch_goes_on_behind_the_last_change_when_the_connection_breaks_or_the_time_is_up() -> None:
    def answer(exchange: Exchange) -> None:
        asked.append(cursor_of(exchange.target))
        match len(asked):
            case 1:
                exchange.stream(ready("t-0"), b":\n\n", change("a", "t-1"), b"event: chan", kind=SSE, end=False)
            case 2:
                exchange.stream(ready("t-1"), change("b", "t-2"), end("timeout", "t-2"), kind=SSE)
            case 3:
                exchange.stream(ready("t-2"), end("timeout", "t-2"), kind=SSE)
            case 4:
                overflow = b'event: overflow\ndata: {"path":"/d","cursor":"u-7"}\n\n'
                exchange.stream(ready("u-7"), overflow, kind=SSE, end=False)
            case _:
                exchange.stream(ready("u-7"), change("c", "u-8"), end("removed", "u-8"), kind=SSE)

    asked: list[str] = []
    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client, client.files.watch("d") as watch:
            seen = [found async for found in watch]
    assert seen == [
        FileChange("created", "/d/a", False, None, "t-1"),
        FileChange("created", "/d/b", False, None, "t-2"),
        FileChange("overflow", "/d", True, None, "u-7"),
        FileChange("created", "/d/c", False, None, "u-8"),
    ]
    assert asked == ["", "t-1", "t-2", "t-2", "u-7"]
    assert watch.reason == "removed"


async def test_a_watch_knows_when_the_server_begins_to_poll() -> None:
    def answer(exchange: Exchange) -> None:
        polling = b'event: mode\ndata: {"mode":"polling","cursor":"t-1"}\n\n'
        exchange.stream(ready("t-0"), change("a", "t-1") + polling, change("b", "t-2"), end("removed", "t-2"), kind=SSE)

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client, client.files.watch("d") as watch:
            assert watch.mode == "inotify"
            seen = [found.path async for found in watch]
    assert (seen, watch.mode, watch.cursor) == (["/d/a", "/d/b"], "polling", "t-2")


async def test_a_watch_that_never_hears_anything_new_gives_up() -> None:
    with scripted(lambda exchange: exchange.stream(ready("t-0"), kind=SSE, end=False)) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(StreamInterruptedError, match="is up"):
                async with client.files.watch("d") as watch:
                    async for _ in watch:
                        pass
            assert server.asked("/files/watch") <= 20


async def test_a_watch_whose_sandbox_is_gone_says_so() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.stream(ready("t-0"), kind=SSE, end=False)
        server.die()

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(StreamInterruptedError) as broken:
                async with client.files.watch("d") as watch:
                    await anext(watch)
            assert broken.value.gone


@pytest.mark.parametrize(("kind", "body"), [("text/html", b"<html>"), (SSE, b"event: ready\ndata: [\n\n")])
async def test_what_is_no_stream_of_events_is_an_error(kind: str, body: bytes) -> None:
    with scripted(lambda exchange: exchange.stream(body, kind=kind)) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(ServerAPIError):
                async with client.files.watch("d"):
                    pass


@pytest.mark.finding("R2-C8")
async def test_an_older_server_is_watched_without_cursors_and_cannot_search_in_files() -> None:
    def answer(exchange: Exchange) -> None:
        pieces = (b'event: ready\ndata: {"path":"/d"}\n\n', change("a"), end("timeout"))
        exchange.stream(*pieces, kind=SSE)

    with scripted(answer, ours=False) as server:
        async with AsyncServerClient(server.url) as client:
            async with client.files.watch("d", interval=0.2) as watch:
                assert [found.path async for found in watch] == ["/d/a"]
                assert (watch.mode, watch.cursor, watch.reason) == ("", "", "timeout")
            with pytest.raises(EndpointNotAvailableError):
                await client.files.search("d", contents="x")
            assert [target for _, target in server.seen if "watch" in target] == ["/files/watch?path=d&interval=0.2"]


async def test_files_and_lines_are_found(server: ServerProcess, home: Path) -> None:
    (home / "a.txt").write_text("one\nneedle 7\nthree\n")
    (home / "b.bin").write_bytes(b"\0needle")
    async with AsyncServerClient(server.url) as client:
        names = await client.files.search(home.name, "*.txt")
        assert names == [SearchHit("a.txt", str(home / "a.txt"))]
        assert names.complete and names.skipped == {"binary": 0, "large": 0, "unreadable": 0}
        found = await client.files.search(home.name, contents="needle", context=1)
        assert found == [SearchHit("a.txt", str(home / "a.txt"), 2, 1, "needle 7", before=("one",), after=("three",))]
        assert found.skipped["binary"] == 1
        found = await client.files.search(home.name, contents=r"^n.*\d$", regex=True)
        assert [hit.line for hit in found] == [2]
        found = await client.files.search(home.name, contents="E", ignore_case=True, max_results=1)
        assert (len(found), found.truncated, found.complete) == (1, True, False)
        with pytest.raises(ServerAPIError, match="regular expression"):
            await client.files.search(home.name, contents="(", regex=True)
