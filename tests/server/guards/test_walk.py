"""The walk by hand against the kernel's own race-free lookup, on random trees full of links."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_server.guards.door import Door
from sandbox_server.guards.openat2 import OpenAt2
from sandbox_server.guards.root import Root
from sandbox_server.guards.walk import walk

from .conftest import STEADY

_BENEATH, _NO_MAGICLINKS = 0x08, 0x02
_names = st.sampled_from(["a", "b", "c"])
_places = st.lists(_names, min_size=1, max_size=3).map("/".join)
_steps = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), min_size=1, max_size=5).map("/".join)
_trees = st.lists(st.tuples(_places, st.one_of(st.none(), st.just(""), _steps)), max_size=12)


def kernel(directory: int, path: str) -> int:
    """What ``openat2`` finds when it follows links but may not leave: a descriptor, or -1."""
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    how = (ctypes.c_uint64 * 3)(os.O_PATH | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGICLINKS)
    return int(call(437, directory, path.encode(), ctypes.byref(how), ctypes.sizeof(how)))


def grow(top: Path, tree: list[tuple[str, str | None]]) -> None:
    """Directories (None), files ("") and links (their text); what does not fit is left out."""
    for place, kind in tree:
        try:
            if kind is None:
                (top / place).mkdir(parents=True, exist_ok=True)
            elif kind == "":
                (top / place).touch()
            else:
                (top / place).symlink_to(kind)
        except OSError:
            continue


@given(tree=_trees, path=st.lists(_names, min_size=1, max_size=4).map("/".join))
@settings(STEADY, max_examples=300)
def test_the_walk_and_the_kernel_find_the_same_object(tree: list[tuple[str, str | None]], path: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        grow(Path(directory), tree)
        root = Root(directory, Door(None))
        try:
            descriptor = kernel(root.fd, path)
            found = walk({root.resolved: root}, root, path, True)
            if descriptor >= 0:
                theirs = os.fstat(descriptor)
                os.close(descriptor)
                assert found is not None and not found.missing
                ours = os.stat(root.at(found.relative), follow_symlinks=False)
                assert (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)
                assert root.at(found.relative) == os.path.realpath(os.path.join(directory, path))
            elif found is not None and not found.missing:
                # The kernel refuses what goes up and comes back, or has a file as a directory; by hand it stays inside.
                assert os.path.realpath(root.at(found.relative)).startswith(root.resolved)
        finally:
            root.close()


@given(tree=_trees, path=st.lists(_names, min_size=1, max_size=4).map("/".join))
@settings(STEADY, max_examples=300)
def test_both_ways_through_the_door_open_the_same_and_never_follow(
    tree: list[tuple[str, str | None]], path: str
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        grow(Path(directory), tree)
        top = os.open(directory, os.O_PATH)
        opened: list[tuple[int, int] | None] = []
        try:
            for door in (Door(OpenAt2()), Door(None)):
                try:
                    descriptor = door.open(top, path, os.O_PATH)
                except OSError:
                    opened.append(None)
                    continue
                found = os.fstat(descriptor)
                os.close(descriptor)
                opened.append((found.st_dev, found.st_ino))
        finally:
            os.close(top)
        assert opened[0] == opened[1]
        parts = path.split("/")
        on_the_way = ["/".join(parts[:count]) for count in range(1, len(parts))]
        if any(os.path.islink(os.path.join(directory, way)) for way in on_the_way):
            assert opened[0] is None


def test_the_quick_way_is_known_not_to_work_where_it_fails() -> None:
    assert OpenAt2().works(-1) is False
    assert Door(None).try_open(0, ".", os.O_PATH) == -1


def test_long_paths_go_in_stages_that_meet_no_link_either(tmp_path: Path) -> None:
    top, door = os.open(tmp_path, os.O_PATH), Door(OpenAt2())
    names = ["d" * 100] * 40
    made = door.make(top, "/".join(names))
    os.mkdir("last", dir_fd=made)
    os.symlink(".", "link", dir_fd=made)
    found = door.try_open(top, "/".join([*names, "last"]), os.O_PATH)
    assert os.fstat(found).st_ino == os.stat("last", dir_fd=made).st_ino
    for missing in (["link", "last"], ["no"], ["x" * 3000, "y"], ["x" * 300] * 5):
        assert door.try_open(top, "/".join([*names, *missing]), os.O_PATH) == -1
    for descriptor in (top, made, found):
        os.close(descriptor)


@pytest.mark.finding("R2-S8")
def test_a_path_longer_than_the_kernel_takes_at_once_is_opened_in_steps(tmp_path: Path) -> None:
    top = os.open(tmp_path, os.O_PATH)
    door = Door(OpenAt2())
    made = door.make(top, "/".join(["d" * 200] * 30))
    again = door.open(top, "/".join(["d" * 200] * 30), os.O_PATH)
    assert os.fstat(made).st_ino == os.fstat(again).st_ino
    for descriptor in (top, made, again):
        os.close(descriptor)
