"""Guards over a fresh directory, by both ways to open a path, which must behave alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from sandbox_server.access import PathRule
from sandbox_server.guards.openat2 import OpenAt2
from sandbox_server.guards.paths import PathGuard, PathGuards

#: A busy machine makes no example wrong.
STEADY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

GuardOf = Callable[..., PathGuard]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    directory = tmp_path / "base"
    directory.mkdir()
    return directory


@pytest.fixture(params=["openat2", "walk"])
def guards(request: pytest.FixtureRequest, base: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PathGuards]:
    if request.param == "walk":
        monkeypatch.setattr(OpenAt2, "works", lambda self, directory: False)
    made = PathGuards(str(base))
    yield made
    made.close()


@pytest.fixture
def guard_of(guards: PathGuards) -> GuardOf:
    """A guard for the rule with these fields."""

    def make(**rule: Any) -> PathGuard:
        for name in ("allow", "deny"):
            if rule.get(name) is not None:
                rule[name] = tuple(map(str, rule[name]))
        if "within" in rule:
            rule["within"] = tuple(tuple(map(str, paths)) for paths in rule["within"])
        return guards.of(PathRule(**rule))

    return make


@pytest.fixture
def guard(guard_of: GuardOf) -> PathGuard:
    return guard_of()


def open_below(directory: Path) -> list[str]:
    """What this process holds open there."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [path for path in found if path.startswith(str(directory))]


@pytest.fixture(autouse=True)
def no_descriptor_is_left_open(tmp_path: Path) -> Iterator[None]:
    yield
    assert open_below(tmp_path) == []


def scanned(guard: PathGuard, path: str = ".", *, ordered: bool = True, after: str = "") -> list[Any]:
    """Name, metadata and link text of what a listing of this directory shows."""
    with guard.locate(path, "read") as location:
        descriptor = location.open_directory()
        try:
            return list(location.scan(descriptor, ordered=ordered, after=after))
        finally:
            os.close(descriptor)


def shown(guard: PathGuard, path: str = ".") -> list[str]:
    """The names that a listing of this directory shows, in order."""
    return [name for name, _, _ in scanned(guard, path)]
