"""A machine of one's own for each test: a fresh place for boxes, which must be empty again afterwards."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_sdk.sandbox.boxes import Boxes
from tests.support.ports import kernels_have_such_ports
from tests.support.processes import processes_with
from tests.support.waiting import eventually

kernels_have_such_ports()


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
    eventually(lambda: not processes_with(str(boxes)))
