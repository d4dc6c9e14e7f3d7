"""Large, endless and broken answers: bytes, files and streams arrive whole or are seen to be cut, and nothing leaks."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandbox_server.http import writer
from sandbox_server.http.bounds import KIB, MIB, ONE_PIECE, Bounds
from sandbox_server.messages import Aborted, FileSlice, Refusal, Request, Response
from tests.support.waiting import eventually

from .fakes import FakeApplication, Wire, file_response, serving

EDGES = sorted(
    {0, 1, 4096, ONE_PIECE - 1, ONE_PIECE, ONE_PIECE + 1, MIB - 1, MIB, MIB + 1, 5 * MIB + 321}
    | {16 * KIB - 1, 16 * KIB + 1}
)


def content(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


class Quick(FakeApplication):
    """Tries everything on the selector thread."""

    def quick(self, method: str, path: str) -> bool:
        return True


@pytest.mark.parametrize("application_type", [FakeApplication, Quick])
@pytest.mark.parametrize("size", EDGES)
def test_bytes_and_files_of_every_size_arrive_whole(
    tmp_path: Path, application_type: type[FakeApplication], size: int
) -> None:
    data = content(size)
    path = tmp_path / "file"
    path.write_bytes(data)
    application = application_type(
        bytes=lambda _: Response(200, data),
        file=lambda _: file_response(path),
        part=lambda _: file_response(path, size // 3, size // 2),
        stream=lambda _: Response(200, iter([data, data])),
    )
    with serving(application) as server:
        with server.connect() as wire:
            for _ in range(2):
                assert wire.get("/bytes").body == data
                assert (answer := wire.get("/file")).body == data
                assert answer.fields["content-length"] == str(size)
                assert wire.get("/part").body == data[size // 3 : size // 3 + size // 2]
                assert wire.get("/stream").body == data * 2
            before = descriptors()
            wire.get("/file")
            wire.get("/bytes")
            assert descriptors() == before
        if size:
            with server.connect() as wire:
                wire.send(b"GET /bytes HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
                assert [wire.answer().body == data for _ in range(3)] == [True] * 3


def test_a_pipelining_client_that_does_not_read_is_waited_for(tmp_path: Path) -> None:
    data = content(60_000)
    with serving(Quick(bytes=lambda _: Response(200, data))) as server, server.connect() as wire:
        wire.send(b"GET /bytes HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200)
        with server.connect() as other:
            assert other.get("/health").status == 200
        assert [wire.answer().body == data for _ in range(200)] == [True] * 200


def test_a_file_that_shrinks_is_seen_to_be_cut(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content(MIB))
    application = FakeApplication(
        file=lambda _: file_response(path, 0, MIB + 1), small=lambda _: file_response(path, MIB - 100, 200)
    )
    with serving(application) as server:
        with server.connect() as wire:
            wire.send(b"GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.head().fields["content-length"] == str(MIB + 1)
            assert wire.rest() == content(MIB)
        with server.connect() as wire:
            assert wire.get("/small").body == content(MIB)[-100:]
        eventually(lambda: application.closed == 2)


def test_a_file_that_takes_no_sendfile_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EINVAL, "no")

    monkeypatch.setattr(os, "sendfile", refuse)
    path = tmp_path / "file"
    path.write_bytes(content(MIB))
    with serving(FakeApplication(file=lambda _: file_response(path))) as server, server.connect() as wire:
        assert wire.get("/file").body == content(MIB)


def test_a_file_that_cannot_be_read_at_once_goes_to_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise BlockingIOError(errno.EAGAIN, "not cached")

    monkeypatch.setattr(os, "preadv", refuse)
    path = tmp_path / "file"
    path.write_bytes(b"content")
    with serving(Quick(file=lambda _: file_response(path))) as server, server.connect() as wire:
        assert wire.get("/file").body == b"content"


def test_a_descriptor_that_fails_aborts_and_is_closed(tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    server, client = socket.socketpair()
    with server, client, pytest.raises(Aborted):
        writer.send(server, Response(200, FileSlice(directory, 0, 5)), close=False, bodiless=False, patience=15)
    os.close(directory)


class Watched:
    """A stream that tells how it ended."""

    def __init__(self, chunk: bytes, count: int = 1 << 60, fault: Exception | None = None) -> None:
        self.chunk, self.count, self.fault = chunk, count, fault
        self.ended = ""
        self.sent = 0

    def __iter__(self) -> Iterator[bytes]:
        try:
            while self.sent < self.count:
                self.sent += 1
                yield self.chunk
            if self.fault:
                raise self.fault
            self.ended = "finished"
        except GeneratorExit:
            self.ended = "closed"
            raise
        except Exception:
            self.ended = "failed"
            raise


def test_a_stream_is_closed_when_its_reader_leaves() -> None:
    watched = Watched(b"x" * 1000)
    application = FakeApplication(stream=lambda _: Response(200, iter(watched)))
    with serving(application) as server:
        with server.connect() as wire:
            wire.send(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert wire.head().status == 200
        eventually(lambda: application.closed == 1)
    assert watched.ended == "closed"


def test_an_iterable_is_closed_as_well_as_an_iterator() -> None:
    watched = Watched(b"x" * 1000)
    application = FakeApplication(stream=lambda _: Response(200, watched))
    with serving(application) as server:
        with server.connect() as wire:
            wire.send(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wire.head()
        eventually(lambda: watched.ended == "closed")


@pytest.mark.parametrize("fault", [Aborted(), Refusal("busy", "no"), OSError(5, "io"), RuntimeError("bug")])
def test_a_stream_that_fails_never_looks_complete(fault: Exception, capfd: pytest.CaptureFixture[str]) -> None:
    watched = Watched(b"chunk", 3, fault)
    application = FakeApplication(stream=lambda _: Response(200, iter(watched)))
    with serving(application) as server:
        with server.connect() as wire:
            wire.send(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wire.head()
            assert wire.rest() == b"5\r\nchunk\r\n" * 3
        with server.connect() as wire:
            assert wire.get("/health").status == 200
        eventually(lambda: application.closed >= 1)
    assert watched.ended == "failed"
    assert ("Traceback" in capfd.readouterr().err) is not isinstance(fault, Aborted)


def test_faults_while_closing_do_not_stop_the_server(capfd: pytest.CaptureFixture[str]) -> None:
    class Bad:
        def __iter__(self) -> Iterator[bytes]:
            return iter([b"x"])

        def close(self) -> None:
            raise RuntimeError("closing the stream")

    def fail() -> None:
        raise RuntimeError("closing the response")

    application = FakeApplication(stream=lambda _: Response(200, Bad(), on_close=[fail]))
    with serving(application) as server, server.connect() as wire:
        assert wire.get("/stream").body == b"x"
        assert wire.get("/stream").body == b"x"
        assert application.closed == 2 or wire.get("/health").status == 200
    errors = capfd.readouterr().err
    assert "closing the stream" in errors
    assert "closing the response" in errors


def small_windows(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


def slow_wire(port: int) -> Wire:
    sock = socket.socket()
    small_windows(sock)
    sock.settimeout(60)
    sock.connect(("127.0.0.1", port))
    return Wire(sock)


@pytest.mark.parametrize("path", ["/bytes", "/file"])
def test_a_reader_that_stops_is_given_up(tmp_path: Path, path: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 20 * MIB)
    application = FakeApplication(bytes=lambda _: Response(200, b"x" * 20 * MIB), file=lambda _: file_response(file))
    with serving(application, bounds=Bounds(write_seconds=0.2)) as server, slow_wire(server.port) as wire:
        wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        eventually(lambda: application.closed == 1)
        assert len(wire.rest()) < 20 * MIB


@pytest.mark.parametrize("path", ["/bytes", "/file"])
def test_a_slow_reader_is_no_reader_that_stops(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    passed = [0.0]  # on the clock of the writer, which goes on only while somebody reads
    monkeypatch.setattr(writer, "time", SimpleNamespace(**{**vars(time), "monotonic": lambda: passed[0]}))
    file = tmp_path / "file"
    file.write_bytes(b"x" * 4 * MIB)
    application = FakeApplication(bytes=lambda _: Response(200, b"x" * 4 * MIB), file=lambda _: file_response(file))
    with serving(application, bounds=Bounds(write_seconds=0.5)) as server, slow_wire(server.port) as wire:
        wire.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        count = 0
        for _ in range(40):  # several write deadlines, and not enough to make room in the server's buffer
            count += len(wire.sock.recv(64 * KIB))
            passed[0] += 0.3
            time.sleep(0.05)
        while data := wire.sock.recv(64 * KIB):
            count += len(data)
    assert count > 4 * MIB


@pytest.mark.field(62)
def test_field_062_a_stream_waits_for_a_slow_reader_and_loses_nothing() -> None:
    watched = Watched(b"x" * 100_000, 200)
    application = FakeApplication(stream=lambda _: Response(200, iter(watched)))
    with serving(application, bounds=Bounds(write_seconds=0.05)) as server, slow_wire(server.port) as wire:
        wire.send(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
        stuck = -1
        while stuck != watched.sent or not watched.sent:
            stuck = watched.sent
            time.sleep(0.3)  # several write deadlines
        assert watched.sent < 200
        assert len(wire.answer().body) == 200 * 100_000
        assert watched.ended == "finished"


def test_a_silent_stream_ends_when_its_handler_sees_the_peer_leave() -> None:
    left = threading.Event()

    def watch(request: Request) -> Response:
        assert request.peer.fileno() >= 0
        assert not request.peer.gone()

        def wait() -> Iterator[bytes]:
            yield b"ready"
            eventually(request.peer.gone)
            left.set()

        return Response(200, wait())

    application = FakeApplication(watch=watch)
    with serving(application) as server:
        with server.connect() as wire:
            wire.send(b"GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wire.head()
            assert wire.exactly(10) == b"5\r\nready\r\n"
        assert left.wait(60)
        eventually(lambda: application.closed == 1)
        assert application.seen[0].peer.gone()


def test_an_upload_whose_sender_vanishes_is_aborted_and_unanswered(tmp_path: Path) -> None:
    def upload(request: Request) -> Response:
        with (tmp_path / "target").open("wb") as file:
            return Response(200, b"%d" % request.body.copy_to(file.fileno()))

    application = FakeApplication(upload=upload)
    with serving(application) as server:
        with server.connect() as wire:
            wire.send(b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n" + b"x" * 1_000_000)
            eventually(lambda: (tmp_path / "target").exists() and (tmp_path / "target").stat().st_size > 500_000)
            wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
        eventually(lambda: application.closed == 1)
        assert application.aborted == 1
        with server.connect() as wire:
            data = content(3 * MIB + 1)
            assert wire.post("/upload", data).body == str(len(data)).encode()
            assert (tmp_path / "target").read_bytes() == data
            assert wire.get("/health").status == 200


def test_a_response_is_closed_in_reverse_order_and_once() -> None:
    order: list[int] = []
    response = Response(200, b"x", on_close=[lambda: order.append(1), lambda: order.append(2)])
    server, client = socket.socketpair()
    with contextlib.closing(server), contextlib.closing(client):
        writer.send(server, response, close=True, bodiless=False, patience=15)
    writer.finish(response)
    writer.finish(response)
    assert order == [2, 1]


@pytest.mark.parametrize("size", [0, 1, ONE_PIECE, ONE_PIECE + 1])
@pytest.mark.parametrize("kind", ["bytes", "file", "head"])
def test_it_is_told_before_the_last_bytes_go_out(kind: str, size: int, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(content(size))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        early: list[bytes] = []

        def arrived() -> None:
            with contextlib.suppress(BlockingIOError):
                while True:
                    early.append(theirs.recv(1 << 20))

        body = FileSlice(os.open(file, os.O_RDONLY), 0, size) if kind == "file" else content(size)
        marks: list[int] = []

        def tell() -> None:
            arrived()
            marks.append(len(early))

        response = Response(200, body, before_end=tell)
        writer.send(ours, response, close=True, bodiless=kind == "head", patience=15)
        arrived()
        writer.finish(response)
    (mark,) = marks
    assert early[mark:]  # something came after it was told
    assert b"".join(early).endswith(b"\r\n\r\n" if kind == "head" else content(size))
