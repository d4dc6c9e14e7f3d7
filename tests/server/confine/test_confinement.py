"""The pools of confined threads by themselves."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sandbox_server import confine
from sandbox_server.access import Scope
from sandbox_server.confinement import THREADS, Confinement
from sandbox_server.messages import Refusal
from tests.support.landlock import abi
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(abi() < 3, reason="no way here: this kernel's Landlock keeps no whole path rule")


def confined_threads() -> int:
    return sum(thread.name == "confined" for thread in threading.enumerate())


@contextmanager
def opened(*directories: Path) -> Iterator[tuple[int, ...]]:
    descriptors = tuple(os.open(directory, os.O_PATH | os.O_DIRECTORY) for directory in directories)
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@pytest.fixture
def confinement() -> Iterator[Confinement]:
    made = Confinement()
    yield made
    made.close()
    eventually(lambda: confined_threads() == 0)


def test_work_is_confined_on_every_thread_and_only_there(confinement: Confinement, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_text("out")
    with opened(tmp_path / "in") as descriptors:
        scope, meeting = Scope(descriptors), threading.Barrier(THREADS)
        outcomes: list[object] = []

        def attempt() -> None:
            meeting.wait(60)  # so that each of these runs on a thread of its own
            with pytest.raises(PermissionError):
                (tmp_path / "out").read_text()
            (tmp_path / "in" / threading.current_thread().native_id.__str__()).write_text("in")

        callers = [
            threading.Thread(target=lambda: outcomes.append(confinement.run(scope, attempt))) for _ in range(THREADS)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        assert outcomes == [None] * THREADS
        assert len(list((tmp_path / "in").iterdir())) == THREADS
        assert confined_threads() == THREADS
    assert (tmp_path / "out").read_text() == "out"


def test_answers_and_errors_come_back_and_hold_nothing(confinement: Confinement, tmp_path: Path) -> None:
    with opened(tmp_path) as descriptors:
        scope = Scope(descriptors)
        assert confinement.run(scope, lambda: 42) == 42
        with pytest.raises(ZeroDivisionError):
            confinement.run(scope, lambda: 1 // 0)
        assert confinement.run(scope, lambda: 43) == 43
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(100):
            confinement.run(scope, lambda: None)
        assert len(os.listdir("/proc/self/fd")) <= before  # less where garbage of other tests had some


def test_each_scope_has_its_own_threads_and_equal_ones_share_them(confinement: Confinement, tmp_path: Path) -> None:
    with opened(tmp_path, tmp_path) as (one, other):
        places = {
            confinement.temporary(scope)
            for scope in (Scope((one,)), Scope((one,)), Scope((other,)), Scope((one,), True))
        }
        assert len(places) == 3
        assert confined_threads() == 3 * THREADS


@pytest.mark.parametrize("broken", ["Ruleset", "drop_powers"])
def test_what_cannot_be_confined_is_not_run(
    confinement: Confinement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(1, "no")

    monkeypatch.setattr(confine, broken, fail)
    ran: list[Any] = []
    with opened(tmp_path) as descriptors, pytest.raises(Refusal) as refusal:
        confinement.run(Scope(descriptors), lambda: ran.append(1))
    assert (refusal.value.code, ran) == ("busy", [])
    eventually(lambda: confined_threads() == 0)


def test_nothing_is_run_after_the_end(tmp_path: Path) -> None:
    confinement = Confinement()
    with opened(tmp_path) as descriptors:
        place = confinement.temporary(Scope(descriptors))
        assert place is not None and os.path.isdir(place)
        confinement.close()
        confinement.close()
        assert not os.path.exists(place)
        with pytest.raises(Refusal, match="stopping"):
            confinement.run(Scope(descriptors), lambda: None)
    eventually(lambda: confined_threads() == 0)


def test_an_exchanged_directory_gets_new_threads_and_no_job_is_left_waiting(
    confinement: Confinement, tmp_path: Path
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with opened(tmp_path / "one") as (descriptor,):
        scope = Scope((descriptor,))
        outcomes: list[object] = []

        def call() -> None:
            for _ in range(300):
                try:
                    outcomes.append(confinement.run(scope, lambda: 1))
                except Refusal as refusal:
                    outcomes.append(refusal.code)

        callers = [threading.Thread(target=call) for _ in range(4)]
        for caller in callers:
            caller.start()
        for name in ("two", "one") * 10:
            other = os.open(tmp_path / name, os.O_PATH | os.O_DIRECTORY)
            os.dup2(other, descriptor)
            os.close(other)
            confinement.temporary(scope)
        for caller in callers:
            caller.join(60)
        assert not any(caller.is_alive() for caller in callers)
        assert len(outcomes) == 1200 and set(outcomes) <= {1, "busy"}
        eventually(lambda: confined_threads() == THREADS)


def test_scratch_directories_take_the_place_of_temporary_ones(tmp_path: Path) -> None:
    for name in ("in", "scratch"):
        (tmp_path / name).mkdir()
    confinement = Confinement(scratch=[str(tmp_path / "scratch")])
    with opened(tmp_path / "in") as descriptors:
        scope = Scope(descriptors)
        assert confinement.temporary(scope) is None
        confinement.run(scope, lambda: (tmp_path / "scratch" / "t").write_text("t"))
        with pytest.raises(PermissionError):
            confinement.run(scope, lambda: (tmp_path / "t").write_text("t"))
    confinement.close()
    assert (tmp_path / "scratch" / "t").read_text() == "t"


@pytest.mark.field(154)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_field_154_a_kernel_that_keeps_half_a_rule_counts_as_none(
    monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(confine, "version", lambda: version)
    assert not Confinement().available


def test_a_missing_scratch_directory_is_an_error_and_not_a_rule_without_effect(tmp_path: Path) -> None:
    confinement = Confinement(scratch=[str(tmp_path / "missing")])
    with opened(tmp_path) as descriptors, pytest.raises(Refusal):
        confinement.run(Scope(descriptors), lambda: None)
    confinement.close()
