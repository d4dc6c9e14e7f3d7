"""Thousands of requests without a token, at both ports: each is answered once, whatever became of its body."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

from tests.server.fuzz.conftest import seeded
from tests.server.fuzz.wire import Wire
from tests.support.effort import share
from tests.support.server import SYSTEM_PATH, running_server

STRANGERS = 8
REQUESTS = share(5_000)
LINES = ("GET /capabilities", "POST /shell", "POST /files/upload-stream?path=x", "GET /files/stat?path=.", "GET /no")
UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eHh4eA==\r\n"


def asked(random: Random, port: int) -> bytes:
    host = f"HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    if random.random() < 0.3:
        return f"GET /pty?session_id=x {host}{UPGRADE}\r\n".encode()
    body = random.randbytes(random.choice((0, 0, 1, 1000, 70_000, 200_000)))
    return f"{random.choice(LINES)} {host}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_who_may_not_ask_is_told_so_once_for_each_request(tmp_path: Path) -> None:
    environ = {"PATH": SYSTEM_PATH, "ABX_SERVER_TOKEN": "secret"}
    with running_server(tmp_path, environ=environ, allow_anonymous=False) as server:
        assert server.process.stdout is not None
        terminals = int(server.process.stdout.readline().rpartition(":")[2].partition("/")[0])

        def ask(number: int) -> Counter[int]:
            """Several requests on each connection, some in two pieces; then the end, after which nothing comes."""
            random, seen = seeded(number), Counter[int]()
            while seen.total() < REQUESTS // STRANGERS:
                port = random.choice((server.port, terminals))
                wire = Wire(port)
                for _ in range(random.randrange(1, 6)):
                    data = asked(random, port)
                    cut = random.randrange(len(data)) if random.random() < 0.3 else 0
                    seen[wire.ask(data, cut=cut).status] += 1
                    if not wire.open:
                        break
                else:
                    assert wire.all(b"") == []
                wire.close()
            return seen

        with ThreadPoolExecutor(STRANGERS) as pool:
            seen = sum(pool.map(ask, range(STRANGERS)), Counter())
    assert set(seen) == {401}
