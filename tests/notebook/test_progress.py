"""Progress: silent while quick, a bar in a terminal, sparse whole lines in a notebook."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest

from sandbox_notebook import dispatch
from sandbox_notebook.config import Settings, Ui
from sandbox_notebook.invocation import Front, Invocation, Outcome
from sandbox_notebook.progress import Line, Progress, Status, Waiting
from sandbox_notebook.session import Session
from tests.support.waiting import eventually

MB = 1_000_000


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def drawn(terminal: bool, steps: list[tuple[float, int]], total: int | None = 100 * MB, quiet: bool = False) -> str:
    sink, clock = io.StringIO(), Clock()
    progress = Progress(sink, "big.bin", terminal=terminal, quiet=quiet, clock=clock)
    for clock.now, done in steps:
        progress(done, total)
    progress.close()
    return sink.getvalue()


def test_what_takes_under_a_second_shows_nothing() -> None:
    assert drawn(True, [(0.1, MB), (0.9, 100 * MB)]) == ""
    assert drawn(False, [(0.1, MB), (0.9, 100 * MB)]) == ""


def test_a_terminal_gets_a_bar_that_leaves_no_trace() -> None:
    text = drawn(True, [(2.0, 50 * MB), (2.05, 51 * MB), (3.0, 100 * MB)])
    frames = text.split("\r")
    assert frames[1] == "big.bin  ████████████░░░░░░░░░░░░   50%  50.0 MB of 100 MB  25.0 MB/s"
    assert len(frames) == 5 and frames[-1] == "" and frames[-2].strip() == ""


def test_a_notebook_gets_whole_lines_seconds_apart() -> None:
    text = drawn(False, [(second / 10, second * MB) for second in range(100)])
    assert text == "big.bin  10%  10.0 MB of 100 MB  10.0 MB/s\nbig.bin  60%  60.0 MB of 100 MB  10.0 MB/s\n"


def test_files_of_a_directory_are_counted_too() -> None:
    sink, clock = io.StringIO(), Clock()
    progress = Progress(sink, "src", terminal=False, sizes=[0, 100, 200, *[10] * 1200], clock=clock)
    for clock.now, done in ((2.0, 0), (10.0, 299), (20.0, 300), (30.0, 12_300)):
        progress(done, 12_300)
    assert sink.getvalue().splitlines() == [
        "src  0%  1 of 1,203 files  0 B of 12.3 kB  0 B/s",
        "src  2%  2 of 1,203 files  299 B of 12.3 kB  29 B/s",
        "src  2%  3 of 1,203 files  300 B of 12.3 kB  15 B/s",
        "src  100%  1,203 of 1,203 files  12.3 kB of 12.3 kB  410 B/s",
    ]


def test_without_a_total_the_amount_is_told() -> None:
    assert drawn(False, [(2.0, 3 * MB)], total=None) == "big.bin  3.0 MB  1.5 MB/s\n"


def test_a_notebook_whose_outputs_are_compared_gets_none() -> None:
    assert drawn(False, [(60.0, MB)], quiet=True) == ""


def test_a_terminal_is_told_for_how_long_it_waits_and_no_trace_is_left() -> None:
    sink = io.StringIO()
    with Waiting(Line(sink), "start", patience=0.01):
        eventually(lambda: sink.getvalue().count("\r") > 2)
    first, *_, blank, last = sink.getvalue().split("\r")[1:]
    assert first == "start … 0 s" and not blank.strip() and len(blank) == len(first) and last == ""


@pytest.mark.parametrize("told", [False, True])
def test_nobody_is_told_of_what_is_quick(told: bool) -> None:
    lines: list[str] = []
    with Waiting(lines.append if told else None, "start", patience=60.0):
        pass
    assert lines == []


@pytest.mark.parametrize(("line", "told"), [("find x", True), ("start", True), ("run x", False), ("watch", False)])
def test_only_what_writes_nothing_itself_is_waited_for_aloud(
    monkeypatch: pytest.MonkeyPatch, line: str, told: bool
) -> None:
    asked: list[Status | None] = []

    class Heard(Waiting):
        def __init__(self, status: Status | None, what: str) -> None:
            asked.append(status)
            super().__init__(None, what)

    monkeypatch.setattr(dispatch, "Waiting", Heard)
    verb: Callable[[Invocation], Outcome] = lambda call: Outcome()  # noqa: E731
    for module, name in (("searching", "find"), ("lifecycle", "start"), ("run", "run"), ("watching", "watch")):
        monkeypatch.setattr(f"sandbox_notebook.verbs.{module}.{name}", verb)

    def heard(ui: Ui = "auto", **front: Any) -> Status | None:
        there = Front(io.StringIO(), io.StringIO(), **front)
        dispatch.perform(Invocation(dispatch.read(line), Session(), Settings(ui=ui), there))
        return asked.pop()

    assert isinstance(heard(terminal=True), Line) is told
    assert heard(status=print) is (print if told else None)
    assert heard() is heard(status=print, quiet=True) is heard("html", status=print) is heard("html", terminal=True)
    assert heard() is None
