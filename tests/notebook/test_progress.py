"""Progress: silent while quick, a bar in a terminal, sparse whole lines in a notebook."""

from __future__ import annotations

import io

from sandbox_notebook.progress import Progress

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


def test_without_a_total_the_amount_is_told() -> None:
    assert drawn(False, [(2.0, 3 * MB)], total=None) == "big.bin  3.0 MB  1.5 MB/s\n"


def test_a_notebook_whose_outputs_are_compared_gets_none() -> None:
    assert drawn(False, [(60.0, MB)], quiet=True) == ""
