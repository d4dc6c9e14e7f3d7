"""Servers whose policies confine what they run, on the real kernel."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import ServerProcess, running_server

Start = Callable[..., "House"]


class House:
    """A server, a directory that its rules allow, and one that they do not."""

    def __init__(self, server: ServerProcess, data: Path, outside: Path) -> None:
        self.server = server
        self.data = data
        self.outside = outside

    def run(self, command: str, token: str = "", **more: Any) -> dict[str, Any]:
        """What `shell` answers; it must answer."""
        answer = self.server.request("POST", "/shell", {"command": command, **more}, bearer(token))
        assert answer.status == 200, answer.body
        told: dict[str, Any] = answer.json()
        return told

    def python(self, code: str, token: str = "", **more: Any) -> dict[str, Any]:
        # without `site`, which measures coverage where that is asked for: a confined child can write no data file
        return self.run(f"{sys.executable} -I -S -c {quote(code)}", token, **more)


def quote(text: str) -> str:
    return "'" + text.replace("'", "'\"'\"'") + "'"


def bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"} if token else {}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a server; in the policy ``DATA``, ``BASE`` and ``OUTSIDE`` stand for the directories."""
    data, outside, base = tmp_path / "data", tmp_path / "outside", tmp_path / "base"
    for directory in (data, outside, base, outside / "made"):
        directory.mkdir()
    (data / "own").write_text("own")
    (outside / "secret").write_text("TOP SECRET")
    with ExitStack() as stack:

        def begin(policy: Mapping[str, Any], **options: Any) -> House:
            text = json.dumps(policy)
            for name, directory in (("DATA", data), ("OUTSIDE", outside), ("BASE", base)):
                text = text.replace(f'"{name}', f'"{directory}')
            return House(
                stack.enter_context(running_server(tmp_path, policy=json.loads(text), **options)), data, outside
            )

        yield begin
