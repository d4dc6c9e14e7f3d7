"""A real server for the client's tests, shared by all; each test gets a directory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import ServerProcess, running_server


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("server")) as process:
        yield process


@pytest.fixture
def home(server: ServerProcess, request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A fresh directory in the sandbox, as seen from here; its name is its path as seen by the server."""
    directory = server.log.parent.parent / "base" / tmp_path.name
    directory.mkdir()
    return directory
