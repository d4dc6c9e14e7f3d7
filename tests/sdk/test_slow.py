"""Slow lines: what is waited for is the next sign of life, not the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from sandbox_sdk import ServerClient
from tests.support.server import ServerProcess


def test_an_upload_may_take_longer_than_the_timeout_while_bytes_keep_coming(server: ServerProcess, home: Path) -> None:
    def slowly() -> Iterator[bytes]:
        for _ in range(16):
            time.sleep(0.4)
            yield bytes(20_000)  # 50 kB a second

    with ServerClient(server.url, timeout=5) as client:
        receipt = client.files.write(f"{home.name}/f", slowly())
    assert receipt.bytes == (home / "f").stat().st_size == 320_000
