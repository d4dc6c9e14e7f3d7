"""A small web site on loopback, and what was asked of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FORM = """<!doctype html><title>Form</title><body><h1>Hello</h1>
<input id=name value=old><button id=go onclick="document.title='clicked ' + document.querySelector('#name').value;
console.log('went'); console.warn('careful')">go</button><div style="height:3000px"></div></body>"""


@dataclass
class Site:
    """Pages by path: a body, or a place to be sent on to. `asked` holds the paths in the order they came."""

    port: int = 0
    pages: dict[str, str] = field(default_factory=lambda: {"/form": FORM})
    moved: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def running_site() -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.asked.append(self.path)
            site.cookies.append(self.headers.get("cookie", ""))
            if self.path in site.moved:
                self._answer(302, b"", Location=site.moved[self.path])
            elif self.path in site.pages:
                self._answer(200, site.pages[self.path].encode(), **{"Set-Cookie": "seen=yes"})
            else:
                self._answer(404, b"<title>none</title>")

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers["content-length"]))
            site.asked.append(f"POST {self.path} {sent.decode()}")
            self._answer(200, b"<title>posted</title>")

        def _answer(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "text/html; charset=utf-8", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        site.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()
