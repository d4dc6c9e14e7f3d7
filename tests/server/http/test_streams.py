"""Streamed bodies that wait: no thread waits with them, and their readers' going away is noticed."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox_server.http.bounds import Bounds
from sandbox_server.http.handler import SandboxRequestHandler
from sandbox_server.http.hosts import HostRules
from sandbox_server.http.site import Site
from sandbox_server.messages import Request, Response, Wait
from tests.support.waiting import eventually

from .fakes import FakeApplication, Wire, serving
from .test_answers import descriptors, slow_wire
from .test_by_hand import by_hand

HURRIED = Bounds(stay_seconds=0, idle_worker_seconds=0.05)


class Bell:
    """A doorbell, and a route whose body says "ding" at every ring."""

    def __init__(self) -> None:
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.waiting = 0
        self.closed = 0

    def ring(self, times: int = 1) -> None:
        os.eventfd_write(self.descriptor, times)

    def __call__(self, request: Request) -> Response:
        return Response(200, self._dings())

    def _dings(self) -> Iterator[bytes | Wait]:
        self.waiting += 1
        try:
            yield b"hello"
            while True:
                yield Wait((self.descriptor, self.descriptor))
                with contextlib.suppress(BlockingIOError):
                    for _ in range(os.eventfd_read(self.descriptor)):
                        yield b"ding"
        finally:
            self.closed += 1
            self.waiting -= 1

    def __enter__(self) -> Bell:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self.descriptor)


def ask(wire: Wire, path: str) -> Wire:
    wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert wire.head().status == 200
    return wire


def chunk(wire: Wire) -> bytes:
    data = wire.exactly(int(wire.line(), 16))
    assert wire.line() == b""
    return data


@pytest.mark.field(140)
@pytest.mark.parametrize("bounds", [Bounds(), HURRIED])
def test_a_body_goes_on_when_what_it_waits_for_is_there(bounds: Bounds) -> None:
    with Bell() as bell, serving(FakeApplication(bell=bell), bounds=bounds) as server, server.connect() as wire:
        ask(wire, "/bell")
        assert chunk(wire) == b"hello"
        for times in (1, 3, 1):
            time.sleep(0.03)  # longer than a worker stays
            bell.ring(times)
            assert [chunk(wire) for _ in range(times)] == [b"ding"] * times


@pytest.mark.field(140)
def test_field_140_hundreds_of_waiting_streams_hold_no_thread_and_no_descriptor_each() -> None:
    with Bell() as bell, serving(FakeApplication(bell=bell), bounds=HURRIED) as server, contextlib.ExitStack() as stack:
        threads, before = threading.active_count(), descriptors()
        wires = [stack.enter_context(server.connect()) for _ in range(200)]
        for wire in wires:
            wire.send(b"GET /bell HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for wire in wires:
            wire.head()
            assert chunk(wire) == b"hello"
        eventually(lambda: threading.active_count() <= threads)
        assert descriptors() - before <= 401  # both ends of every connection, and the server's spare one
        with server.connect() as wire:
            assert wire.get("/health").status == 200
        bell.ring(1000)  # all are roused, and one takes it
        poll = select.poll()
        for wire in wires:
            poll.register(wire.sock, select.POLLIN)
        assert poll.poll(60_000)
        stack.close()
        eventually(lambda: bell.closed == 200)


@pytest.mark.parametrize("leave", [socket.socket.close, lambda sock: sock.shutdown(socket.SHUT_RDWR)])
def test_a_waiting_body_is_closed_when_its_reader_leaves(leave: Callable[[socket.socket], None]) -> None:
    application = FakeApplication()
    with Bell() as bell, serving(application, bounds=HURRIED) as server, server.connect() as wire:
        application.routes["/bell"] = bell
        ask(wire, "/bell")
        chunk(wire)
        time.sleep(0.05)
        leave(wire.sock)
        wire.sock.close()
        eventually(lambda: application.closed == 1)
        assert (bell.closed, bell.waiting) == (1, 0)


def cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system


@pytest.mark.parametrize("family", ["tcp", "unix"])
def test_a_reader_that_has_ended_its_own_side_is_waited_for_and_missed_when_it_leaves(
    family: str, tmp_path: Path
) -> None:
    application = FakeApplication()
    with Bell() as bell, serving(application, bounds=HURRIED, unix=tmp_path / "s") as server:
        application.routes["/bell"] = bell
        if family == "tcp":
            wire = server.connect()
        else:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(60)
            sock.connect(str(tmp_path / "s"))
            wire = Wire(sock)
        with wire:
            ask(wire, "/bell")
            chunk(wire)
            wire.sock.shutdown(socket.SHUT_WR)
            before = cpu_seconds()
            time.sleep(0.5)
            assert cpu_seconds() - before < 0.3  # a spinning thread would use it all
            bell.ring()
            assert chunk(wire) == b"ding"
            assert bell.closed == 0
        eventually(lambda: application.closed == 1)


def test_a_body_goes_on_when_its_time_has_come() -> None:
    def ticks(request: Request) -> Response:
        def body() -> Iterator[bytes | Wait]:
            for number in range(5):
                yield Wait((), time.monotonic() + 0.02)
                yield b"%d" % number

        return Response(200, body())

    with serving(FakeApplication(ticks=ticks), bounds=HURRIED) as server, server.connect() as wire:
        assert wire.get("/ticks").chunks == [b"0", b"1", b"2", b"3", b"4"]
        assert wire.get("/health").status == 200  # the connection is kept


def test_time_alone_brings_hundreds_back_with_few_threads() -> None:
    at = time.monotonic() + 2.0

    def tick(request: Request) -> Response:
        def body() -> Iterator[bytes | Wait]:
            yield Wait((), at)
            yield b"%d" % threading.active_count()

        return Response(200, body())

    with serving(FakeApplication(tick=tick), bounds=HURRIED) as server, contextlib.ExitStack() as stack:
        wires = [stack.enter_context(server.connect()) for _ in range(200)]
        for wire in wires:
            wire.send(b"GET /tick HTTP/1.1\r\nHost: localhost\r\n\r\n")
        counts = [int(wire.answer().body) for wire in wires]
    assert max(counts) < 150


def test_the_next_request_may_come_while_a_body_waits() -> None:
    application = FakeApplication()
    with Bell() as bell, serving(application, bounds=HURRIED) as server, server.connect() as wire:
        application.routes["/once"] = once(bell)
        wire.send(b"GET /once HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wire.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(0.05)
        bell.ring()
        assert wire.answer().body == b"rung"
        assert [wire.answer().status for _ in range(2)] == [200, 200]


def once(bell: Bell) -> Callable[[Request], Response]:
    def body() -> Iterator[bytes | Wait]:
        yield Wait((bell.descriptor,))
        yield b"rung"

    return lambda request: Response(200, body())


def test_a_slow_reader_holds_no_thread_and_loses_nothing() -> None:
    def large(request: Request) -> Response:
        return Response(200, iter([b"x" * 100_000] * 100))

    with serving(FakeApplication(large=large), bounds=HURRIED) as server, slow_wire(server.port) as wire:
        threads = threading.active_count()
        ask(wire, "/large")
        eventually(lambda: threading.active_count() <= threads)
        whole = b""
        while size := int(wire.line(), 16):
            whole += wire.exactly(size)
            assert wire.line() == b""
        assert len(whole) == 10_000_000


def test_a_slow_reader_that_leaves_is_noticed() -> None:
    application = FakeApplication(large=lambda _: Response(200, iter([b"x" * 100_000] * 100)))
    with serving(application, bounds=HURRIED) as server:
        with slow_wire(server.port) as wire:
            ask(wire, "/large")
            time.sleep(0.1)
        eventually(lambda: application.closed == 1)


@pytest.mark.parametrize("grace", [0, 0.2])
def test_stopping_ends_waiting_bodies(grace: float) -> None:
    application = FakeApplication()
    with Bell() as bell:
        application.routes["/bell"] = bell
        with serving(application, bounds=HURRIED) as server, server.connect() as wire:
            ask(wire, "/bell")
            chunk(wire)
            time.sleep(0.05)
            server.reactor.stop(grace)
            server.thread.join(60)
            assert not server.thread.is_alive()
            assert (bell.closed, application.closed) == (1, 1)
            assert not wire.rest().endswith(b"0\r\n\r\n")


def test_a_waiting_body_may_finish_while_the_server_stops() -> None:
    application = FakeApplication()
    with Bell() as bell, serving(application, bounds=HURRIED) as server, server.connect() as wire:
        application.routes["/once"] = once(bell)
        ask(wire, "/once")
        server.reactor.stop(20)
        time.sleep(0.05)
        bell.ring()
        assert chunk(wire) == b"rung"
        assert wire.rest() == b"0\r\n\r\n"
        server.thread.join(60)
        assert not server.thread.is_alive()


def test_a_waiting_body_survives_a_time_without_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    application = FakeApplication()
    with Bell() as bell, serving(application, bounds=HURRIED) as server, server.connect() as wire:
        application.routes["/once"] = once(bell)
        ask(wire, "/once")
        eventually(lambda: not any(thread.name == "sandbox-worker" for thread in threading.enumerate()))

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        bell.ring()
        time.sleep(0.1)
        monkeypatch.undo()
        assert chunk(wire) == b"rung"


def test_a_body_that_waits_for_what_is_closed_does_not_hang_or_spin() -> None:
    def broken(request: Request) -> Response:
        def body() -> Iterator[bytes | Wait]:
            reading, writing = os.pipe()
            os.close(reading)
            os.close(writing)
            yield Wait((reading,), time.monotonic() + 0.1)
            yield b"on"

        return Response(200, body())

    with serving(FakeApplication(broken=broken), bounds=HURRIED) as server, server.connect() as wire:
        assert wire.get("/broken").body == b"on"


def test_by_hand_a_body_waits_on_the_thread_of_its_connection() -> None:
    application = FakeApplication()
    site = Site(application, HostRules(), Bounds())
    with Bell() as bell, by_hand(SandboxRequestHandler, sandbox_site=site) as server:
        application.routes["/bell"] = bell
        with server.connect() as wire:
            ask(wire, "/bell")
            chunk(wire)
            time.sleep(0.05)
            bell.ring()
            assert chunk(wire) == b"ding"
            wire.sock.shutdown(socket.SHUT_WR)
            time.sleep(0.1)
            bell.ring()
            assert chunk(wire) == b"ding"
        eventually(lambda: application.closed == 1)
        assert bell.closed == 1
