"""A machine of one's own for each test: a fresh place for boxes, which must be empty again afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox_sdk.sandbox.boxes import Boxes

SECONDS = 60.0


def eventually(condition: Callable[[], object]) -> bool:
    """True as soon as the condition holds; False when it never does."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def processes_with(word: str) -> list[int]:
    """The processes of this machine that have this word on their command line; zombies have none."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path("/proc", name, "cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in line:
                found.append(int(name))
    return found


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Where boxes lie during this test. Its path is short, because a socket's must be."""
    folder = tempfile.mkdtemp(prefix="m", dir="/tmp")
    os.chmod(folder, 0o755)
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr(tempfile, "tempdir", folder)
    boxes = Path(Boxes.of_this_user().path)
    yield boxes
    left = os.listdir(boxes)
    shutil.rmtree(folder, ignore_errors=True)
    assert left == []
    assert eventually(lambda: not processes_with(str(boxes)))
