"""The selector thread and its workers: crowds, exhaustion, and a stop that lets running work finish."""

from __future__ import annotations

import contextlib
import math
import queue
import resource
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_server.http.bounds import Bounds
from sandbox_server.http.listeners import Listeners
from sandbox_server.http.workers import Workers
from sandbox_server.messages import Request, Response, json_response
from tests.support.waiting import eventually

from .fakes import FakeApplication, Wire, serving
from .test_answers import descriptors

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@pytest.mark.field(140)
def test_field_140_five_hundred_idle_connections_use_no_thread_and_new_requests_are_served() -> None:
    application = FakeApplication()
    with serving(application, bounds=Bounds(idle_seconds=30)) as server, contextlib.ExitStack() as stack:
        threads = threading.active_count()
        wires = [stack.enter_context(server.connect()) for _ in range(500)]
        for wire in wires[::2]:
            assert wire.get("/health").status == 200
        assert threading.active_count() <= threads  # workers of earlier tests may have left
        with server.connect() as wire:
            assert wire.get("/health").status == 200
            assert wire.post("/echo", b"body").body == b"body"
        assert [wire.get("/health").status for wire in wires] == [200] * 500


@pytest.mark.field(140)
def test_field_140_idle_connections_are_closed_in_the_end() -> None:
    with serving(FakeApplication(), bounds=Bounds(idle_seconds=0.3, head_seconds=0.3)) as server:
        with server.connect() as wire:
            wire.get("/health")
            before = descriptors()
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(server.connect()) for _ in range(100)]
            for wire in wires[::2]:
                with contextlib.suppress(OSError, EOFError):  # so long did it take to come to this one
                    wire.get("/health")
            assert all(given_up(wire) for wire in wires)
            # A hundred are the client's own ends, another hundred were the server's.
            eventually(lambda: descriptors() < before + 150)


def given_up(wire: Wire) -> bool:
    """As `closed`; also where something was sent too late."""
    try:
        return wire.closed()
    except ConnectionError:
        return True


def test_waiting_costs_nothing() -> None:
    with serving(FakeApplication()) as server, server.connect() as wire:
        wire.get("/health")
        before = cpu_seconds()
        time.sleep(1)
        assert cpu_seconds() - before < 0.5  # a spinning thread would use it all


def test_connections_over_the_cap_are_told_so_and_room_is_found_again() -> None:
    application = FakeApplication()
    with serving(application, bounds=Bounds(connections=5)) as server:
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(server.connect()) for _ in range(5)]
            assert [wire.get("/health").status for wire in wires] == [200] * 5
            for _ in range(3):
                with server.connect() as wire:
                    wire.send(REQUEST)
                    answer = wire.answer()
                    assert (answer.status, answer.code, answer.fields["connection"]) == (503, "busy", "close")
                    assert wire.closed()
            assert [wire.get("/health").status for wire in wires] == [200] * 5
        assert [refused["code"] for refused in application.refused] == ["busy"] * 3

        def served() -> bool:
            with server.connect() as wire:
                return wire.get("/health").status == 200

        eventually(served)


def test_a_crowd_beyond_the_cap_is_turned_away_too() -> None:
    with (
        serving(FakeApplication(), bounds=Bounds(connections=1, linger_seconds=30)) as server,
        contextlib.ExitStack() as stack,
    ):
        first = stack.enter_context(server.connect())
        first.get("/health")
        crowd = [stack.enter_context(server.connect()) for _ in range(100)]
        assert [wire.answer().status for wire in crowd] == [503] * 100
        assert first.get("/health").status == 200


EXHAUSTED = """
import resource, socket, sys
sys.path[:0] = {path!r}
from tests.server.http.fakes import FakeApplication
from sandbox_server.http.reactor import Reactor
listener = socket.create_server(("127.0.0.1", 0), backlog=256)
application = FakeApplication()
reactor = Reactor(application, [listener])
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
print(listener.getsockname()[1], flush=True)
reactor.run()
"""


@pytest.fixture
def scarce() -> Iterator[tuple[int, int]]:
    """Port and pid of a server that may open 40 descriptors."""
    root = Path(__file__).resolve().parents[3]
    code = EXHAUSTED.format(path=[str(root), str(root / "server")])
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.field(139)
def test_field_139_out_of_descriptors_callers_are_turned_away_and_the_server_recovers(scarce: tuple[int, int]) -> None:
    port, pid = scarce
    with contextlib.ExitStack() as stack:
        wires = []
        for _ in range(200):
            wires.append(stack.enter_context(Wire(socket.create_connection(("127.0.0.1", port), timeout=60))))
        statuses = []
        for wire in wires:
            with contextlib.suppress(OSError):  # turned away already: the answer is there, the socket is closed
                wire.send(REQUEST)
            statuses.append(wire.answer().status)
        assert set(statuses) == {200, 503}
        assert 10 < statuses.count(200) < 40
        ticks = _ticks(pid)
        time.sleep(0.5)
        assert _ticks(pid) - ticks < 25  # a spinning thread would use fifty
        for wire, status in zip(wires, statuses, strict=True):
            if status == 200:
                assert wire.get("/health").status == 200

    def served() -> bool:
        with Wire(socket.create_connection(("127.0.0.1", port), timeout=60)) as wire:
            wire.send(REQUEST)
            return wire.answer().status == 200

    eventually(served)


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_accepting_pauses_when_not_even_the_spare_descriptor_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty:
        family = socket.AF_UNIX

        def __init__(self, descriptor: int) -> None:
            self.descriptor, self.fault = descriptor, 24

        def fileno(self) -> int:
            return self.descriptor

        def setblocking(self, flag: bool) -> None: ...

        def accept(self) -> tuple[socket.socket, object]:
            raise OSError(self.fault, "no")

        def close(self) -> None: ...

    with socket.socket(socket.AF_UNIX) as sock, select.epoll() as epoll:
        fake = Empty(sock.fileno())
        listeners = Listeners(epoll, [fake], lambda accepted: None)  # type: ignore[list-item]
        listeners.resume()
        assert list(listeners.accept(sock.fileno(), 100.0)) == []
        assert listeners.resume_at == pytest.approx(100.1)
        with pytest.raises(FileNotFoundError):
            epoll.modify(sock.fileno(), select.EPOLLIN)
        listeners.resume()
        epoll.modify(sock.fileno(), select.EPOLLIN)
        fake.fault = 103  # ECONNABORTED: that caller left, the next may not have
        assert list(listeners.accept(sock.fileno(), 100.0)) == []
        assert listeners.resume_at > 1e9
        listeners.close()
        assert sock.fileno() not in listeners


class Gate:
    """A route that answers when it is let."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, request: Request) -> Response:
        self.entered.release()
        assert self.go.wait(60)
        return json_response({"done": True})


def test_slow_requests_do_not_hold_up_quick_ones() -> None:
    gate = Gate()
    with serving(FakeApplication(gate=gate)) as server, contextlib.ExitStack() as stack:
        wires = [stack.enter_context(server.connect()) for _ in range(20)]
        for wire in wires:
            wire.send(REQUEST.replace(b"/health", b"/gate"))
        for _ in wires:
            assert gate.entered.acquire(timeout=60)
        with server.connect() as wire:
            assert wire.get("/health").status == 200
        gate.go.set()
        assert [wire.answer().json for wire in wires] == [{"done": True}] * 20


@pytest.mark.field(85)
def test_field_085_work_that_is_silent_for_longer_than_any_limit_is_not_idle() -> None:
    gate = Gate()
    short = Bounds(idle_seconds=0.5, head_seconds=0.5, write_seconds=0.1, idle_worker_seconds=0.1)
    with serving(FakeApplication(gate=gate), bounds=short) as server, server.connect() as working:
        working.send(REQUEST.replace(b"/health", b"/gate"))
        assert gate.entered.acquire(timeout=60)
        with server.connect() as idle:
            idle.get("/health")
            assert idle.closed()  # the limit has passed for one that only waits
        gate.go.set()
        assert working.answer().json == {"done": True}


def test_no_thread_to_be_had_is_an_honest_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    application = FakeApplication()
    with serving(application) as server, server.connect() as wire, server.connect() as other:
        assert wire.get("/health").status == 200

        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", refuse)
        answer = wire.post("/echo", b"body")
        assert (answer.status, answer.code) == (503, "busy")
        assert wire.closed()
        monkeypatch.undo()
        assert other.post("/echo", b"body").body == b"body"
    assert application.refused[0]["path"] == "/echo"


def test_stopping_lets_running_requests_finish_and_closes_the_rest() -> None:
    gate = Gate()
    announced = threading.Event()
    application = FakeApplication(gate=gate)
    with serving(application, on_stop=announced.set) as server:
        with server.connect() as busy, server.connect() as idle, server.connect() as partial:
            idle.get("/health")
            partial.send(b"GET /health HTTP/1.1\r\n")
            busy.send(REQUEST.replace(b"/health", b"/gate"))
            assert gate.entered.acquire(timeout=60)
            server.reactor.stop(20)
            assert idle.closed()
            assert announced.wait(60)
            with pytest.raises(ConnectionRefusedError):
                server.connect()
            partial.send(b"Host: localhost\r\n\r\n")
            assert partial.answer().fields["connection"] == "close"
            assert partial.closed()
            gate.go.set()
            answer = busy.answer()
            assert (answer.json, answer.fields["connection"]) == ({"done": True}, "close")
            assert busy.closed()
        server.thread.join(60)
        assert not server.thread.is_alive()


def test_stopping_cuts_what_does_not_finish_and_closes_its_response() -> None:
    def endless(request: Request) -> Response:
        def beat() -> Iterator[bytes]:
            while not request.peer.gone():
                yield b"beat"
                time.sleep(0.01)

        return Response(200, beat())

    application = FakeApplication(endless=endless)
    with serving(application) as server, server.connect() as wire:
        wire.send(REQUEST.replace(b"/health", b"/endless"))
        wire.head()
        server.reactor.stop(0.1)
        server.thread.join(60)
        assert not server.thread.is_alive()
        assert not wire.rest().endswith(b"0\r\n\r\n")
    assert application.closed == 1


def test_a_second_stop_shortens_the_grace() -> None:
    gate = Gate()
    with serving(FakeApplication(gate=gate)) as server, server.connect() as wire:
        wire.send(REQUEST.replace(b"/health", b"/gate"))
        assert gate.entered.acquire(timeout=60)
        server.reactor.stop(3600)
        server.reactor.stop(0)
        server.thread.join(60)
        assert not server.thread.is_alive()
        gate.go.set()
        assert wire.rest() == b""


def test_a_failing_stop_hook_does_not_keep_the_server(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise RuntimeError("hook")

    with serving(FakeApplication(), on_stop=fail) as server:
        server.reactor.stop()
        server.thread.join(60)
        assert not server.thread.is_alive()
    assert "hook" in capfd.readouterr().err


def test_nothing_is_left_open_after_a_stop(tmp_path: Path) -> None:
    before = descriptors()
    with serving(FakeApplication(), unix=tmp_path / "s") as server, server.connect() as wire:
        wire.get("/health")
        wire.post("/echo", b"x")
    eventually(lambda: descriptors() <= before)


def test_workers_are_reused_and_leave_when_idle() -> None:
    workers = Workers(idle_seconds=2)
    names: queue.Queue[int | None] = queue.Queue()

    def job() -> None:
        names.put(threading.get_ident())

    def fail() -> None:
        names.put(threading.get_ident())
        raise RuntimeError("job")

    before = threading.active_count()
    assert workers.submit(job)
    first = names.get(timeout=60)
    for again in (fail, job):
        eventually(lambda: workers._seats)  # it has sat down
        assert workers.submit(again)
        assert names.get(timeout=60) == first
    eventually(lambda: threading.active_count() <= before)


def test_as_many_workers_as_there_are_jobs() -> None:
    workers = Workers(idle_seconds=0.05)
    barrier = threading.Barrier(30)
    done = queue.Queue[int]()
    for round_number in range(20):
        for _ in range(30):
            assert workers.submit(lambda: done.put(barrier.wait(60)))
        while workers.grow_at < math.inf:
            time.sleep(max(0.0, workers.grow_at - time.monotonic()))
            workers.grow()
        assert sorted(done.get(timeout=60) for _ in range(30)) == list(range(30))
        if round_number % 5 == 0:
            time.sleep(0.06)  # about when the idle ones leave


def test_a_connection_given_back_by_a_worker_is_watched_again() -> None:
    application = FakeApplication()
    with serving(application, bounds=Bounds(stay_seconds=0)) as server, server.connect() as wire:
        for number in range(50):
            assert wire.post("/echo", b"%d" % number).body == b"%d" % number
            assert wire.get("/health").status == 200
