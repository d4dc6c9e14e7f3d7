"""One context, in this process: when it is free again."""

from __future__ import annotations

import os
import select
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandbox_server.contexts.context import Context
from sandbox_server.contexts.execution import Event, Finish
from sandbox_server.contexts.table import ContextTable
from sandbox_server.messages import Refusal, Wait
from sandbox_server.process.spawn import Launch
from sandbox_server.process.table import ProcessTable
from tests.support.waiting import eventually


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    processes = ProcessTable()
    table = ContextTable(processes)
    cwd = os.open(tmp_path, os.O_PATH)
    launch = Launch(sys.executable, ("python3",), cwd, str(tmp_path), {})
    try:
        yield table.open(launch, owner="me", name="", limit=None, idle_seconds=None)
    finally:
        table.shut_down()
        processes.close()
        os.close(cwd)


def up_to_the_end(events: Iterator[Event | Wait]) -> Finish:
    """Its end, just as it comes: not one step further."""
    for event in events:
        if isinstance(event, Wait):
            poll = select.poll()
            for descriptor in event.descriptors:
                poll.register(descriptor, select.POLLIN)
            poll.poll(100)
        elif isinstance(event, Finish):
            return event
    raise AssertionError("it never ended")


def test_who_knows_that_a_run_is_over_may_run_the_next_code_at_once(context: Context) -> None:
    begun = []  # kept, so that nobody closes them
    for count in (1, 2, 3):
        execution, events = context.run("1", timeout=30, limit=None)
        begun.append((execution, events))
        with pytest.raises(Refusal, match="busy"):
            context.run("2", timeout=30, limit=None)
        finish = up_to_the_end(events)
        assert (finish.status, finish.count) == ("ok", count)
    assert context.state == "idle"


def test_a_machine_that_stood_still_for_longer_than_the_grace_does_not_cost_the_variables(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("sandbox_server.process.supervisor.time", clock)

    def passes(seconds: float) -> None:
        """All of it at once, and the supervisor has done what was due by then."""
        clock.now += seconds
        for _ in range(2):  # what is asked for in one round may be done before what was due in it
            done = threading.Event()
            context._supervisor.soon(done.set)
            assert done.wait(60)

    code = """import os, time
try: open("running", "w").close(); time.sleep(600)
except KeyboardInterrupt:
    open("interrupted", "w").close()
    while not os.path.exists("go"): time.sleep(0.01)
    raise"""
    _, events = context.run(code, timeout=5, limit=None)
    with ThreadPoolExecutor() as pool:
        finish = pool.submit(up_to_the_end, events)
        eventually((tmp_path / "running").exists)
        passes(6)
        eventually((tmp_path / "interrupted").exists)
        passes(100)
        (tmp_path / "go").touch()
        assert finish.result(60).status == "timeout"
    assert context.state == "idle"


def test_a_program_that_is_gone_is_known_to_be_gone_at_its_end(context: Context) -> None:
    _, events = context.run("import os; os._exit(3)", timeout=30, limit=None)
    finish = up_to_the_end(events)
    assert (finish.status, finish.exit_code, context.state) == ("died", 3, "dead")
