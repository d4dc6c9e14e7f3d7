"""Broken requests by the thousand: each is answered, none by a fault, and the server goes on."""

from __future__ import annotations

import random
import socket
from pathlib import Path

import pytest

from .fakes import FakeApplication, Wire, file_response, serving
from .test_exchange import stream

GOOD = [
    b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /stream?a=%20b&c=+ HTTP/1.1\r\nHost: 127.0.0.1:9000\r\nAccept: */*\r\n\r\n",
    b"GET /file HTTP/1.0\r\n\r\n",
    b"POST /echo HTTP/1.1\r\nHost: [::1]:9000\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello",
    b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 005\r\nExpect: 100-continue\r\n\r\nhello",
    b"POST /health HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 5\r\n\r\nhello",
]
PIECES = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"%",
    b"#",
    b"?",
    b"\xff",
    b"9",
    b"-",
    b"HTTP/",
    b",",
]


def mutated(chance: random.Random) -> bytes:
    data = bytearray(b"".join(chance.choices(GOOD, k=chance.randint(1, 3))))
    for _ in range(chance.randint(1, 5)):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[place:place] = chance.choice(PIECES)
            case 1:
                data[place : place + 1] = chance.choice(PIECES)
            case 2:
                del data[place : place + chance.randint(1, 10)]
            case 3:
                data[place:place] = data[place : place + chance.randint(1, 30)]
            case _:
                data[place : place + 1] = bytes([chance.randrange(256)])
    return bytes(data) or b"\n"


@pytest.mark.finding("R2-S3")
def test_no_broken_request_is_dropped_without_an_answer_or_answered_by_a_fault(
    capfd: pytest.CaptureFixture[str],
) -> None:
    application = FakeApplication(stream=stream, file=lambda _: file_response(Path(__file__)))
    application.quick = lambda method, path: path in ("/health", "/file")  # type: ignore[method-assign]
    chance = random.Random(20240607)
    seen: set[int] = set()
    with serving(application) as server:
        for _ in range(4000):
            data = mutated(chance)
            with server.connect() as wire:
                wire.send(data)
                wire.sock.shutdown(socket.SHUT_WR)
                statuses = answers(wire, data)
            seen.update(statuses)
            assert statuses, data
            assert all(status < 500 or status == 505 for status in statuses), data
            assert b"HTTP/1.1" not in wire.buffer
        with server.connect() as wire:
            assert wire.get("/health").status == 200
    assert {200, 400, 403, 404, 421, 505} <= seen
    assert capfd.readouterr().err == ""


def answers(wire: Wire, data: bytes) -> list[int]:
    """The statuses of all answers until the server closes."""
    found = []
    method = data.lstrip(b"\r\n").partition(b" ")[0].decode("latin-1")
    while wire.buffer or wire.fill():
        answer = wire.answer(method)
        if answer.status != 100:
            found.append(answer.status)
    return found
