"""One context, in this process: when it is free again."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_server.contexts.context import Context
from sandbox_server.contexts.execution import Event, Finish
from sandbox_server.contexts.table import ContextTable
from sandbox_server.messages import Refusal, Wait
from sandbox_server.process.spawn import Launch
from sandbox_server.process.table import ProcessTable


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


def test_a_program_that_is_gone_is_known_to_be_gone_at_its_end(context: Context) -> None:
    _, events = context.run("import os; os._exit(3)", timeout=30, limit=None)
    finish = up_to_the_end(events)
    assert (finish.status, finish.exit_code, context.state) == ("died", 3, "dead")
