"""Request bodies: every byte arrives, by every way, and one that stops short is told from one that vanished."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from sandbox_server.http import body as body_module
from sandbox_server.http.body import WireBody
from sandbox_server.http.bounds import KIB, MIB, ONE_PIECE, Bounds
from sandbox_server.messages import Aborted, Refusal
from tests.support.waiting import eventually

EDGES = sorted(
    {0, 1, 4096}
    | {base + step for base in (16 * KIB, ONE_PIECE, MIB // 4, MIB, 2 * MIB) for step in (-1, 0, 1)}
    | {3 * MIB + 12345}
)
SHORT = Bounds(body_seconds=0.3, body_rate=1000, drain_seconds=0.3)


def content(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        return listener.accept()[0], client


@pytest.fixture(params=["tcp", "unix"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    server, client = tcp_pair() if request.param == "tcp" else socket.socketpair()
    with server, client:
        yield server, client


def impatient(sock: socket.socket, seconds: float = 0.05) -> None:
    """The receive timeout that a connection gives its socket."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 0, int(seconds * 1_000_000)))


@contextlib.contextmanager
def sending(client: socket.socket, data: bytes) -> Iterator[None]:
    thread = threading.Thread(target=client.sendall, args=(data,))
    thread.start()
    yield
    thread.join(60)
    assert not thread.is_alive()


@contextlib.contextmanager
def target(tmp_path: Path, flags: int = 0) -> Iterator[int]:
    descriptor = os.open(tmp_path / "target", os.O_RDWR | os.O_CREAT | flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize("first", [0, 1, 5000])
def test_a_body_is_copied_byte_for_byte(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path, size: int, first: int
) -> None:
    server, client = pair
    data, first = content(size), min(first, size)
    with target(tmp_path) as descriptor, sending(client, data[first:] + b"next request"):
        body = WireBody(server, Bounds(), size, data[:first])
        assert body.length == size
        assert body.copy_to(descriptor) == size
        assert body.left == 0
        assert server.recv(100) == b"next request"
    assert (tmp_path / "target").read_bytes() == data


@pytest.mark.parametrize("size", EDGES)
def test_a_body_is_read_whole(pair: tuple[socket.socket, socket.socket], size: int) -> None:
    server, client = pair
    data, first = content(size), min(100, size)
    with sending(client, data[first:] + b"next"):
        body = WireBody(server, Bounds(), size, data[:first])
        assert body.read() == data
        assert body.read() == b""
        assert server.recv(100) == b"next"


def test_a_body_comes_in_chunks(pair: tuple[socket.socket, socket.socket]) -> None:
    server, client = pair
    data = content(2 * MIB)
    with sending(client, data[3:]):
        chunks = list(WireBody(server, Bounds(), len(data), data[:3]).chunks())
    assert b"".join(chunks) == data
    assert chunks[0] == data[:3]
    assert all(chunks)


@pytest.mark.parametrize("way", ["spliced", "read"])
def test_a_body_is_broken_off_while_somebody_waits_for_it(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "read":
        monkeypatch.setattr(body_module, "_wide_pipe", lambda: None)
    server, client = pair
    ends: list[type[Exception]] = []
    with target(tmp_path) as descriptor:
        body = WireBody(server, Bounds(), 2 * MIB, b"first")

        def copy() -> None:
            try:
                body.copy_to(descriptor)
            except Exception as error:
                ends.append(type(error))

        reader = threading.Thread(target=copy)
        client.sendall(b"sent")
        reader.start()
        eventually(lambda: os.fstat(descriptor).st_size >= len(b"first"))
        body.break_off()
        reader.join(60)
        assert (ends, body.aborted) == ([Aborted], True)
        arrived = os.fstat(descriptor).st_size
        assert arrived == body.length - body.left
        with contextlib.suppress(OSError):  # a Unix socket tells the sender at once
            client.sendall(b"more")
        with pytest.raises(Aborted):
            body.copy_to(descriptor)
        assert os.fstat(descriptor).st_size == arrived


def test_a_body_that_has_come_is_not_broken_off(pair: tuple[socket.socket, socket.socket]) -> None:
    server, client = pair
    client.sendall(b"body")
    body = WireBody(server, Bounds(), 4)
    assert body.read() == b"body"
    body.break_off()
    client.sendall(b"next request")
    assert server.recv(100) == b"next request"


def test_a_file_that_takes_no_splice_is_written_all_the_same(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    server, client = pair
    data = content(2 * MIB + 7)
    (tmp_path / "target").write_bytes(b"before ")
    with target(tmp_path, os.O_APPEND) as descriptor, sending(client, data):
        assert WireBody(server, Bounds(), len(data)).copy_to(descriptor) == len(data)
    assert (tmp_path / "target").read_bytes() == b"before " + data


@pytest.mark.parametrize("missing", ["splice", "pipe", "wide pipe", "splice from sockets"])
def test_a_body_is_copied_where_the_kernel_cannot_splice(
    pair: tuple[socket.socket, socket.socket], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE if missing == "pipe" else errno.EPERM, "no")

    if missing == "splice":
        monkeypatch.delattr(os, "splice")
    elif missing == "pipe":
        monkeypatch.setattr(os, "pipe", refuse)
    elif missing == "wide pipe":
        monkeypatch.setattr(fcntl, "fcntl", refuse)
    else:
        monkeypatch.setattr(os, "splice", refuse)
    open_before = len(os.listdir("/proc/self/fd"))
    server, client = pair
    data = content(2 * MIB + 7)
    with target(tmp_path) as descriptor, sending(client, data):
        assert WireBody(server, Bounds(), len(data)).copy_to(descriptor) == len(data)
    assert (tmp_path / "target").read_bytes() == data
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_a_full_disk_is_the_callers_affair_and_the_rest_can_still_be_dropped(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, client = pair
    data = content(2 * MIB)
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        with sending(client, data):
            body = WireBody(server, Bounds(drain_bytes=2 * MIB), len(data))
            monkeypatch.delattr(os, "splice")
            with pytest.raises(OSError) as caught:
                body.copy_to(full)
            assert caught.value.errno == errno.ENOSPC
            assert not isinstance(caught.value, Aborted)
            assert 0 < body.left < len(data)
            assert body.drain()
    finally:
        os.close(full)


def test_a_reader_closed_by_a_half_body_is_refused_with_the_count(pair: tuple[socket.socket, socket.socket]) -> None:
    server, client = pair
    client.sendall(b"{")
    client.shutdown(socket.SHUT_WR)
    with pytest.raises(Refusal) as caught:
        WireBody(server, Bounds(), 50).read()
    assert caught.value.code == "bad_request"
    assert "1 of 50" in caught.value.message


def test_a_peer_that_resets_aborts(tmp_path: Path) -> None:
    server, client = tcp_pair()
    with server, target(tmp_path) as descriptor:
        client.sendall(b"some")
        assert server.recv(4) == b"some"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
        client.close()
        body = WireBody(server, Bounds(), 3 * MIB, b"some")
        with pytest.raises(Aborted):
            body.copy_to(descriptor)
        assert body.aborted


@pytest.mark.parametrize("way", ["read", "copy_to"])
def test_a_silent_peer_is_refused_after_the_window(way: str, tmp_path: Path) -> None:
    server, client = tcp_pair()
    with server, client, target(tmp_path) as descriptor:
        impatient(server)
        body = WireBody(server, SHORT, 3 * MIB, b"first")
        with pytest.raises(Refusal) as caught:
            body.read() if way == "read" else body.copy_to(descriptor)
        assert caught.value.code == "timeout"
        assert not body.aborted


class Paced:
    """Stands for a socket to which so many bytes come every 20 ms, by a clock of its own."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def recv_into(self, buffer: memoryview) -> int:
        self.now += 0.02
        count = min(self.count, len(buffer))
        buffer[:count] = b"x" * count
        return count


@pytest.mark.parametrize(("count", "seconds"), [(1, 0.3), (19, 0.3), (21, None), (200, None)])
def test_a_trickling_peer_is_refused_and_a_steady_one_is_not(
    count: int, seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = Paced(count)
    monkeypatch.setattr(body_module, "time", peer)
    body = WireBody(cast(socket.socket, peer), SHORT, 8000)
    if seconds is None:
        assert body.read() == b"x" * 8000
    else:
        with pytest.raises(Refusal) as caught:
            body.read()
        assert (caught.value.code, peer.now) == ("timeout", pytest.approx(seconds, abs=0.021))


def test_continue_is_said_once_and_only_when_the_body_is_wanted() -> None:
    server, client = socket.socketpair()
    with server, client:
        body = WireBody(server, Bounds(), 4, b"", True)
        assert body.withheld
        assert not body.drain()
        client.sendall(b"data")
        assert body.read() == b"data"
        assert not body.withheld
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert not WireBody(server, Bounds(), 4, b"data", True).withheld
        assert not WireBody(server, Bounds(), 0, b"", True).withheld


def test_continue_to_a_peer_that_is_gone_aborts() -> None:
    server, client = socket.socketpair()
    client.close()
    with server:
        body = WireBody(server, Bounds(), 4, b"", True)
        with pytest.raises(Aborted):
            body.read()
        assert body.aborted


def test_an_interim_response_goes_out_before_the_body_to_a_peer_that_understands_it() -> None:
    server, client = socket.socketpair()
    with server, client:
        body = WireBody(server, Bounds(), 4, b"", True, True)
        assert body.inform(104, "Told", [("Location", "/here"), ("X", "y")])
        assert body.withheld
        client.sendall(b"data")
        assert body.read() == b"data"
        assert client.recv(200) == (
            b"HTTP/1.1 104 Told\r\nLocation: /here\r\nX: y\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
        )
        assert not WireBody(server, Bounds(), 4).inform(104, "Told", [])
        client.close()
        gone = WireBody(server, Bounds(), 4, informs=True)
        with pytest.raises(Aborted):
            gone.inform(104, "Told", [])
        assert gone.aborted


def test_an_unread_body_is_dropped_when_it_is_small_and_there() -> None:
    server, client = socket.socketpair()
    with server, client, sending(client, b"x" * 200_000 + b"next"):
        assert WireBody(server, Bounds(), 200_100, b"x" * 100).drain()
        assert server.recv(10) == b"next"
        assert not WireBody(server, Bounds(), 256 * KIB + 1).drain()
        assert not WireBody(server, SHORT, 10).drain()
        client.shutdown(socket.SHUT_WR)
        assert not WireBody(server, Bounds(), 10).drain()


def test_short_writes_are_continued(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = os.write
    monkeypatch.setattr(body_module.os, "write", lambda fd, data: real(fd, bytes(data[:7])))
    server, client = socket.socketpair()
    data = content(1000)
    with server, client, target(tmp_path) as descriptor, sending(client, data[10:]):
        WireBody(server, Bounds(), len(data), data[:10]).copy_to(descriptor)
    assert (tmp_path / "target").read_bytes() == data
