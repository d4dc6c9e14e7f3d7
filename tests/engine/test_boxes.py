"""Where sandboxes keep their state, and how it is told whether somebody lives there."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_sdk._errors import SandboxError
from sandbox_sdk.sandbox.boxes import Box, Boxes, State

STATE = State("one", "secret", "/workspace", "/data", False, "workspace", "abc")


@pytest.fixture
def boxes(tmp_path: Path) -> Iterator[Boxes]:
    tmp_path.chmod(0o700)
    yield Boxes(str(tmp_path))


def names(boxes: Boxes) -> list[str]:
    return [os.path.basename(box.path) for box in boxes]


def test_default_names_count_from_one_within_this_process(boxes: Boxes) -> None:
    first, second = boxes.create(None, keep=False), boxes.create(None, keep=False)
    assert [first.name, second.name] == ["sandbox-1", "sandbox-2"]
    first.remove()
    assert boxes.create(None, keep=False).name == "sandbox-1"
    for box in boxes:
        assert box.owner == os.getpid() and not box.kept


def test_a_box_that_is_swept_before_it_is_locked_is_made_again_under_its_name(boxes: Boxes, monkeypatch: Any) -> None:
    real, tried = Box.try_lock, []

    def try_lock(box: Box) -> bool:
        tried.append(box.path)
        return len(tried) > 1 and real(box)

    monkeypatch.setattr(Box, "try_lock", try_lock)
    box = boxes.create(None, keep=False)
    assert (box.name, len(set(tried))) == ("sandbox-1", 2)
    box.remove()
    box.unlock()


def test_names_of_other_processes_do_not_count(boxes: Boxes) -> None:
    (Path(boxes.path) / "sandbox-1.1-abcd").mkdir()
    assert boxes.create(None, keep=False).name == "sandbox-1"
    assert boxes.create(None, keep=True).name == "sandbox-1"
    assert boxes.create(None, keep=True).name == "sandbox-2"


def test_a_kept_box_is_found_by_its_name(boxes: Boxes) -> None:
    box = boxes.create("x", keep=True)
    assert (box.path, box.kept, box.owner) == (os.path.join(boxes.path, "x"), True, 0)
    with pytest.raises(FileExistsError):
        boxes.create("x", keep=True)
    box.unlock()
    again = boxes.create("x", keep=True)
    assert again.path == box.path
    again.unlock()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a.b", "-a", "é", "a\n", "x" * 41])
def test_a_name_is_letters_digits_and_two_signs(boxes: Boxes, name: str) -> None:
    with pytest.raises(SandboxError, match="is no name"):
        boxes.create(name, keep=True)
    assert names(boxes) == []


def test_a_box_is_private(boxes: Boxes) -> None:
    box = boxes.create("x", keep=True)
    box.write_state(STATE)
    assert stat.S_IMODE(os.stat(box.path).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(box.inside("state.json")).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(box.make("a", "b")).st_mode) == 0o700
    assert box.state() == STATE
    assert "secret" not in repr(STATE)
    box.unlock()


def test_an_entrance_is_private_and_takes_callers_at_once_also_over_a_stale_one(boxes: Boxes) -> None:
    box = boxes.create("x", keep=True)
    for _ in range(2):
        with box.listen() as listener, socket.socket(socket.AF_UNIX) as caller:
            assert stat.S_IMODE(os.stat(box.entrance).st_mode) == 0o600
            caller.connect(box.entrance)
            assert not listener.get_inheritable()
    box.unlock()


def test_an_entrance_that_cannot_be_made_is_said_with_the_way_out(boxes: Boxes) -> None:
    for path in (f"{boxes.path}/{'x' * 100}", f"{boxes.path}/missing"):
        with pytest.raises(SandboxError, match="cannot listen on") as failure:
            Box(path).listen()
        assert "TMPDIR" in failure.value.hint


def test_who_holds_the_lock_is_alive_whatever_the_process_id(boxes: Boxes) -> None:
    box = boxes.create("x", keep=True)
    assert box.is_alive()
    script = "import fcntl, os, sys; d = os.open(sys.argv[1], os.O_RDONLY); fcntl.flock(d, fcntl.LOCK_EX);"
    box.unlock()
    assert not box.is_alive()
    holder = subprocess.Popen(
        [sys.executable, "-c", script + "print(flush=True); input()", box.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    assert box.is_alive() and not box.try_lock()
    holder.kill()
    holder.communicate()
    assert not box.is_alive()


def test_a_box_that_is_gone_cannot_be_locked(boxes: Boxes) -> None:
    box = boxes.create("x", keep=True)
    box.remove()
    assert not Box(box.path).try_lock() and not Box(box.path).is_alive()
    assert box.state() is None and box.supervisor() == (0, "")
    box.unlock()
    box.unlock()


def test_a_box_that_is_being_removed_need_not_be_told_to_end(boxes: Boxes) -> None:
    box = boxes.create("mine", keep=True)
    box.end()
    assert os.listdir(box.path) == ["ended"]
    box.remove()
    box.end()
    assert names(boxes) == []


def test_sweeping_removes_what_the_dead_left_and_nothing_else(boxes: Boxes) -> None:
    living, kept = boxes.create("living", keep=False), boxes.create("kept", keep=True)
    kept.unlock()
    dead = boxes.create("dead", keep=False)
    os.makedirs(dead.inside("work", "locked"))
    os.chmod(dead.inside("work", "locked"), 0)
    dead.unlock()
    (Path(boxes.path) / "no box").mkdir()
    boxes.sweep()
    assert sorted([*names(boxes), "no box"]) == sorted(os.listdir(boxes.path))
    assert names(boxes) == ["kept", os.path.basename(living.path)]
    living.unlock()


def test_boxes_lie_in_a_private_directory_below_the_temporary_one(monkeypatch: Any) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="b") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        path = Boxes.of_this_user().path
        assert path == os.path.join(os.path.realpath(short), f"notebook-sandbox-{os.geteuid()}")
        assert Boxes.of_this_user().path == path
        os.chmod(path, 0o755)
        with pytest.raises(SandboxError, match="does not belong to this user alone"):
            Boxes.of_this_user()


def test_a_directory_too_long_for_a_socket_is_not_used(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 60)))
    assert Boxes.of_this_user().path == f"/tmp/notebook-sandbox-{os.geteuid()}"


def test_a_link_put_in_place_of_the_directory_is_refused(monkeypatch: Any) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="b") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        os.mkdir(f"{short}/elsewhere", 0o700)
        os.symlink("elsewhere", f"{short}/notebook-sandbox-{os.geteuid()}")
        with pytest.raises(SandboxError, match="does not belong to this user alone"):
            Boxes.of_this_user()
