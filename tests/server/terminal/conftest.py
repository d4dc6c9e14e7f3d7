from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import Reply, ServerProcess, running_server
from tests.support.websocket import WebSocketClient


@dataclass
class Place:
    """A running server, and short ways to its terminals."""

    server: ServerProcess
    headers: Mapping[str, str]

    def open(self, shell: str = "/bin/sh", headers: Mapping[str, str] | None = None, **fields: Any) -> str:
        """The id of a new terminal."""
        reply = self.try_open(shell, headers, **fields)
        assert reply.status == 200, reply.body
        return str(reply.json()["session_id"])

    def try_open(self, shell: str = "/bin/sh", headers: Mapping[str, str] | None = None, **fields: Any) -> Reply:
        body = {"shell": shell, **fields}
        return self.server.request("POST", "/pty/sessions", body, self.headers if headers is None else headers)

    def detail(self, id: str) -> Any:
        reply = self.server.request("GET", f"/pty/sessions/{id}", headers=self.headers)
        assert reply.status == 200, reply.body
        return reply.json()

    def close(self, id: str) -> Reply:
        return self.server.request("DELETE", f"/pty/sessions/{id}", headers=self.headers)

    def connect(self, id: str, query: str = "", headers: Mapping[str, str] | None = None) -> WebSocketClient:
        target = f"/pty?session_id={id}{query}"
        address = ("127.0.0.1", self.server.port)
        return WebSocketClient(address, target, self.headers if headers is None else headers)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server for everybody who calls; each test closes what it opens."""
    with running_server(tmp_path_factory.mktemp("terminals")) as server:
        yield Place(server, {})


@pytest.fixture(autouse=True)
def _nothing_left_open(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "place" in request.fixturenames:
        place: Place = request.getfixturevalue("place")
        for session in place.server.request("GET", "/pty/sessions").json()["sessions"]:
            assert place.close(session["id"]).status == 200


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path
