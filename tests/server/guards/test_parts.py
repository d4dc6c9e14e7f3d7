"""Parts that are being written, and a sweep for abandoned ones that comes by at the worst moment."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_server.guards import parts, tree
from sandbox_server.guards.parts import is_part, make_part, make_part_directory
from sandbox_server.guards.tree import remove_stale_part
from sandbox_server.messages import Refusal

Make = Callable[[int], tuple[str, int]]
BOTH = pytest.mark.parametrize("make", [lambda directory: make_part(directory, 0o666), make_part_directory])


@pytest.fixture
def folder(tmp_path: Path) -> int:
    return os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)


@BOTH
def test_a_part_that_is_held_is_not_swept(folder: int, make: Make) -> None:
    name, descriptor = make(folder)
    assert is_part(name) and not remove_stale_part(folder, name)
    os.close(descriptor)
    assert remove_stale_part(folder, name) and os.listdir(folder) == []
    os.close(folder)


@BOTH
def test_one_that_was_swept_before_it_was_held_is_made_again(
    folder: int, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock

    def swept(descriptor: int, how: int) -> None:
        monkeypatch.setattr(parts.fcntl, "flock", real)
        (first,) = os.listdir(folder)
        assert remove_stale_part(folder, first)
        real(descriptor, how)

    monkeypatch.setattr(parts.fcntl, "flock", swept)
    name, descriptor = make(folder)
    assert os.listdir(folder) == [name] and os.fstat(descriptor).st_nlink > 0
    os.close(descriptor)
    os.close(folder)


@BOTH
def test_one_that_a_sweep_looks_at_is_made_again(folder: int, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    real = fcntl.flock

    def looked_at(descriptor: int, how: int) -> None:
        monkeypatch.setattr(parts.fcntl, "flock", real)
        raise BlockingIOError

    monkeypatch.setattr(parts.fcntl, "flock", looked_at)
    name, descriptor = make(folder)
    assert os.listdir(folder) == [name] and not remove_stale_part(folder, name)
    os.close(descriptor)
    os.close(folder)


def test_who_locks_every_new_file_is_told_of(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def locked(descriptor: int, how: int) -> None:
        raise BlockingIOError

    monkeypatch.setattr(parts.fcntl, "flock", locked)
    with pytest.raises(Refusal, match="another program locks every new file here; try again"):
        make_part(folder, 0o666)
    assert os.listdir(folder) == []
    os.close(folder)


@BOTH
def test_where_there_are_no_locks_parts_are_made_all_the_same(
    folder: int, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(parts.fcntl, "flock", unsupported)
    name, descriptor = make(folder)
    assert os.listdir(folder) == [name] and not remove_stale_part(folder, name)
    os.close(descriptor)
    os.close(folder)


def test_a_directory_that_cannot_be_opened_does_not_stay(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(parts.os, "open", full)
        with pytest.raises(OSError, match="too many open files"):
            make_part_directory(folder)
    assert os.listdir(folder) == []
    os.close(folder)


def test_one_that_went_while_it_was_looked_at_was_not_swept(folder: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name, descriptor = make_part(folder, 0o666)
    os.close(descriptor)

    def gone(directory: int, name: str) -> None:
        raise FileNotFoundError(name)

    monkeypatch.setattr(tree, "remove_entry", gone)
    assert remove_stale_part(folder, name) is False
    os.close(folder)


def test_a_sweep_that_never_rests_takes_no_part_that_is_written(folder: int) -> None:
    done = threading.Event()

    def sweep() -> None:
        while not done.is_set():
            for name in os.listdir(folder):
                remove_stale_part(folder, name)

    sweeping = threading.Thread(target=sweep)
    sweeping.start()
    try:
        for _ in range(2000):
            name, descriptor = make_part(folder, 0o666)
            assert os.fstat(descriptor).st_nlink == 1
            os.unlink(name, dir_fd=folder)
            os.close(descriptor)
    finally:
        done.set()
        sweeping.join()
    os.close(folder)
