"""Remembered answers for completion: a Tab never waits for a slow sandbox, and asks it once."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from sandbox_notebook.complete import Answers
from tests.support.waiting import eventually


class Slow:
    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.asked = 0

    def __call__(self) -> Sequence[str]:
        self.asked += 1
        self.may_answer.wait(60)
        return ["a", "b"]


def test_a_slow_answer_is_not_waited_for_and_shows_on_the_next_tab() -> None:
    answers, slow = Answers(kept=1000, patience=0.01), Slow()
    assert list(answers.get(("x",), slow)) == []
    assert list(answers.get(("x",), slow)) == []
    slow.may_answer.set()
    eventually(lambda: list(answers.get(("x",), slow)) == ["a", "b"])
    assert slow.asked == 1


def test_an_old_answer_is_asked_again() -> None:
    answers, calls = Answers(kept=0, patience=60), iter([["old"], ["new"]])
    assert list(answers.get(("x",), lambda: next(calls))) == ["old"]
    assert list(answers.get(("x",), lambda: next(calls))) == ["new"]


def test_a_failure_offers_nothing() -> None:
    def fail() -> Sequence[str]:
        raise OSError

    assert list(Answers(patience=60).get(("x",), fail)) == []
