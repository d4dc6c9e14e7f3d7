from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.server import ServerProcess, running_server

from .harness import POLICY, Context


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("server"), policy=POLICY) as server:
        yield server


@pytest.fixture
def base(server: ServerProcess) -> Path:
    return server.log.parent.parent / "base"


@pytest.fixture
def context(server: ServerProcess) -> Iterator[Context]:
    context = Context(server)
    yield context
    context.delete()
