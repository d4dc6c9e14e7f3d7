"""A server wired by hand: the standard library's threading server with our handler class runs the same connections."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from sandbox_server.http.bounds import MIB, Bounds
from sandbox_server.http.handler import SandboxRequestHandler
from sandbox_server.http.hosts import HostRules
from sandbox_server.http.site import Site

from .fakes import FakeApplication, Server, file_response
from .test_exchange import stream


@contextmanager
def by_hand(
    handler: type[SandboxRequestHandler],
    server_type: type[socketserver.TCPServer] = ThreadingHTTPServer,
    **given: object,
) -> Iterator[Server]:
    with server_type(("127.0.0.1", 0), handler) as server:
        for name, value in given.items():
            setattr(server, name, value)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Server(server.server_address[1], None, thread)  # type: ignore[arg-type]
        finally:
            server.shutdown()
            thread.join(60)


@pytest.mark.finding("R2-C1")
def test_a_threading_server_by_hand_serves_like_ours() -> None:
    application = FakeApplication(stream=stream, file=lambda _: file_response(Path(__file__)))
    with by_hand(SandboxRequestHandler, application=application) as server:
        with server.connect() as wire:
            for _ in range(3):
                assert wire.get("/health").json == {"status": "ok"}
                assert wire.post("/echo", b"x" * 2 * MIB).body == b"x" * 2 * MIB
                assert wire.get("/file").body == Path(__file__).read_bytes()
                assert wire.get("/stream").chunks == [b"one", b"two" * 5]
            wire.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
            assert [wire.answer().status for _ in range(50)] == [200] * 50
            wire.send(b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n")
            assert wire.answer().status == 421
            assert wire.closed()
        with server.connect() as wire:
            wire.send(b"POST /stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900000\r\n\r\n" + b"x" * 900_000)
            assert wire.answer().fields["connection"] == "close"
            assert wire.closed()
    assert application.refused[0]["client"] == application.seen[0].client


@pytest.mark.finding("R2-C1")
def test_the_application_is_built_once_from_the_environment_when_the_server_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[str] = []

    def build(environ: Mapping[str, str]) -> FakeApplication:
        built.append(environ["ABX_TEST"])
        return FakeApplication()

    class Wired(SandboxRequestHandler):
        application_factory = staticmethod(build)

    monkeypatch.setenv("ABX_TEST", "1")
    with by_hand(Wired, host_rules=HostRules(["box"])) as server:
        for _ in range(3):
            with server.connect() as wire:
                wire.send(b"GET /health HTTP/1.1\r\nHost: box\r\n\r\n")
                assert wire.answer().status == 200
    assert built == ["1"]


def test_without_application_or_factory_it_says_what_is_missing(capfd: pytest.CaptureFixture[str]) -> None:
    with by_hand(SandboxRequestHandler) as server, server.connect() as wire:
        assert wire.closed()
    assert "the server has no attribute 'application'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("bounds", "data", "status"),
    [
        (Bounds(head_seconds=0.5), b"GET /health HTTP/1.1\r\n", 408),
        (Bounds(head_seconds=0.5), b"", None),
        (Bounds(), b"GET /health HTTP/9.9\r\n\r\n", 505),
        (Bounds(), b"GET /health HTTP/1.1\n\n", 400),
    ],
)
def test_its_deadlines_and_refusals_are_the_same(bounds: Bounds, data: bytes, status: int | None) -> None:
    site = Site(FakeApplication(), HostRules(), bounds)
    with by_hand(SandboxRequestHandler, sandbox_site=site) as server, server.connect() as wire:
        wire.send(data)
        if status is not None:
            assert wire.answer().status == status
        assert wire.closed()


def test_its_idle_connections_are_closed() -> None:
    site = Site(FakeApplication(), HostRules(), Bounds(idle_seconds=0.5, stay_seconds=0))
    with by_hand(SandboxRequestHandler, sandbox_site=site) as server, server.connect() as wire:
        assert wire.get("/health").status == 200
        wire.send(b"GET /health HTTP/1.1\r\nHost: ")
        wire.send(b"localhost\r\n\r\n")
        assert wire.answer().status == 200
        assert wire.closed()
