"""Answers that change the protocol, and ports behind which there is only one path."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable

import pytest

from sandbox_server.http.bounds import Bounds
from sandbox_server.http.handler import SandboxRequestHandler
from sandbox_server.http.hosts import HostRules
from sandbox_server.http.reactor import Reactor
from sandbox_server.http.site import Site
from sandbox_server.messages import Aborted, Request, Response
from tests.support.waiting import eventually

from .fakes import FakeApplication, Server, serving
from .test_answers import descriptors
from .test_by_hand import by_hand

ASK = b"GET /other HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n"
Upgrade = Callable[[socket.socket, bytes], None]


def upgrading(upgrade: Upgrade) -> FakeApplication:
    def other(request: Request) -> Response:
        headers = [("Connection", "Upgrade"), ("Upgrade", request.headers["upgrade"])]
        return Response(101, headers=headers, upgrade=upgrade)

    return FakeApplication(other=other)


def shout(sock: socket.socket, leftover: bytes) -> None:
    """Answers in capitals until the peer ends its side."""
    data = leftover or sock.recv(1000)
    while data:
        sock.sendall(data.upper())
        data = sock.recv(1000)
    sock.sendall(b"BYE")


def test_the_head_says_so_and_nothing_of_a_body() -> None:
    with serving(upgrading(shout)) as server, server.connect() as wire:
        answer = wire.send(ASK).head()
        assert answer.status == 101
        assert (answer.fields["connection"], answer.fields["upgrade"]) == ("Upgrade", "websocket")
        assert not {"content-length", "transfer-encoding"} & set(answer.fields)


def test_the_connection_is_the_functions_until_it_returns_and_then_closed() -> None:
    application = upgrading(shout)
    with serving(application) as server, server.connect() as wire:
        wire.send(ASK + b"early").head()
        assert wire.exactly(5) == b"EARLY"
        wire.send(b"GET / HTTP/1.1\r\n\r\n")
        assert wire.exactly(18) == b"GET / HTTP/1.1\r\n\r\n"
        assert application.closed == 0
        wire.sock.shutdown(socket.SHUT_WR)
        assert wire.rest() == b"BYE"
        eventually(lambda: application.closed == 1)


def test_silence_has_no_deadline() -> None:
    options: list[bytes] = []

    def look(sock: socket.socket, leftover: bytes) -> None:
        options.extend(
            sock.getsockopt(socket.SOL_SOCKET, option, 16) for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO)
        )
        assert sock.gettimeout() is None
        shout(sock, leftover)

    short = Bounds(idle_seconds=0.5, head_seconds=0.5, body_seconds=0.3, write_seconds=0.05, idle_worker_seconds=0.05)
    with serving(upgrading(look), bounds=short) as server, server.connect() as wire:
        wire.send(ASK).head()
        time.sleep(0.7)
        wire.send(b"late")
        assert wire.exactly(4) == b"LATE"
    assert options == [struct.pack("@ll", 0, 0)] * 2


@pytest.mark.parametrize("fault", [OSError(5, "io"), Aborted(), RuntimeError("bug")])
def test_a_function_that_fails_leaves_a_closed_connection_and_a_living_server(
    fault: Exception, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(sock: socket.socket, leftover: bytes) -> None:
        raise fault

    application = upgrading(fail)
    with serving(application) as server:
        with server.connect() as wire:
            wire.send(ASK).head()
            assert wire.rest() == b""
        eventually(lambda: application.closed == 1)
        with server.connect() as wire:
            assert wire.get("/health").status == 200
    assert ("Traceback" in capfd.readouterr().err) is isinstance(fault, RuntimeError)


def test_a_function_may_close_the_socket_itself() -> None:
    application = upgrading(lambda sock, leftover: sock.close())
    before = descriptors()
    with serving(application) as server:
        with server.connect() as wire:
            wire.send(ASK).head()
            assert wire.rest() == b""
        eventually(lambda: application.closed == 1)
        with server.connect() as wire:
            assert wire.get("/health").status == 200
    eventually(lambda: descriptors() <= before)


@pytest.mark.parametrize(
    "request_",
    [
        ASK.replace(b"HTTP/1.1", b"HTTP/1.0"),
        ASK.replace(b"GET", b"HEAD"),
        ASK.replace(b"GET", b"POST"),
        ASK.replace(b"\r\n\r\n", b"\r\nContent-Length: 900000\r\n\r\n"),
    ],
)
def test_only_a_plain_get_can_change_the_protocol(request_: bytes) -> None:
    application = upgrading(shout)
    with serving(application) as server, server.connect() as wire:
        answer = wire.send(request_).answer(request_.partition(b" ")[0].decode())
        assert answer.status == 400
        assert wire.closed()
        eventually(lambda: application.closed == 2)  # the answer not sent, and the refusal
        assert application.refused[-1]["code"] == "bad_request"


@pytest.mark.parametrize("grace", [0, 0.2])
def test_stopping_cuts_it_after_the_grace(grace: float) -> None:
    ended = threading.Event()

    def wait(sock: socket.socket, leftover: bytes) -> None:
        assert sock.recv(1) == b""
        ended.set()

    application = upgrading(wait)
    with serving(application) as server, server.connect() as wire:
        wire.send(ASK).head()
        server.reactor.stop(grace)
        server.thread.join(60)
        assert not server.thread.is_alive()
        assert ended.wait(60)
        assert application.closed == 1


def test_many_changed_connections_do_not_keep_others_from_being_served() -> None:
    with serving(upgrading(shout)) as server, contextlib.ExitStack() as stack:
        wires = [stack.enter_context(server.connect()) for _ in range(100)]
        for wire in wires:
            wire.send(ASK)
        assert {wire.head().status for wire in wires} == {101}
        with server.connect() as wire:
            assert wire.post("/echo", b"x").body == b"x"
        for wire in wires:
            wire.send(b"x")
            assert wire.exactly(1) == b"X"


def test_by_hand_it_works_too() -> None:
    application = upgrading(shout)
    with by_hand(SandboxRequestHandler, sandbox_site=Site(application, HostRules(), Bounds())) as server:
        with server.connect() as wire:
            wire.send(ASK + b"x").head()
            wire.sock.shutdown(socket.SHUT_WR)
            assert wire.rest() == b"XBYE"
        eventually(lambda: application.closed == 1)


def test_behind_a_door_every_path_is_the_doors() -> None:
    application = FakeApplication()
    application.routes["/only"] = lambda request: Response(200, repr((request.path, request.query)).encode())
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [sock.getsockname()[1] for sock in sockets]
    reactor = Reactor(application, sockets[:1], doors=[(sockets[1], "/only")])
    thread = threading.Thread(target=reactor.run)
    thread.start()
    try:
        with Server(ports[1], reactor, thread).connect() as wire:
            for path in ("/health", "/", "/only?a=1", "/files/list"):
                query = (("a", "1"),) if "?" in path else ()
                assert wire.get(path).body == repr(("/only", query)).encode()
        with Server(ports[0], reactor, thread).connect() as wire:
            assert wire.get("/health").json == {"status": "ok"}
    finally:
        reactor.stop(0)
        thread.join(60)
    assert not thread.is_alive()
