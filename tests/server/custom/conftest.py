"""Servers with commands and endpoints of their own, without sockets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.server.core.harness import House


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "base"
    base.mkdir()
    return base


@pytest.fixture
def house(base: Path, tmp_path: Path) -> Iterator[Callable[..., House]]:
    """Makes servers without sockets: `house(policy, commands=…, routes=…)`."""
    state = tmp_path / "state"
    state.mkdir()
    with ExitStack() as stack:

        def make(policy: dict[str, Any] | None = None, **more: Any) -> House:
            made = House(base, state, policy or {}, **more)
            stack.callback(made.close)
            return made

        yield make
