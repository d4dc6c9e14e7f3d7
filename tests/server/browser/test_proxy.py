"""The proxy between the browser and the network: what it connects to, and what it passes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sandbox_server.browser.proxy import Proxy
from sandbox_server.guards.urls import UrlGuard

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Far:
    """A server that keeps what it got to the end of each connection, and answers one line to the first of it."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.callers = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.callers += 1
        data = await reader.read(1000)
        while data.startswith(b"POST ") and not data.partition(b"\r\n\r\n")[2]:
            data += await reader.read(1000)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        writer.write_eof()
        self.got.append(data + await reader.read())
        writer.close()


async def ask(proxy: Proxy, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 30)
    except ConnectionError:
        return b""
    finally:
        writer.close()


def exchange(guard: UrlGuard, data: Callable[[int], bytes]) -> tuple[bytes, list[bytes]]:
    """What the proxy answers to bytes made for the far server's port, and what that server got."""

    async def run() -> tuple[bytes, list[bytes]]:
        far = Far()
        server = await asyncio.start_server(far.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        proxy = Proxy(guard)
        await proxy.start()
        try:
            answer = await ask(proxy, data(port))
            while len(far.got) < far.callers:
                await asyncio.sleep(0.01)
            return answer, far.got
        finally:
            await proxy.close()
            server.close()

    return asyncio.run(run())


def opened() -> UrlGuard:
    return UrlGuard(("http://a.example:*", "https://a.example:*"), (), False, lambda host, port: ["127.0.0.1"])


def closed() -> UrlGuard:
    return UrlGuard(resolve=lambda host, port: ["127.0.0.1"])


def test_a_plain_request_goes_on_in_origin_form_on_a_connection_of_its_own() -> None:
    answer, got = exchange(
        opened(),
        lambda port: (
            f"POST http://a.example:{port}/x?y#z HTTP/1.1\r\nHost: a.example:{port}\r\nProxy-Connection: keep-alive\r\n"
            "Connection: keep-alive\r\nContent-Length: 4\r\n\r\nbodyGET http://a.example/next HTTP/1.1\r\n\r\n"
        ).encode(),
    )
    assert answer.endswith(b"\r\n\r\nhi")
    head, _, body = got[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /x?y HTTP/1.1\r\nConnection: close\r\nHost: a.example:")
    assert body == b"body"  # and nothing of what came behind it
    assert b"eep-alive" not in head


def test_a_tunnel_passes_bytes_both_ways() -> None:
    answer, got = exchange(opened(), lambda port: f"CONNECT a.example:{port} HTTP/1.1\r\n\r\nraw bytes".encode())
    assert got == [b"raw bytes"]
    assert answer.startswith(b"HTTP/1.1 200 Connected\r\n\r\n") and answer.endswith(b"hi")


@pytest.mark.parametrize(
    "request_line",
    [
        "GET http://rebound.example:PORT/", "CONNECT rebound.example:PORT", "GET http://127.0.0.1:PORT/",
        "CONNECT 127.0.0.1:PORT",
        "CONNECT localhost:PORT", "CONNECT [::1]:PORT", "GET https://rebound.example:PORT/", "GET /", "CONNECT x",
        "CONNECT x:y:z",
        "GET", "", "CONNECT rebound.example:99999999", "GET http://127.0.0.1:PORT@rebound.example/",
    ],
)  # fmt: skip
def test_what_leads_to_a_private_address_or_nowhere_ends_without_an_answer(request_line: str) -> None:
    answer, got = exchange(
        closed(), lambda port: f"{request_line.replace('PORT', str(port))} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    )
    assert (answer, got) == (b"", [])


def test_an_endless_head_is_not_read_to_its_end() -> None:
    answer, got = exchange(opened(), lambda port: b"GET http://a.example/ HTTP/1.1\r\nX: " + b"x" * 200_000)
    assert (answer, got) == (b"", [])
