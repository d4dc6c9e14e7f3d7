"""Streams that are cut, silent, malformed or late."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from sandbox_sdk import (
    AsyncServerClient,
    CommandTimeoutError,
    PolicyDeniedError,
    SandboxConnectionError,
    ServerAPIError,
    StreamInterruptedError,
)
from tests.sdk.scripted import FRAMES, Exchange, scripted
from tests.sdk.test_events import encode
from tests.sdk.test_output import record
from tests.support.server import running_server

pytestmark = pytest.mark.anyio

START = record("start", id="p1", pid=7, stdout=0, stderr=0)
END = record("end", exit_code=3, signal=None, reason="exit", stdout=6, stderr=1)
WHOLE = [START, (1, b"abc"), (2, b"x"), record("heartbeat"), (1, b"def"), END]


@pytest.mark.field(130)
@pytest.mark.field(74)
@pytest.mark.parametrize("count", range(len(WHOLE) + 1))
async def test_field_074_130_a_cut_stream_is_interrupted_unless_its_end_was_seen(count: int) -> None:
    with scripted(lambda exchange: exchange.stream(encode(WHOLE[:count]), end=False)) as server:
        async with AsyncServerClient(server.url) as client:
            if count == len(WHOLE):
                result = await client.process.run("x")
                assert (result.exit_code, result.stdout, result.stderr) == (3, "abcdef", "x")
                return
            with pytest.raises(StreamInterruptedError, match="the sandbox at .* is up") as cut:
                await client.process.run("x")
            sent = [sum(len(p) for s, p in WHOLE[:count] if s == stream) for stream in (1, 2)]
            assert (cut.value.stdout_offset, cut.value.stderr_offset) == tuple(sent)
            assert cut.value.offset == sum(sent)
            assert isinstance(cut.value, SandboxConnectionError) and not cut.value.gone
            assert server.asked("/shell/stream") == 1, "a command is never started again"


async def test_a_stream_that_ends_properly_but_without_an_end_record_is_interrupted() -> None:
    with scripted(lambda exchange: exchange.stream(encode(WHOLE[:-1]))) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(StreamInterruptedError, match="after 7 bytes"):
                await client.process.run("x")


@pytest.mark.field(128)
async def test_field_128_a_server_killed_in_mid_stream_is_said_to_be_gone(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        async with AsyncServerClient(server.url) as client:
            stream = client.process.stream(["sh", "-c", "echo hi; sleep 60"])
            assert (await anext(stream)).text == "hi\n"
            server.process.kill()
            with pytest.raises(StreamInterruptedError, match="is gone") as cut:
                await anext(stream)
            assert (cut.value.gone, cut.value.offset) == (True, 3)
            assert [event async for event in stream] == []
            process = client.process.follow(1)
            with pytest.raises(SandboxConnectionError, match="no server answers"):
                await anext(process)


@pytest.mark.field(71)
async def test_field_071_a_server_that_accepts_and_says_nothing_is_given_up(tmp_path: Path) -> None:
    def silent(exchange: Exchange) -> None:
        exchange.connection.recv(1)

    with scripted(silent) as server:
        async with AsyncServerClient(server.url, timeout=1) as client:
            for work in (
                lambda: client.process.run("x"),
                lambda: client.files.list(),
                lambda: client.files.download("f", tmp_path / "f"),
                lambda: client.files.write("f", "x"),
            ):
                with pytest.raises(SandboxConnectionError, match=r"within 1 s; the server is up"):
                    await work()
            assert server.asked("/files/list") == 1, "what takes too long is not tried again"


@pytest.mark.field(95)
async def test_field_095_the_client_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(exchange: Exchange) -> None:
        exchange.head(200, {"Content-Type": FRAMES, "Transfer-Encoding": "chunked"})
        exchange.chunk(encode([START, (1, b"x")]))
        while True:
            exchange.chunk(encode([record("heartbeat")]))

    with scripted(endless) as server:
        async with AsyncServerClient(server.url) as client:
            monkeypatch.setattr(sys.modules[type(client.process).run.__module__], "_GRACE", 0.0)
            with pytest.raises(CommandTimeoutError, match="did not end in time"):
                await client.process.run("x", timeout=0.2)


async def test_a_stream_may_be_silent_for_longer_than_an_answer() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.read()
        exchange.head(200, {"Content-Type": FRAMES, "Transfer-Encoding": "chunked"})
        exchange.chunk(encode([START]))
        time.sleep(3)
        exchange.chunk(encode([END]))
        exchange.send(b"0\r\n\r\n")

    with scripted(answer) as server:
        async with AsyncServerClient(server.url, timeout=1) as client:
            assert (await client.process.run("x")).exit_code == 3


async def test_an_error_from_a_proxy_says_nothing_about_the_server() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.reply(502, b"<html>", {"X-Sandbox-Server": "proxy"})

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            assert await client.health()
            with pytest.raises(ServerAPIError):
                await client.files.mkdir("d")
            assert client._connection.known.ours is True


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("text/html", b"<html>", 'streams "text/html"'),
        (FRAMES, b"no frames at all", "malformed"),
        (FRAMES, encode([(3, b"[]")]), "malformed"),
        ("text/event-stream", b"data: nonsense\n\n", "malformed"),
    ],
)
async def test_what_is_no_stream_is_a_protocol_error(kind: str, body: bytes, message: str) -> None:
    with scripted(lambda exchange: exchange.stream(body, kind=kind)) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(ServerAPIError, match=message) as refused:
                await client.process.run("x")
            assert refused.value.error_type == "ProtocolError"


async def test_an_end_without_an_exit_status_is_an_error() -> None:
    end = record("end", exit_code=None, signal=None, reason="shutdown")
    with scripted(lambda exchange: exchange.stream(encode([START, end]))) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(ServerAPIError, match="no exit status: shutdown"):
                await client.process.run("x")


@pytest.mark.field(64)
async def test_field_064_a_follower_that_was_cut_off_goes_on_without_gap_or_duplicate() -> None:
    data = {1: b"0123456789" * 10, 2: b"abcdefghij"}

    def answer(exchange: Exchange) -> None:
        query = dict(part.split("=") for part in exchange.target.partition("?")[2].split("&"))
        first, second = int(query.get("stdout_from", 0)), int(query.get("stderr_from", 0))
        frames = [(1, data[1][first : first + 7]), (2, data[2][second : second + 1])]
        if not frames[0][1] and not frames[1][1]:
            exchange.stream(encode([START, END]))
        else:
            exchange.stream(encode([START, *frames]) + encode([(1, b"never whole")])[:4], end=False)

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            seen = {"stdout": b"", "stderr": b""}
            async for event in client.process.follow("p1"):
                if event.kind == "output":
                    assert event.offset == len(seen[event.stream])
                    seen[event.stream] += event.data
            assert seen == {"stdout": data[1], "stderr": data[2]}


async def test_a_follower_that_never_hears_anything_new_gives_up() -> None:
    with scripted(lambda exchange: exchange.stream(encode([START]), end=False)) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(SandboxConnectionError):
                async for _ in client.process.follow("p1"):
                    pass
            assert server.asked("/process/p1/output") <= 40


async def test_a_follower_is_not_fooled_by_a_refusal_after_reconnecting() -> None:
    def answer(exchange: Exchange) -> None:
        if server.asked("/process/p1/output") == 1:
            exchange.stream(encode([START, (1, b"abc")]), end=False)
        else:
            exchange.reply(403, {"error": "no more", "type": "PolicyDenied", "code": "missing_scope"})

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(PolicyDeniedError, match="no more"):
                async for _ in client.process.follow("p1"):
                    pass


def chunk(seq: int, data: str, stream: str = "stdout") -> dict[str, object]:
    return {"seq": seq, "stream": stream, "data": data}


@pytest.mark.finding("R2-C8")
async def test_a_server_without_frames_is_followed_by_asking_again() -> None:
    answers = [
        {"events": [chunk(0, "é"), chunk(1, "x", "stderr")], "next": 2, "state": "running", "exit_code": None},
        {"events": [], "next": 2, "state": "running", "exit_code": None},
        {"events": [chunk(4, "after a gap")], "next": 5, "state": "exited", "exit_code": -15},
        {"events": [], "next": 5, "state": "exited", "exit_code": -15, "dropped": True},
    ]
    asked: list[str] = []

    def answer(exchange: Exchange) -> None:
        asked.append(exchange.target)
        exchange.reply(200, {"pid": 7, **answers[len(asked) - 1]})

    with scripted(answer, ours=False) as server:
        async with AsyncServerClient(server.url) as client, client.process.follow(7) as events:
            seen = [(event.kind, event.stream, event.data, event.offset) async for event in events]
    assert seen == [
        ("output", "stdout", "é".encode(), 0),
        ("output", "stderr", b"x", 0),
        ("gap", "stdout", b"", 2),
        ("output", "stdout", b"after a gap", 2),
        ("exit", "", b"", 0),
    ]
    assert (events.exit_code, events.signal) == (-15, 15)
    assert [target.partition("since=")[2].partition("&")[0] for target in asked] == ["", "2", "2", "5"]


@pytest.mark.finding("R2-C8")
async def test_a_server_without_frames_is_read_as_events_or_as_text() -> None:
    def answer(exchange: Exchange) -> None:
        if exchange.target == "/shell":
            exchange.reply(200, {"stdout": "no line end", "stderr": "", "exit_code": 0})
        elif exchange.target == "/shell/stream":
            events = b'event: stdout\ndata: {"data":"a"}\n\nevent: exit\ndata: {"exit_code":0}\n\n'
            exchange.head(200, {"Content-Type": "text/event-stream", "Connection": "close"})
            exchange.send(events)
            exchange.close()
        else:
            body = {"events": [chunk(0, "abc"), chunk(1, "e", "stderr"), chunk(2, "def")], "exit_code": None}
            exchange.reply(200, body)

    with scripted(answer, ours=False) as server:
        async with AsyncServerClient(server.url) as client:
            assert (await client.process.run("x")).stdout == "no line end"
            pieces: list[str] = []
            assert (await client.process.run("x", on_stdout=pieces.append)).stdout == "a\n"
            assert pieces == ["a\n"]
            with pytest.raises(ServerAPIError, match="standard input"):
                await client.process.run("x", stdin="y")
            server.answer = lambda exchange: exchange.reply(200, {"pid": 7, "command": "x"})
            process = await client.process.start("x")
            server.answer = answer
            part = await process.output(2)
            assert (part.data, part.offset, part.end) == (b"cdef", 2, 6)


async def test_a_process_whose_exit_status_is_unknown_is_not_reported_as_ended() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.reply(200, {"pid": 7, "id": "p1", "state": "exited", "exit_code": None})

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            process = await client.process.attach(7)
            with pytest.raises(ServerAPIError, match="exit status is not known"):
                await process.wait()


@pytest.mark.field(127)
@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html", b"<html>proxy</html>"),
        (200, "application/json", b""),
        (204, "", b""),
        (200, "application/json", b"[1]"),
        (200, "application/json", b"null"),
        (200, "application/json", b"\xff"),
        (200, "application/json", b"[" * 100_000),
    ],
)
async def test_field_127_a_success_that_is_none_is_an_error(status: int, kind: str, body: bytes) -> None:
    def answer(exchange: Exchange) -> None:
        exchange.reply(status, body, {"Content-Type": kind, "X-Request-Id": "r1"})

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(ServerAPIError, match="not a JSON object") as refused:
                await client.files.list()
            assert (refused.value.error_type, refused.value.status_code) == ("ProtocolError", status)
            assert (refused.value.endpoint, refused.value.request_id) == ("files_list", "r1")


@pytest.mark.field(127)
@pytest.mark.parametrize(("status", "body"), [(500, b""), (502, b"<html>bad gateway</html>"), (503, b"x" * (3 << 20))])
async def test_field_127_a_failure_without_a_reason_is_an_error(status: int, body: bytes) -> None:
    with scripted(lambda exchange: exchange.reply(status, body)) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(ServerAPIError, match=f"answered {status} without a reason"):
                await client.files.mkdir("d")


async def test_a_redirect_is_never_followed() -> None:
    def answer(exchange: Exchange) -> None:
        exchange.reply(302, b"", {"Location": f"{server.url}/elsewhere"})

    with scripted(answer) as server:
        async with AsyncServerClient(server.url, token="s3cret") as client:
            with pytest.raises(ServerAPIError) as refused:
                await client.files.list()
            assert refused.value.error_type == "BindingRedirect"
            assert server.seen == [("GET", "/files/list?path=.")]


async def test_a_get_is_sent_again_when_the_connection_broke_before_an_answer() -> None:
    def answer(exchange: Exchange) -> None:
        if len(server.seen) < 3:
            exchange.reset()
        else:
            exchange.reply(200, {"entries": []})

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            assert await client.files.list() == []
            assert len(server.seen) == 3


async def test_a_short_wait_that_the_server_asks_for_is_kept() -> None:
    def answer(exchange: Exchange) -> None:
        if len(server.seen) == 1:
            body = {"error": "slow down", "type": "RateLimited", "code": "rate_limited"}
            exchange.reply(429, body, {"Retry-After": "0"})
        elif len(server.seen) == 2:
            exchange.reply(503, {"error": "busy", "type": "ResourceError", "code": "busy", "retry_after": 0})
        else:
            exchange.reply(200, {"entries": []})

    with scripted(answer) as server:
        async with AsyncServerClient(server.url) as client:
            assert await client.files.list() == []
            assert len(server.seen) == 3


@pytest.mark.parametrize("document", [{}, {"api_version": 1, "endpoints": {}}, {"api_version": True, "endpoints": {}}])
async def test_a_server_of_another_version_is_refused(document: dict[str, object]) -> None:
    with scripted(lambda exchange: exchange.reply(200, json.dumps(document).encode())) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(ServerAPIError, match="api_version"):
                await client.discover()
            assert client.capabilities is None
