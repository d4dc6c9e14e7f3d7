"""Requests and answers over a real socket: framing, order, keep-alive, and what every answer carries."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from sandbox_server.http import writer
from sandbox_server.http.bounds import KIB, Bounds
from sandbox_server.http.hosts import HostRules
from sandbox_server.messages import Request, Response, json_response

from .fakes import FakeApplication, Server, Wire, file_response, serving


def stream(request: Request) -> Response:
    return Response(200, iter([b"one", b"", b"two" * 5]), [("Content-Type", "text/event-stream")])


def ignore_body(request: Request) -> Response:
    return json_response({"error": "no"}, 403)


@pytest.fixture
def application() -> FakeApplication:
    return FakeApplication(stream=stream, ignore=ignore_body, file=lambda _: file_response(Path(__file__)))


@pytest.fixture
def server(application: FakeApplication) -> Iterator[Server]:
    with serving(application) as running:
        yield running


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with server.connect() as connected:
        yield connected


def test_one_connection_serves_many_requests(wire: Wire, application: FakeApplication) -> None:
    ids = set()
    for _ in range(3):
        assert wire.get("/health").json == {"status": "ok"}
        assert wire.post("/echo", b"hello").body == b"hello"
        answer = wire.get("/file")
        assert answer.body == Path(__file__).read_bytes()
        ids.add(answer.fields["x-request-id"])
    assert len(ids) == 3
    assert len({request.id for request in application.seen}) == 9
    assert {request.client for request in application.seen} == {f"127.0.0.1:{wire.sock.getsockname()[1]}"}


@pytest.mark.parametrize("path", ["/health", "/file", "/stream", "/none"])
def test_every_answer_forbids_sniffing_and_caching_and_tells_nothing_about_the_server(wire: Wire, path: str) -> None:
    fields = wire.get(path).fields
    assert fields["x-content-type-options"] == "nosniff"
    assert fields["cache-control"] == "no-store"
    assert fields["x-request-id"]
    assert "connection" not in fields
    assert not {"server", "access-control-allow-origin"} & set(fields)


def test_a_refused_head_is_answered_like_any_other_and_closes(wire: Wire, application: FakeApplication) -> None:
    wire.send(b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = wire.answer()
    assert (answer.status, answer.code, answer.json["type"]) == (400, "bad_request", "ValueError")
    assert answer.fields["connection"] == "close"
    assert answer.fields["x-content-type-options"] == "nosniff"
    assert answer.fields["content-type"] == "application/json; charset=utf-8"
    assert wire.closed()
    (refused,) = application.refused
    assert (refused["method"], refused["path"]) == ("GET", "/health")
    assert refused["id"] == answer.fields["x-request-id"]
    assert application.seen == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_head_may_arrive_in_pieces(server: Server, size: int) -> None:
    data = b"\r\nPOST /echo?a=b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello" * 2
    with server.connect() as wire:
        wire.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), size):
            wire.send(data[start : start + size])
        assert wire.answer().body == b"hello"
        assert wire.answer().body == b"hello"


def test_pipelined_requests_are_answered_in_order(wire: Wire) -> None:
    wire.send(
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\none"
        b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
        b"POST /ignore HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\ntwo"
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nthree"
    )
    bodies = [wire.answer().body for _ in range(6)]
    assert bodies == [b'{"status":"ok"}', b"one", b'{"status":"ok"}', b"one" + b"two" * 5, b'{"error":"no"}', b"three"]


def test_a_long_pipeline_of_quick_requests_is_answered_whole(wire: Wire, application: FakeApplication) -> None:
    wire.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500)
    assert [wire.answer().status for _ in range(500)] == [200] * 500
    assert len(application.seen) == 500


def test_a_quick_request_that_would_block_is_run_on_a_worker(wire: Wire, application: FakeApplication) -> None:
    application.blocks = True
    assert wire.get("/health").status == 200
    assert application.inline == 0
    assert len(application.seen) == 1


def test_a_fault_of_the_application_is_told_and_the_connection_lives(
    application: FakeApplication, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(request: Request) -> Response:
        raise RuntimeError("secret text")

    application.routes |= {"/health": fail, "/fail": fail}
    with serving(application) as server, server.connect() as wire:
        for path in ("/health", "/fail"):
            answer = wire.get(path)
            assert (answer.status, answer.code) == (500, "internal_error")
            assert b"secret" not in answer.body
        assert wire.post("/echo", b"alive").body == b"alive"
    assert "secret text" in capfd.readouterr().err


def test_head_has_the_fields_of_get_and_no_body(wire: Wire, application: FakeApplication) -> None:
    for path in ("/health", "/file", "/stream", "/none"):
        got, headed = wire.get(path), wire.get(path, method="HEAD")
        assert headed.status == got.status
        own = {"x-request-id": "", "date": ""}  # between the two the second may change
        assert {**headed.fields, **own} == {**got.fields, **own} and headed.fields.keys() == got.fields.keys()
    wire.get("/health")  # answered after the others were closed
    assert application.closed >= 8


def test_a_refused_head_request_has_no_body_either(wire: Wire) -> None:
    wire.send(b"HEAD /health HTTP/1.1\r\nHost: a, b\r\n\r\n")
    answer = wire.answer("HEAD")
    assert (answer.status, answer.fields["connection"]) == (400, "close")
    assert int(answer.fields["content-length"]) > 0
    assert wire.closed()


def test_any_method_reaches_the_application(wire: Wire, application: FakeApplication) -> None:
    for method in ("OPTIONS", "TRACE", "BREW", "DELETE"):
        assert wire.get("/health", method=method).status == 200
    assert [request.method for request in application.seen] == ["OPTIONS", "TRACE", "BREW", "DELETE"]


def test_a_stream_is_chunked_at_once_and_never_holds_an_empty_chunk(wire: Wire) -> None:
    answer = wire.get("/stream")
    assert answer.chunks == [b"one", b"two" * 5]
    assert answer.fields["transfer-encoding"] == "chunked"
    assert answer.fields["x-accel-buffering"] == "no"
    assert "content-length" not in answer.fields


def test_http_1_0_is_answered_without_chunks_and_closed(server: Server) -> None:
    for path, body in (("/health", b'{"status":"ok"}'), ("/stream", b"one" + b"two" * 5)):
        with server.connect() as wire:
            wire.send(f"GET {path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".encode())
            answer = wire.answer()
            assert answer.body == body
            assert "transfer-encoding" not in answer.fields
            assert answer.fields["connection"] == "close"
            assert wire.closed()


@pytest.mark.parametrize("path", ["/health", "/file", "/stream"])
def test_connection_close_is_honoured_and_said(wire: Wire, path: str) -> None:
    answer = wire.get(path, "Connection: close")
    assert answer.fields["connection"] == "close"
    assert wire.closed()


def test_the_application_may_close_the_connection(application: FakeApplication) -> None:
    def leave(request: Request) -> Response:
        return Response(200, b"bye", close_connection=True)

    application.routes |= {"/health": leave, "/leave": leave}
    with serving(application) as server:
        for path in ("/health", "/leave"):
            with server.connect() as wire:
                wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 2)
                answer = wire.answer()
                assert (answer.body, answer.fields["connection"]) == (b"bye", "close")
                assert wire.closed()
    assert len(application.seen) == 2


def test_a_body_is_asked_for_when_it_is_wanted(wire: Wire) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    wire.send(head)
    assert wire.head().status == 100
    assert wire.send(b"hello").answer().body == b"hello"
    wire.send(head + b"early")
    assert wire.answer().body == b"early"


def test_a_body_that_is_not_wanted_is_never_asked_for(wire: Wire) -> None:
    wire.send(b"POST /ignore HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
    answer = wire.answer()
    assert (answer.status, answer.fields["connection"]) == (403, "close")
    assert wire.closed()


@pytest.mark.field(137)
@pytest.mark.parametrize("size", [0, 1, 100, 70_000, 256 * KIB])
def test_field_137_an_unread_body_is_never_the_next_request(
    wire: Wire, application: FakeApplication, size: int
) -> None:
    forged = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    body = (forged * (size // len(forged) + 1))[:size]
    assert wire.post("/ignore", body).status == 403
    assert wire.post("/echo", b"next").body == b"next"
    assert [request.path for request in application.seen] == ["/ignore", "/echo"]


@pytest.mark.field(137)
def test_field_137_a_large_unread_body_closes_and_its_answer_is_seen(
    server: Server, application: FakeApplication
) -> None:
    with server.connect() as wire:
        wire.send(b"POST /ignore HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 1_000_000)
        answer = wire.answer()
        assert (answer.status, answer.fields["connection"]) == (403, "close")
        wire.send(b"x" * 1_000_000)
        assert wire.closed()
    with server.connect() as wire:
        assert wire.get("/health").status == 200
    assert [request.path for request in application.seen] == ["/ignore", "/health"]


@pytest.mark.field(137)
def test_field_137_a_negative_length_is_refused(wire: Wire) -> None:
    wire.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n")
    assert wire.answer().status == 400
    assert wire.closed()


@pytest.mark.field(136)
@pytest.mark.parametrize(
    "lines",
    [
        ["Transfer-Encoding: chunked"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Content-Length: 4", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 4"],
        ["Transfer-Encoding: identity", "Content-Length: 4"],
    ],
)
def test_field_136_a_chunked_body_is_refused_and_the_connection_closed(
    server: Server, application: FakeApplication, lines: list[str]
) -> None:
    head = "\r\n".join(["POST /echo HTTP/1.1", "Host: localhost", *lines])
    with server.connect() as wire:
        wire.send(head.encode() + b"\r\n\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = wire.answer()
        assert (answer.status, answer.code) == (400, "unsupported_encoding")
        assert wire.closed()
    assert application.seen == []
    with server.connect() as wire:
        assert wire.get("/health").status == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"a" * 70_000, 414),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000, 431),
        (b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 150 + b"\r\n", 431),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"GET / HTTP/1.1\nHost: localhost\n\n", 400),
    ],
)
def test_a_hopeless_head_is_answered_at_once_and_the_answer_is_seen(wire: Wire, data: bytes, status: int) -> None:
    wire.send(data)
    assert wire.answer().status == status
    wire.send(b"more" * 1000)
    assert wire.closed()


def test_half_a_head_and_a_half_close_is_a_bad_request(wire: Wire) -> None:
    wire.send(b"GET /health HTTP/1.1\r\nHost")
    wire.sock.shutdown(socket.SHUT_WR)
    assert wire.answer().status == 400
    assert wire.closed()


def test_a_short_body_and_a_half_close_is_a_bad_request(wire: Wire) -> None:
    wire.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
    wire.sock.shutdown(socket.SHUT_WR)
    answer = wire.answer()
    assert (answer.status, answer.code, answer.fields["connection"]) == (400, "bad_request", "close")
    assert wire.closed()


def test_a_request_with_a_half_close_is_answered(server: Server) -> None:
    for path in ("/health", "/file", "/stream"):
        with server.connect() as wire:
            wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            wire.sock.shutdown(socket.SHUT_WR)
            assert wire.answer().status == 200
            assert wire.closed()


def test_a_page_of_another_site_is_refused_before_the_application(wire: Wire, application: FakeApplication) -> None:
    answer = wire.get("/health", "Origin: http://evil.example")
    assert (answer.status, answer.code, answer.json["type"]) == (403, "origin_not_allowed", "PolicyDenied")
    assert wire.closed()
    assert application.seen == []


def test_host_and_origin_are_judged_again_when_the_fields_change(application: FakeApplication) -> None:
    with serving(application, hosts=HostRules(["box"])) as server, server.connect() as wire:
        wire.send(b"GET /health HTTP/1.1\r\nHost: box\r\n\r\n" * 2)
        assert [wire.answer().status for _ in range(2)] == [200, 200]
        wire.send(b"GET /health HTTP/1.1\r\nHost: bix\r\n\r\n")
        assert (answer := wire.answer()).status == 421
        assert answer.code == "host_not_allowed"


def test_a_unix_socket_serves_beside_tcp_and_takes_any_host(application: FakeApplication, tmp_path: Path) -> None:
    with serving(application, unix=tmp_path / "s") as server, server.connect() as wire:
        assert wire.get("/health").status == 200
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(tmp_path / "s"))
        with Wire(sock) as local:
            local.send(b"GET /health HTTP/1.1\r\nHost: sandbox\r\n\r\n")
            assert local.answer().status == 200
            assert local.post("/echo", b"x" * 300_000).body == b"x" * 300_000
            assert local.get("/file").body == Path(__file__).read_bytes()
            assert local.get("/stream").chunks == [b"one", b"two" * 5]
    assert [request.client for request in application.seen[1:]] == ["unix"] * 4


def test_a_header_value_never_becomes_a_header(application: FakeApplication) -> None:
    def forge(request: Request) -> Response:
        return Response(
            200, b"x", [("X-Good", "1"), ("X-Name", "a\r\nX-Forged: 1"), ("X\nY", "2"), ("X-More", "\u20ac")]
        )

    application.routes["/health"] = forge
    with serving(application) as server, server.connect() as wire:
        fields = wire.get("/health").fields
    assert fields["x-good"] == "1"
    assert fields["x-more"] == "?"
    assert not {"x-forged", "x-name", "x", "y"} & set(fields)


def test_the_application_decides_about_caching_where_it_says_so(application: FakeApplication) -> None:
    application.routes["/health"] = lambda _: Response(200, b"x", [("Cache-Control", "private")])
    with serving(application) as server, server.connect() as wire:
        assert wire.get("/health").fields["cache-control"] == "private"


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_content_has_no_length(application: FakeApplication, status: int) -> None:
    application.routes["/health"] = lambda _: Response(status)
    with serving(application) as server, server.connect() as wire:
        assert "content-length" not in wire.get("/health").fields
        assert wire.post("/echo", b"next").body == b"next"


def test_a_slow_head_is_given_up(application: FakeApplication) -> None:
    with serving(application, bounds=Bounds(head_seconds=0.5)) as server:
        with server.connect() as wire:
            wire.send(b"GET /health HTTP/1.1\r\nHost: loc")
            answer = wire.answer()
            assert (answer.status, answer.code) == (408, "timeout")
            assert wire.closed()
        with server.connect() as silent:
            assert silent.closed()
        with server.connect() as wire:
            assert wire.get("/health").status == 200
            wire.send(b"GET")
            assert wire.answer().status == 408
            assert wire.closed()


def test_an_idle_connection_is_closed_without_a_word(application: FakeApplication) -> None:
    with serving(application, bounds=Bounds(idle_seconds=0.5)) as server:
        for path in ("/health", "/file"):
            with server.connect() as wire:
                assert wire.get(path).status == 200
                assert wire.closed()


def test_a_slow_body_is_refused_and_closed(application: FakeApplication) -> None:
    with serving(application, bounds=Bounds(body_seconds=0.3)) as server, server.connect() as wire:
        wire.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50000\r\n\r\nx")
        answer = wire.answer()
        assert (answer.status, answer.code, answer.fields["connection"]) == (408, "timeout", "close")
        assert wire.closed()


@pytest.mark.parametrize("path", ["/health", "/nowhere", "/stream"])
def test_every_answer_tells_the_time(wire: Wire, path: str) -> None:
    told = parsedate_to_datetime(wire.get(path).fields["date"])
    assert abs((datetime.now(timezone.utc) - told).total_seconds()) < 60


def test_the_time_is_told_as_the_standard_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_server.http.writer.time.time", lambda: 784111777.9)
    assert b"\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n" in writer.render_head(Response(200), close=False)
