"""One terminal in this process, where the order of what its supervisor hears can be chosen."""

from __future__ import annotations

import os
from pathlib import Path

from sandbox_server.process.spawn import Launch
from sandbox_server.process.table import ProcessTable
from sandbox_server.terminal.session import REPLAY_BYTES
from sandbox_server.terminal.table import Terminals


class Stalled:
    """A viewer that has read nothing yet."""

    position = 0

    def rouse(self) -> None: ...

    def dismiss(self, code: int, reason: str) -> None: ...


def test_output_that_is_heard_of_together_with_the_end_and_after_it_is_no_fault(tmp_path: Path) -> None:
    processes = ProcessTable()
    cwd = os.open(tmp_path, os.O_PATH)
    launch = Launch("/bin/sh", ("sh", "-c", "exit 3"), cwd, str(tmp_path), {})
    try:
        session = Terminals(processes).open(launch, owner="me", size=(80, 24), limit=None, idle_seconds=None)
        assert session.ended.wait(60)
        session.replay.append(b"x" * REPLAY_BYTES)
        session.attach(Stalled())
        session._read()  # what the selector had told of before the end was dealt with
    finally:
        processes.close()
        os.close(cwd)
    assert session.exit is not None and session.exit.code == 3
