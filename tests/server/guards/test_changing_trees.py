"""Trees that change while somebody goes through them, and disks that fail in the midst of it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.guards import modes as modes_module
from sandbox_server.guards import staging as staging_module
from sandbox_server.guards.below import Below
from sandbox_server.guards.location import Location
from sandbox_server.guards.packing import sources
from sandbox_server.guards.paths import PathGuard
from sandbox_server.guards.staging import Staging
from sandbox_server.messages import Refusal

from .conftest import GuardOf

Patch = pytest.MonkeyPatch


def before(patch: Patch, name: str, happens: Callable[..., object]) -> None:
    """Let something happen before each call of an ``os`` function, which is told the arguments."""
    real = getattr(os, name)

    def late(*args: Any, **options: Any) -> Any:
        happens(*args, **options)
        return real(*args, **options)

    patch.setattr(os, name, late)


def failing(number: int, meant: Callable[..., bool] = lambda *args, **options: True) -> Callable[..., None]:
    """Raises this error when the arguments are those that are `meant`."""

    def fail(*args: Any, **options: Any) -> None:
        if meant(*args, **options):
            raise OSError(number, os.strerror(number))

    return fail


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def refusal_of(action: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(Refusal) as caught:
        action()
    return caught.value.code, caught.value.message


# Packing


def packed(guard: PathGuard, then: Callable[[str], object] = lambda name: None) -> list[str]:
    """The names of what is packed of the base; `then` is told each one."""
    found = []
    with guard.locate(".", "read") as top:
        for source in sources(top, "", directories=True, links=True):
            found.append(source.name.decode())
            then(found[-1])
    return found


@pytest.fixture
def tree(base: Path) -> Path:
    (base / "d/e").mkdir(parents=True)
    (base / "d/e/deep").write_text("x")
    (base / "f").write_text("x")
    return base


def test_a_pipe_packs_to_nothing(guard: PathGuard, base: Path) -> None:
    os.mkfifo(base / "pipe")
    with guard.locate("pipe", "read") as location:
        assert list(sources(location, "pipe", directories=True, links=True)) == []


def test_what_is_removed_or_exchanged_before_its_turn_is_not_packed(guard: PathGuard, tree: Path) -> None:
    assert packed(guard) == ["d", "f", "d/e", "d/e/deep"]
    shutil.copytree(tree / "d", outside := tree.parent / "outside")

    def exchange(name: str) -> None:
        if name == "d/e":
            shutil.rmtree(tree / "d")
            (tree / "d").symlink_to(outside)

    assert packed(guard, exchange) == ["d", "f", "d/e"]
    os.unlink(tree / "d")
    (tree / "d").mkdir()
    assert packed(guard, lambda name: name == "d" and os.rmdir(tree / "d")) == ["d", "f"]


def test_a_file_removed_or_exchanged_before_it_is_opened_is_not_packed(
    guard: PathGuard, tree: Path, monkeypatch: Patch
) -> None:
    def exchange(name: Any, *args: Any, **options: Any) -> None:
        if name == "deep":
            os.unlink(tree / "d/e/deep")
            os.mkfifo(tree / "d/e/deep")
        if name == "f":
            os.unlink(tree / "f")

    before(monkeypatch, "open", exchange)
    assert packed(guard) == ["d", "d/e"]


def test_a_disk_that_fails_ends_the_packing(guard: PathGuard, tree: Path, monkeypatch: Patch) -> None:
    with monkeypatch.context() as patch:
        before(patch, "open", failing(errno.EIO, lambda name, *_, **__: name == "deep"))
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            packed(guard)
    monkeypatch.setattr(Location, "deeper", failing(errno.EMFILE))
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)):
        packed(guard)


def test_a_directory_asked_for_by_name_is_not_taken_for_an_empty_one(
    guard: PathGuard, tree: Path, monkeypatch: Patch
) -> None:
    before(monkeypatch, "listdir", failing(errno.EACCES))
    with pytest.raises(PermissionError):
        packed(guard)


# Levels below a directory


def test_what_is_no_readable_file_of_one_name_has_no_content(guard_of: GuardOf, base: Path) -> None:
    os.mkfifo(base / "pipe")
    (base / "f").write_text("x")
    os.link(base / "f", base / "g")
    with guard_of(hardlinks="deny").locate(".", "read") as top:
        below, directory = top.inside(), top.open_directory()
        assert [below.open_file(directory, name) for name in ("pipe", "f", "g", "none")] == [-1] * 4
        os.unlink(base / "g")
        os.close(descriptor := below.open_file(directory, "f"))
        assert descriptor >= 0
        os.close(directory)


def test_a_link_that_leads_out_leads_to_no_directory(guard: PathGuard, base: Path) -> None:
    (base / "d").mkdir()
    for name, target in (("in", "d"), ("out", "/etc"), ("lost", "none")):
        (base / name).symlink_to(target)
    with guard.locate(".", "read") as top:
        found = {name: top.inside().leads_to_directory(name) for name in ("in", "out", "lost")}
    assert found == {"in": True, "out": False, "lost": False}


def levels(guard: PathGuard) -> list[tuple[str, bool, list[str]]]:
    """Path of each level, whether it could be read, and its names."""
    with guard.locate(".", "read") as top:
        return [(level.path, level.descriptor >= 0, level.names) for level in top.inside().levels(9)]


def test_a_directory_removed_while_it_is_opened_has_no_level(guard: PathGuard, tree: Path, monkeypatch: Patch) -> None:
    real = Below.open

    def late(below: Below, path: str) -> int:
        descriptor = real(below, path)
        if path == "d/e":
            shutil.rmtree(tree / "d/e")
        return descriptor

    monkeypatch.setattr(Below, "open", late)
    assert levels(guard) == [("", True, ["f"]), ("d", True, [])]


def test_a_directory_that_cannot_be_read_is_told(guard: PathGuard, tree: Path, monkeypatch: Patch) -> None:
    with monkeypatch.context() as patch:
        before(patch, "scandir", failing(errno.EIO))
        assert levels(guard) == [("", False, [])]
    real = Below.open
    monkeypatch.setattr(Below, "open", lambda below, path: failing(errno.EACCES)() if path else real(below, path))
    assert levels(guard) == [("", True, ["f"]), ("d", False, [])]


# Permission bits of a tree


def bits(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_bits_of_what_is_removed_before_its_turn_are_not_missed(
    guard: PathGuard, tree: Path, monkeypatch: Patch
) -> None:
    (tree / "g").write_text("x")
    real = modes_module.set_mode

    def once(descriptor: int, mode: int) -> int:
        if (kept := Path(os.readlink(f"/proc/self/fd/{descriptor}"))).parent == tree:
            for path in set(tree.iterdir()) - {kept}:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return real(descriptor, mode)

    monkeypatch.setattr(modes_module, "set_mode", once)
    with guard.locate(".", "write") as location:
        assert location.set_mode(0o741, recursive=True) == 2  # the first file, and the top
    assert [bits(path) for path in tree.iterdir()] == [0o741]


def test_bits_of_what_turns_up_in_a_tree_after_it_was_judged_stay(
    guard_of: GuardOf, tree: Path, monkeypatch: Patch
) -> None:
    guard = guard_of(deny=["secret"], hardlinks="deny")
    judge = PathGuard.judge_tree

    def late(*args: Any) -> None:
        judge(*args)
        (tree / "secret").write_text("x")
        (tree / "one").write_text("x")
        os.link(tree / "one", tree / "two")
        for name in ("secret", "one"):
            (tree / name).chmod(0o600)

    monkeypatch.setattr(PathGuard, "judge_tree", late)
    with guard.locate(".", "write") as location:
        location.set_mode(0o741, recursive=True)
    found = {path.name: bits(path) for path in tree.rglob("*")}
    assert found == {"secret": 0o600, "one": 0o600, "two": 0o600, "d": 0o741, "e": 0o741, "deep": 0o741, "f": 0o741}


# Trees that are staged


def staged(guard: PathGuard, work: Callable[[Staging], object], *, overwrite: bool = True, at: str = "new") -> None:
    with guard.locate(at, "write") as target, target.stage() as staging:
        work(staging)
        staging.commit(overwrite=overwrite)


def test_where_no_place_for_the_tree_can_be_made_nothing_is_left(
    guard: PathGuard, base: Path, monkeypatch: Patch
) -> None:
    before(monkeypatch, "mkdir", failing(errno.ENOSPC, lambda name, *_, **__: name != "new"))
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        staged(guard, lambda staging: None)
    assert names(base) == []


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL])
def test_a_file_system_without_nameless_files_spools_too(
    guard: PathGuard, base: Path, monkeypatch: Patch, number: int
) -> None:
    before(monkeypatch, "open", failing(number, lambda _, flags, *__, **___: flags & os.O_TMPFILE == os.O_TMPFILE))

    def spool(staging: Staging) -> None:
        descriptor = staging.spool()
        assert os.write(descriptor, b"x" * 10) == 10
        assert os.fstat(descriptor).st_nlink == 0
        assert os.pread(descriptor, 20, 0) == b"x" * 10
        os.close(descriptor)

    staged(guard, spool)
    assert names(base) == ["new"]


def test_a_disk_that_fails_spools_nothing(guard: PathGuard, base: Path, monkeypatch: Patch) -> None:
    before(monkeypatch, "open", failing(errno.EIO, lambda _, flags, *__, **___: flags & os.O_TMPFILE == os.O_TMPFILE))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        staged(guard, Staging.spool)
    assert names(base) == []


@pytest.mark.parametrize(
    ("again", "message"),
    [
        (lambda staging: staging.add_link("d/l", "b"), '"d/l" is in the archive twice'),
        (lambda staging: staging.add_file("d/f", [b"y"], 0o644, 0), '"d/f" is in the archive twice'),
        (lambda staging: staging.add_hard_link("d/l", "d/f"), '"d/l" is in the archive twice'),
        (
            lambda staging: staging.add_hard_link("h", "none/f"),
            '"h" is a second name of something that is no file before it',
        ),
        (
            lambda staging: staging.add_hard_link("h", "d/l"),
            '"h" is a second name of something that is no file before it',
        ),
        (lambda staging: staging.add_file("d/", [b"y"], 0o644, 0), "the archive holds a file without a name"),
        (lambda staging: staging.add_file("d/f/g", [b"y"], 0o644, 0), '"d/f" is a file or a link, and a directory too'),
    ],
)
def test_a_member_that_contradicts_another_leaves_nothing(
    guard: PathGuard, base: Path, again: Callable[[Staging], object], message: str
) -> None:
    def fill(staging: Staging) -> None:
        staging.add_link("d/l", "a")
        staging.add_file("d/f", [b"x"], 0o644, 0)
        again(staging)

    assert refusal_of(lambda: staged(guard, fill)) == ("bad_archive", message)
    assert names(base) == []


def test_a_directory_that_cannot_be_made_is_the_disks_own_error(
    guard: PathGuard, base: Path, monkeypatch: Patch
) -> None:
    before(monkeypatch, "mkdir", failing(errno.ENOSPC, lambda name, *_, **__: name == "d"))
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        staged(guard, lambda staging: staging.add_directory("d", 0o755))
    assert names(base) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_turns_up_in_the_way_at_the_last_moment_stays(
    guard: PathGuard, base: Path, monkeypatch: Patch, overwrite: bool
) -> None:
    """Even with `overwrite`, when it is a directory."""
    real = Staging._move

    def late(staging: Staging, *args: Any) -> None:
        if overwrite:
            (base / "f/kept").mkdir(parents=True)
        else:
            (base / "f").write_text("kept")
        real(staging, *args)

    monkeypatch.setattr(Staging, "_move", late)
    refused = refusal_of(
        lambda: staged(guard, lambda staging: staging.add_file("f", [b"x"], 0o644, 0), overwrite=overwrite, at=".")
    )
    assert refused == ("file_exists", '"f" is in the way; allow overwriting, or remove it first')
    assert names(base) == (["f", "f/kept"] if overwrite else ["f"])


def test_a_disk_that_fails_while_a_tree_takes_its_place_is_told(
    guard: PathGuard, base: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(staging_module, "move_entry", failing(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        staged(guard, lambda staging: staging.add_file("f", [b"x"], 0o644, 0))
    assert names(base) == []
