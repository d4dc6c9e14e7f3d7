"""Guards over a fresh directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_server.guards.paths import PathGuards


@pytest.fixture
def base(tmp_path: Path) -> Path:
    directory = tmp_path / "base"
    directory.mkdir()
    return directory


@pytest.fixture(params=["openat2", "walk"])
def guards(request: pytest.FixtureRequest, base: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PathGuards]:
    """Both ways to open a path must behave alike."""
    if request.param == "walk":
        monkeypatch.setattr("sandbox_server.guards.openat2.OpenAt2.works", lambda self, directory: False)
    made = PathGuards(str(base))
    yield made
    made.close()
