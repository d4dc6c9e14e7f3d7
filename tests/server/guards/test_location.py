"""What a location does to the file system, byte by byte."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.access import PathRule
from sandbox_server.guards import parts as parts_module
from sandbox_server.guards import path_guard as guard_module
from sandbox_server.guards import replace as replace_module
from sandbox_server.guards import tree as tree_module
from sandbox_server.guards.paths import Location, PathGuard, PathGuards
from sandbox_server.messages import Refusal

from .conftest import GuardOf, scanned, shown

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="no way here: only the superuser can do this")


def code_of(action: Callable[[], object]) -> str:
    with pytest.raises(Refusal) as caught:
        action()
    return caught.value.code


def content(location: Location) -> bytes:
    descriptor = location.open()
    try:
        return os.read(descriptor, 1 << 16)
    finally:
        os.close(descriptor)


def write(guard: PathGuard, path: str, data: bytes, **options: Any) -> os.stat_result:
    with guard.locate(path, "write") as location, location.replace() as replacement:
        os.write(replacement.descriptor, data)
        return replacement.commit(**options)


def remove(guard: PathGuard, path: str) -> None:
    with guard.locate(path, "delete", follow=False) as location:
        location.remove()


def move(guard: PathGuard, source: str, destination: str) -> str:
    with guard.locate(source, "delete", follow=False) as origin, guard.locate(destination, "write") as target:
        return origin.move_to(target)


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


@contextmanager
def few_descriptors(spare: int) -> Iterator[None]:
    """No more than so many new descriptors can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + spare + 1, hard))
    used = []
    try:
        with suppress(OSError):
            while True:
                used.append(os.dup(0))
        for _ in range(spare):
            os.close(used.pop())
        yield
    finally:
        for descriptor in used:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def fails(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, number: int, times: int = 1) -> None:
    """Let an ``os`` function, as one module sees it, fail a number of times."""
    real, left = getattr(os, name), [times]

    def failing(*args: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return real(*args, **options)

    monkeypatch.setattr(module.os, name, failing)


# Looking


def test_metadata_is_of_what_was_located(guard: PathGuard, base: Path) -> None:
    (base / "f").write_bytes(b"12345")
    with guard.locate("f", "read") as location:
        first = location.stat()
        (base / "new").write_bytes(b"1")
        os.rename(base / "new", base / "f")
        assert location.stat().st_ino == first.st_ino
        assert location.stat_now().st_size == 1
        os.unlink(base / "f")
        with pytest.raises(FileNotFoundError):
            location.stat_now()
    location.close()


@pytest.mark.field(40)
def test_field_040_a_link_is_reported_itself_or_followed_as_asked(guard: PathGuard, base: Path) -> None:
    (base / "f").write_bytes(b"12345")
    (base / "hop").symlink_to("f")
    (base / "l").symlink_to("hop")
    with guard.locate("l", "read") as location:
        assert (location.path, location.name, location.readlink()) == (f"{base}/f", "f", "hop")
        assert stat.S_ISREG(location.stat().st_mode)
    with guard.locate("l", "read", follow=False) as location:
        assert (location.path, location.name, location.readlink()) == (f"{base}/l", "l", "hop")
        assert stat.S_ISLNK(location.stat().st_mode)
        assert location.readlink() == "hop"
        assert code_of(location.open) == "not_found"
    for follow in (True, False):
        with guard.locate("f", "read", follow=follow) as location:
            assert location.readlink() is None
        with guard.locate("none", "read", follow=follow) as location:
            assert location.readlink() is None
    (base / "gone").symlink_to("none")
    with guard.locate("gone", "read") as location:
        assert (location.path, location.missing, location.readlink()) == (f"{base}/none", True, "none")


@pytest.mark.parametrize("kind", ["fifo", "socket", "directory", "missing"])
def test_only_a_regular_file_opens_and_nothing_hangs(guard: PathGuard, base: Path, kind: str) -> None:
    place = base / "x"
    listener = None
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "socket":
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(place))
    elif kind == "directory":
        place.mkdir()
    with guard.locate("x", "read") as location:
        assert code_of(location.open) == "not_found"
    if kind in ("fifo", "socket"):
        with guard.locate("x", "write") as location:
            assert code_of(location.replace) == "not_found"
            assert code_of(location.make_directories) == "file_exists"
    if listener:
        listener.close()


@needs_root
def test_a_device_does_not_open(guard: PathGuard, base: Path) -> None:
    try:
        os.mknod(base / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no way here: device nodes cannot be made here")
    with guard.locate("zero", "read") as location:
        assert code_of(location.open) == "not_found"
        assert shown(guard) == ["zero"]


def test_a_link_put_in_place_after_the_judgement_does_not_open(guard: PathGuard, base: Path) -> None:
    (base / "d").mkdir()
    (base / "d/f").write_text("x")
    with guard.locate("d/f", "read") as location:
        os.unlink(base / "d/f")
        (base / "d/f").symlink_to("/etc/passwd")
        assert code_of(location.open) == "not_found"
        os.unlink(base / "d/f")
        os.rmdir(base / "d")
        (base / "d").symlink_to("/etc")
        assert code_of(location.open) == "not_found"
        with pytest.raises(NotADirectoryError):
            location.remove()
        assert code_of(location.replace) == "file_exists"


def test_a_file_that_the_system_refuses_is_its_own_error(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "f").write_text("x")
    with guard.locate("f", "read") as location:

        def refuse(*_: object) -> int:
            raise PermissionError(errno.EACCES, "no")

        monkeypatch.setattr(type(guard._roots[0]), "open", refuse)
        with pytest.raises(PermissionError):
            location.open()
        with pytest.raises(PermissionError):
            location.open_directory()


# Listing


@pytest.fixture
def mixed(base: Path) -> Path:
    """One of everything, with what no listing may show."""
    (base / "d").mkdir()
    (base / "f").write_bytes(b"123")
    (base / "two").write_bytes(b"")
    os.link(base / "two", base / "three")
    os.mkfifo(base / "fifo")
    (base / ".env").write_text("x")
    (base / ".nsb-1.part").write_text("x")
    for name, target in (("in", "f"), ("out", "/etc"), ("gone", "none"), ("loop", "loop"), ("denied", ".env")):
        (base / name).symlink_to(target)
    return base


@pytest.mark.finding("R2-S2")
@pytest.mark.field(145)
@pytest.mark.parametrize(
    ("rule", "hidden"),
    [
        ({}, {"out", ".nsb-1.part"}),
        ({"deny": [".env"]}, {"out", ".nsb-1.part", ".env", "denied"}),
        ({"deny": ["BASE/.env", "x/y*"]}, {"out", ".nsb-1.part", ".env", "denied"}),
        ({"symlinks": "never"}, {"out", "in", "gone", "loop", "denied", ".nsb-1.part"}),
        ({"hardlinks": "deny"}, {"out", "two", "three", ".nsb-1.part"}),
    ],
)
def test_field_145_a_listing_shows_what_may_be_reached(
    guard_of: GuardOf, mixed: Path, rule: dict[str, Any], hidden: set[str]
) -> None:
    if "deny" in rule:
        rule = {"deny": [pattern.replace("BASE", str(mixed)) for pattern in rule["deny"]]}
    guard = guard_of(**rule)
    expected = sorted(set(names(mixed)) - hidden)
    assert shown(guard) == expected
    assert sorted(name for name, _, _ in scanned(guard, ordered=False)) == expected


def test_a_scan_gives_the_metadata_of_the_entry_itself(guard: PathGuard, mixed: Path) -> None:
    found = {name: facts for name, facts, _ in scanned(guard)}
    assert {name: stat.S_IFMT(facts.st_mode) for name, facts in found.items()} == {
        **dict.fromkeys(("f", "two", "three", ".env"), stat.S_IFREG), "d": stat.S_IFDIR, "fifo": stat.S_IFIFO,
        **dict.fromkeys(("in", "gone", "loop", "denied"), stat.S_IFLNK),
    }  # fmt: skip
    assert found["f"].st_size == 3


def test_a_scan_begins_behind_a_name_and_gives_link_targets(guard: PathGuard, mixed: Path) -> None:
    found = {name: target for name, _, target in scanned(guard, after="f")}
    assert found == {"fifo": None, "gone": "none", "in": "f", "loop": "loop", "three": None, "two": None}


def test_what_vanishes_while_it_is_listed_is_left_out(guard: PathGuard, base: Path) -> None:
    for name in "abc":
        (base / name).write_text("x")
    with guard.locate(".", "read") as location:
        descriptor = location.open_directory()
        scan = location.scan(descriptor, ordered=True)
        assert next(scan)[0] == "a"
        os.unlink(base / "b")
        assert [name for name, _, _ in scan] == ["c"]
        os.close(descriptor)


def test_only_a_directory_lists(guard: PathGuard, mixed: Path) -> None:
    for path in ("f", "none", "fifo"):
        with guard.locate(path, "read") as location:
            assert code_of(location.open_directory) == "not_found"


@pytest.mark.field(47)
def test_field_047_no_listing_is_silently_short_for_want_of_descriptors(guard: PathGuard, base: Path) -> None:
    (base / "target").write_text("x")
    for number in range(50):
        (base / f"l{number}").symlink_to("target")
    with guard.locate(".", "read") as location:
        descriptor = location.open_directory()
        with few_descriptors(0), pytest.raises(OSError) as caught:
            list(location.scan(descriptor, ordered=True))
        assert caught.value.errno == errno.EMFILE
        assert len(list(location.scan(descriptor, ordered=True))) == 51
        os.close(descriptor)


def test_a_link_that_may_not_be_resolved_is_left_out(
    guard: PathGuard, mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = guard_module.walk

    def refuse(roots: Any, root: Any, relative: str, follow: bool) -> Any:
        if relative == "in":
            raise PermissionError(errno.EACCES, "no")
        return real(roots, root, relative, follow)

    monkeypatch.setattr(guard_module, "walk", refuse)
    assert "in" not in shown(guard)


def test_a_broken_entry_breaks_the_listing(guard: PathGuard, mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with guard.locate(".", "read") as location:
        descriptor = location.open_directory()
        scan = location.scan(descriptor, ordered=True)
        fails(monkeypatch, replace_module, "stat", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            list(scan)
        os.close(descriptor)


def test_a_child_is_judged_like_a_path(guard_of: GuardOf, mixed: Path) -> None:
    guard = guard_of(deny=[".env"], hardlinks="deny")
    (mixed / "d/x").write_text("1")
    with guard.locate(".", "read") as top:
        for name, code in ((".env", "path_denied"), (".nsb-1.part", "path_denied"), ("two", "hardlink_denied")):
            assert code_of(lambda name=name: top.child(name)) == code
        for name in ("", ".", "..", "a/b", "a\0"):
            assert code_of(lambda name=name: top.child(name)) == "invalid_path"
        assert code_of(lambda: top.child("out", follow=True)) == "path_not_allowed"
        with top.child("out") as link:
            assert link.path == f"{mixed}/out" and link.readlink() == "/etc"
        with top.child("in", follow=True) as target:
            assert target.path == f"{mixed}/f"
        with top.child("d") as directory, directory.child("x") as file:
            assert (file.path, content(file)) == (f"{mixed}/d/x", b"1")
        with top.child("new") as missing:
            assert missing.missing


# Making directories


def test_directories_are_made_with_their_parents(guard: PathGuard, base: Path) -> None:
    with guard.locate("a/b/c", "write") as location:
        location.make_directories()
        location.make_directories()
        assert not location.missing
    assert (base / "a/b/c").is_dir()
    (base / "l").symlink_to("a")
    with guard.locate("l/d", "write") as location:
        location.make_directories(0o700)
    assert stat.S_IMODE((base / "a/d").stat().st_mode) == 0o700


def test_a_directory_made_by_somebody_else_meanwhile_is_as_good(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir

    def twice(name: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        real(name, mode, dir_fd=dir_fd)
        real(name, mode, dir_fd=dir_fd)

    with guard.locate("a/b", "write") as location:
        monkeypatch.setattr(os, "mkdir", twice)
        location.make_directories()
    assert (base / "a/b").is_dir()


def test_no_room_for_a_directory_is_the_systems_own_error(guard: PathGuard, monkeypatch: pytest.MonkeyPatch) -> None:
    with guard.locate("a", "write") as location:
        fails(monkeypatch, replace_module, "mkdir", errno.ENOSPC)
        with pytest.raises(OSError, match="No space"):
            location.make_directories()


# Replacing


def test_a_file_is_stored_with_its_parents(guard: PathGuard, base: Path) -> None:
    facts = write(guard, "a/b/f", b"\x00\xff")
    assert (base / "a/b/f").read_bytes() == b"\x00\xff"
    assert facts.st_ino == (base / "a/b/f").stat().st_ino
    assert facts.st_ctime_ns == (base / "a/b/f").stat().st_ctime_ns
    assert names(base / "a/b") == ["f"]


def test_a_new_file_obeys_the_umask(guard: PathGuard, base: Path) -> None:
    old = os.umask(0o027)
    try:
        assert stat.S_IMODE(write(guard, "f", b"").st_mode) == 0o640
    finally:
        os.umask(old)


def test_a_replaced_file_keeps_its_permissions_until_told_otherwise(guard: PathGuard, base: Path) -> None:
    (base / "f").write_text("old")
    os.chmod(base / "f", 0o604)
    assert stat.S_IMODE(write(guard, "f", b"new").st_mode) == 0o604
    assert stat.S_IMODE(write(guard, "f", b"new", mode=0o755).st_mode) == 0o755
    assert write(guard, "f", b"new", mtime=12.5).st_mtime_ns == 12_500_000_000


@needs_root
@pytest.mark.field(41)
def test_field_041_a_replaced_file_keeps_its_owner(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "f").write_text("old")
    os.chown(base / "f", 1234, 2345)
    facts = write(guard, "f", b"new")
    assert (facts.st_uid, facts.st_gid) == (1234, 2345)
    fails(monkeypatch, replace_module, "fchown", errno.EPERM)
    assert write(guard, "f", b"newer").st_uid == os.geteuid()


def test_a_file_of_somebody_else_becomes_ours_where_owners_are_not_ours_to_give(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "f").write_text("old")
    facts = list((base / "f").stat())
    facts[stat.ST_UID] += 1
    asked: list[tuple[int, int]] = []

    def refuse(descriptor: int, owner: int, group: int) -> None:
        asked.append((owner, group))
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(replace_module.os, "fchown", refuse)
    with guard.locate("f", "write") as location, location.replace(old=os.stat_result(facts)) as replacement:
        os.write(replacement.descriptor, b"new")
        made = replacement.commit()
    assert asked == [(os.geteuid() + 1, facts[stat.ST_GID])]
    assert (made.st_uid, (base / "f").read_bytes()) == (os.geteuid(), b"new")


def test_the_temporary_file_is_never_more_open_than_the_one_it_replaces(guard: PathGuard, base: Path) -> None:
    (base / "f").write_text("old")
    os.chmod(base / "f", 0o600)
    with guard.locate("f", "write") as location, location.replace() as replacement:
        assert stat.S_IMODE(os.fstat(replacement.descriptor).st_mode) == 0o600


@pytest.mark.field(43)
def test_field_043_a_reader_sees_the_old_file_until_the_new_one_is_whole(guard: PathGuard, base: Path) -> None:
    (base / "f").write_bytes(b"old")
    with guard.locate("f", "write") as location, location.replace() as replacement:
        os.write(replacement.descriptor, b"ne")
        assert (base / "f").read_bytes() == b"old"
        reader = os.open(base / "f", os.O_RDONLY)
        os.write(replacement.descriptor, b"w")
        replacement.commit()
        assert (base / "f").read_bytes() == b"new"
        assert os.read(reader, 10) == b"old"
        os.close(reader)
        assert not replacement.replaced_directly


@pytest.mark.finding("R1-F3")
def test_leaving_without_a_commit_leaves_nothing(guard: PathGuard, base: Path) -> None:
    (base / "f").write_bytes(b"old")
    with guard.locate("f", "write") as location:
        with pytest.raises(RuntimeError), location.replace() as replacement:
            os.write(replacement.descriptor, b"half")
            assert len(names(base)) == 2
            raise RuntimeError
        replacement.close()
        with location.replace() as replacement:
            os.unlink(base / next(name for name in names(base) if name != "f"))
    assert names(base) == ["f"]
    assert (base / "f").read_bytes() == b"old"


def test_writing_through_a_link_writes_its_target(guard: PathGuard, base: Path) -> None:
    (base / "f").write_bytes(b"old")
    (base / "l").symlink_to("f")
    (base / "gone").symlink_to("made")
    write(guard, "l", b"new")
    write(guard, "gone", b"made")
    assert (base / "f").read_bytes() == b"new"
    assert (base / "made").read_bytes() == b"made"
    assert os.readlink(base / "l") == "f"


def test_a_directory_is_not_replaced(guard: PathGuard, base: Path) -> None:
    (base / "d").mkdir()
    for path in ("d", "."):
        with guard.locate(path, "write") as location:
            assert code_of(location.replace) == "not_found"
    with guard.locate("d", "write") as location:
        assert code_of(lambda: location.replace(overwrite=False)) == "file_exists"
    assert names(base) == ["d"]


def test_without_overwriting_only_a_new_name_is_taken(guard: PathGuard, base: Path) -> None:
    with guard.locate("f", "write") as location:
        with location.replace(overwrite=False) as replacement:
            os.write(replacement.descriptor, b"first")
            replacement.commit(mode=0o640)
        assert code_of(lambda: location.replace(overwrite=False)) == "file_exists"
    with guard.locate("g", "write") as location, location.replace(overwrite=False) as replacement:
        (base / "g").write_bytes(b"quicker")
        assert code_of(replacement.commit) == "file_exists"
    assert (base / "f").read_bytes() == b"first"
    assert (base / "f").stat().st_nlink == 1
    assert (base / "g").read_bytes() == b"quicker"
    assert names(base) == ["f", "g"]


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EBUSY])
def test_where_renaming_is_impossible_the_target_is_written_and_the_receipt_says_so(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    (base / "f").write_bytes(b"something longer")
    kept = (base / "f").stat().st_ino
    with guard.locate("f", "write") as location, location.replace(durable=True) as replacement:
        os.write(replacement.descriptor, b"new")
        fails(monkeypatch, replace_module, "rename", number)
        facts = replacement.commit(mode=0o600, mtime=7)
        assert replacement.replaced_directly
    assert (facts.st_ino, facts.st_size, facts.st_mtime, stat.S_IMODE(facts.st_mode)) == (kept, 3, 7, 0o600)
    assert (base / "f").read_bytes() == b"new"
    assert names(base) == ["f"]


def test_where_linking_is_impossible_a_new_name_is_written_directly(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("f", "g"):
        with guard.locate(name, "write") as location, location.replace(overwrite=False) as replacement:
            os.write(replacement.descriptor, b"new")
            fails(monkeypatch, replace_module, "link", errno.EPERM)
            if name == "g":
                (base / "g").write_bytes(b"quicker")
                assert code_of(replacement.commit) == "file_exists"
            else:
                replacement.commit()
    assert (base / "f").read_bytes() == b"new"
    assert (base / "g").read_bytes() == b"quicker"
    assert names(base) == ["f", "g"]


def test_other_failures_of_putting_a_file_in_place_are_the_systems_own_errors(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for call, overwrite in (("rename", True), ("link", False)):
        with guard.locate("f", "write") as location, location.replace(overwrite=overwrite) as replacement:
            fails(monkeypatch, replace_module, call, errno.EIO)
            with pytest.raises(OSError, match="Input/output"):
                replacement.commit()
    assert names(base) == []


def test_writing_directly_never_goes_through_a_link_or_into_a_pipe(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base.parent / "outside").write_bytes(b"outside")
    with guard.locate("f", "write") as location, location.replace() as replacement:
        (base / "f").symlink_to("../outside")
        fails(monkeypatch, replace_module, "rename", errno.EXDEV)
        with pytest.raises(OSError, match="symbolic links"):
            replacement.commit()
    os.unlink(base / "f")
    with guard.locate("f", "write") as location, location.replace() as replacement:
        os.mkfifo(base / "f")
        reader = os.open(base / "f", os.O_RDONLY | os.O_NONBLOCK)
        fails(monkeypatch, replace_module, "rename", errno.EXDEV)
        assert code_of(replacement.commit) == "not_found"
        os.close(reader)
    assert (base.parent / "outside").read_bytes() == b"outside"


def test_a_durable_file_is_flushed_with_its_directory(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (flushed.append(os.readlink(f"/proc/self/fd/{fd}")), real(fd)))
    with guard.locate("f", "write") as location, location.replace(durable=True) as replacement:
        replacement.commit()
    assert flushed[0].endswith(".part")
    assert flushed[-1] == str(base)
    assert (base / "f").exists()


def test_no_lock_on_a_file_system_without_locks(guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(parts_module.fcntl, "flock", refuse)
    write(guard, "f", b"x")
    assert names(base) == ["f"]


def test_a_root_itself_is_no_place_for_a_file(guard_of: GuardOf, base: Path) -> None:
    with guard_of(allow=[base / "none"]).default("write") as location:
        assert code_of(location.replace) == "not_found"


# Removing


def test_a_file_a_link_and_a_directory_are_removed(guard: PathGuard, base: Path) -> None:
    (base / "keep").mkdir()
    (base / "keep/f").write_text("x")
    (base / "d/e/f").mkdir(parents=True)
    (base / "d/e/file").write_text("x")
    (base / "d/out").symlink_to(base / "keep")
    os.mkfifo(base / "d/fifo")
    (base / "l").symlink_to("keep/f")
    (base / "gone").symlink_to("none")
    (base / "f").write_text("x")
    for path in ("d", "l", "gone", "f"):
        remove(guard, path)
    assert names(base) == ["keep"]
    assert names(base / "keep") == ["f"]


@pytest.mark.field(49)
def test_field_049_what_is_missing_cannot_be_removed_or_moved(guard: PathGuard, base: Path) -> None:
    for path in ("none", "none/deeper"):
        with pytest.raises(FileNotFoundError):
            remove(guard, path)
        with pytest.raises(FileNotFoundError):
            move(guard, path, "x")
        with guard.locate(path, "read") as location, pytest.raises(FileNotFoundError):
            location.stat()
    assert names(base) == []


def test_roots_and_what_holds_them_stay(guard_of: GuardOf, base: Path) -> None:
    (base / "a/b").mkdir(parents=True)
    guard = guard_of(allow=[base, base / "a/b"])
    for path in (".", "a", "a/b"):
        with guard.locate(path, "delete", follow=False) as location:
            assert code_of(location.remove) == "path_denied"
            with guard.locate("new", "write") as target:
                assert code_of(lambda location=location, target=target: location.move_to(target)) == "path_denied"
    everything = guard_of(allow=["/"])
    with everything.locate("/", "delete") as location:
        assert code_of(location.remove) == "path_denied"
    assert (base / "a/b").is_dir()


@pytest.mark.parametrize("pattern", ["*.pem", "BASE/d/e/k.pem", "e/*.pem"])
def test_a_tree_with_a_denied_entry_is_not_touched(guard_of: GuardOf, base: Path, pattern: str) -> None:
    (base / "d/e").mkdir(parents=True)
    (base / "d/e/k.pem").write_text("x")
    (base / "d/a").write_text("x")
    (base / "new").mkdir()
    guard = guard_of(deny=[pattern.replace("BASE", str(base))])
    assert code_of(lambda: remove(guard, "d")) == "path_denied"
    assert code_of(lambda: move(guard, "d", "new")) == "path_denied"
    assert sorted(str(path.relative_to(base)) for path in base.rglob("*")) == ["d", "d/a", "d/e", "d/e/k.pem", "new"]
    remove(guard_of(), "d")
    assert names(base) == ["new"]


@pytest.mark.finding("R1-F2")
def test_a_tree_cannot_be_moved_to_where_its_names_are_denied(guard_of: GuardOf, base: Path) -> None:
    (base / "d/secret").mkdir(parents=True)
    guard = guard_of(deny=[f"{base}/private/secret"])
    assert code_of(lambda: move(guard, "d", "private")) == "path_denied"
    assert move(guard, "d", "public") == f"{base}/public"


def test_a_tree_with_a_file_of_two_names_is_not_touched_where_the_rule_says_so(guard_of: GuardOf, base: Path) -> None:
    (base / "d").mkdir()
    (base / "f").write_text("x")
    os.link(base / "f", base / "d/f")
    assert code_of(lambda: remove(guard_of(hardlinks="deny"), "d")) == "hardlink_denied"
    assert names(base / "d") == ["f"]
    os.unlink(base / "f")
    remove(guard_of(hardlinks="deny"), "d")
    assert names(base) == []


def test_a_tree_too_large_to_be_judged_is_not_touched(
    guard_of: GuardOf, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard_module, "MOST_JUDGED", 10)
    (base / "d").mkdir()
    for number in range(11):
        (base / "d" / str(number)).write_text("x")
    assert code_of(lambda: remove(guard_of(deny=["x"]), "d")) == "path_denied"
    assert len(names(base / "d")) == 11
    os.unlink(base / "d/0")
    remove(guard_of(deny=["x"]), "d")
    assert names(base) == []


def _deep(base: Path, levels: int) -> None:
    current = os.open(base, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("deep", dir_fd=current)
        below = os.open("deep", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = below
    os.close(os.open("bottom", os.O_WRONLY | os.O_CREAT, dir_fd=current))
    os.close(current)


def test_a_deep_tree_takes_few_descriptors_and_no_recursion(
    guard_of: GuardOf, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _deep(base, 1100)
    guard = guard_of(deny=["*.pem"])
    real = os.rename

    def other_device(source: Any, target: Any, **options: Any) -> None:
        if source == "deep":
            raise OSError(errno.EXDEV, "other device")
        real(source, target, **options)

    monkeypatch.setattr(os, "rename", other_device)
    with few_descriptors(12):
        assert move(guard, "deep", "copied") == f"{base}/copied"
        with guard.locate("copied/" + "deep/" * 700 + "x", "read") as location:
            assert location.missing
        remove(guard, "copied")
    assert names(base) == []


def test_paths_too_long_to_be_named_are_not_judged_by_whole_path_patterns(guard_of: GuardOf, base: Path) -> None:
    _deep(base, 850)
    assert code_of(lambda: remove(guard_of(deny=["a/b"]), "deep")) == "path_denied"
    remove(guard_of(deny=["b"]), "deep")
    assert names(base) == []


def test_what_others_remove_meanwhile_does_not_stop_a_removal(
    guard_of: GuardOf, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step finds its entry gone already."""
    for name in ("rmdir", "unlink"):
        real = getattr(os, name)

        def twice(path: Any, *, real: Any = real, **options: Any) -> None:
            real(path, **options)
            real(path, **options)

        monkeypatch.setattr(tree_module.os, name, twice)
    (base / "d/e/f").mkdir(parents=True)
    (base / "d/e/file").write_text("x")
    remove(guard_of(), "d")
    assert names(base) == []


@pytest.mark.parametrize("gone", ["d/e/f", "d/e", "d"])
def test_a_directory_that_vanishes_under_the_removal_counts_as_removed(
    guard_of: GuardOf, base: Path, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    (base / "d/e/f").mkdir(parents=True)
    listing = tree_module.Cursor.listing

    def late(cursor: tree_module.Cursor) -> Any:
        found = listing(cursor)
        if os.fstat(cursor.descriptor).st_ino == inode:
            shutil.rmtree(base / gone)
        return found

    def early(cursor: tree_module.Cursor) -> Any:
        if os.path.lexists(base / gone) and os.fstat(cursor.descriptor).st_ino == inode:
            shutil.rmtree(base / gone)
        return listing(cursor)

    for stage in (late, early):
        for place in ("d", "d/e", "d/e/f"):
            (base / "d/e/f").mkdir(parents=True, exist_ok=True)
            inode = (base / place).stat().st_ino
            if not (gone + "/").startswith(place + "/"):
                continue
            with monkeypatch.context() as patched:
                patched.setattr(tree_module.Cursor, "listing", stage)
                remove(guard_of(), "d")
            assert names(base) == []


def test_a_tree_is_judged_although_entries_come_and_go(
    guard_of: GuardOf, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "d/e").mkdir(parents=True)
    (base / "d/f").write_text("x")
    listing = tree_module.Cursor.listing
    monkeypatch.setattr(
        tree_module.Cursor,
        "listing",
        lambda cursor: ([*listing(cursor)[0], "gone"], [*listing(cursor)[1], "gone too"]),
    )
    remove(guard_of(hardlinks="deny"), "d")
    assert names(base) == []


def test_a_directory_moved_away_while_it_is_removed_stops_the_removal(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "d/e").mkdir(parents=True)
    (base / "d/e/f").write_text("x")
    (base / "other/inner").mkdir(parents=True)
    (base / "other/precious").write_text("x")
    real = os.unlink

    def unlink_then_move(name: Any, **options: Any) -> None:
        real(name, **options)
        os.rename(base / "d/e", base / "other/inner/e")

    monkeypatch.setattr(os, "unlink", unlink_then_move)
    assert code_of(lambda: remove(guard, "d")) == "conflict"
    assert (base / "other/precious").exists()


# Moving


def test_moving_renames_and_makes_parents(guard: PathGuard, base: Path) -> None:
    (base / "f").write_text("x")
    (base / "d/e").mkdir(parents=True)
    (base / "l").symlink_to("f")
    assert move(guard, "f", "new/g") == f"{base}/new/g"
    assert move(guard, "d", "new/d2") == f"{base}/new/d2"
    assert move(guard, "l", "new/l") == f"{base}/new/l"
    assert names(base) == ["new"]
    assert names(base / "new") == ["d2", "g", "l"]
    assert os.readlink(base / "new/l") == "f"


@pytest.mark.field(44)
def test_field_044_an_existing_directory_receives_what_is_moved(guard: PathGuard, base: Path) -> None:
    (base / "d").mkdir()
    (base / "f").write_text("x")
    (base / "g").write_text("y")
    assert move(guard, "f", "d") == f"{base}/d/f"
    assert move(guard, "g", "d/f") == f"{base}/d/f"
    assert (base / "d/f").read_text() == "y"
    (base / "alias").symlink_to("d")
    (base / "h").write_text("z")
    assert move(guard, "h", "alias") == f"{base}/d/h"
    assert move(guard, "d/h", ".") == f"{base}/h"


def test_moving_onto_itself_changes_nothing(guard: PathGuard, base: Path) -> None:
    (base / "f").write_text("x")
    assert move(guard, "f", "f") == f"{base}/f"
    assert (base / "f").read_text() == "x"


def test_moving_onto_another_name_of_the_same_file_leaves_that_name_only(guard: PathGuard, base: Path) -> None:
    (base / "f").write_text("x")
    os.link(base / "f", base / "g")
    assert move(guard, "f", "g") == f"{base}/g"
    assert names(base) == ["g"]
    assert (base / "g").read_text() == "x"


def test_what_is_in_the_way_is_named(guard: PathGuard, base: Path) -> None:
    (base / "d/x").mkdir(parents=True)
    (base / "x").write_text("file")
    (base / "e").mkdir()
    (base / "e/d").write_text("file")
    (base / "full/d/y").mkdir(parents=True)
    for source, destination, code in (
        ("x", "d", "file_exists"),
        ("d", "e", "file_exists"),
        ("d", "full", "file_exists"),
        ("x", "x/y", "conflict"),
        ("d", "d", "conflict"),
        ("d", "d/x", "conflict"),
        ("d", "d/new", "conflict"),
    ):
        assert code_of(lambda source=source, destination=destination: move(guard, source, destination)) == code
    assert (base / "x").read_text() == "file"


def test_other_failures_of_moving_are_the_systems_own_errors(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "f").write_text("x")
    fails(monkeypatch, tree_module, "rename", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        move(guard, "f", "g")
    assert names(base) == ["f"]


def test_between_file_systems_everything_is_copied_and_then_removed(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "d/e").mkdir(parents=True)
    (base / "d/e/f").write_bytes(b"\x00" * 100_000 + b"end")
    os.chmod(base / "d/e/f", 0o741)
    os.utime(base / "d/e/f", ns=(1_000, 2_000))
    (base / "d/l").symlink_to("e/f")
    os.chmod(base / "d/e", 0o750)
    os.utime(base / "d/e", ns=(3_000, 4_000))
    (base / "single").write_text("x")
    for source in ("d", "single"):
        fails(monkeypatch, tree_module, "rename", errno.EXDEV)
        assert move(guard, source, f"new/{source}") == f"{base}/new/{source}"
    assert names(base) == ["new"]
    file, directory = (base / "new/d/e/f").stat(), (base / "new/d/e").stat()
    assert (base / "new/d/e/f").read_bytes() == b"\x00" * 100_000 + b"end"
    assert (stat.S_IMODE(file.st_mode), file.st_mtime_ns) == (0o741, 2_000)
    assert (stat.S_IMODE(directory.st_mode), directory.st_mtime_ns) == (0o750, 4_000)
    assert os.readlink(base / "new/d/l") == "e/f"
    assert (base / "new/single").read_text() == "x"


def test_a_copy_that_fails_leaves_the_original_and_no_rest(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "d/e").mkdir(parents=True)
    (base / "d/e/f").write_text("x")
    os.mkfifo(base / "d/e/g")
    fails(monkeypatch, tree_module, "rename", errno.EXDEV)
    assert code_of(lambda: move(guard, "d", "new")) == "conflict"
    os.mkfifo(base / "p")
    fails(monkeypatch, tree_module, "rename", errno.EXDEV)
    assert code_of(lambda: move(guard, "p", "q")) == "conflict"
    assert names(base) == ["d", "p"]
    assert names(base / "d/e") == ["f", "g"]


# Together


def test_what_is_written_at_once_is_seen_by_the_next_reader(guard: PathGuard, base: Path) -> None:
    """Writers of one name in many threads: the file is always one of theirs, whole."""
    contents = [bytes([65 + number]) * 5000 for number in range(4)]
    seen: set[bytes] = set()

    def keep_writing(data: bytes) -> None:
        for _ in range(20):
            write(guard, "f", data)

    write(guard, "f", contents[0])
    threads = [threading.Thread(target=keep_writing, args=(data,)) for data in contents]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with guard.locate("f", "read") as location:
            seen.add(content(location))
    for thread in threads:
        thread.join()
    assert seen <= set(contents)
    assert names(base) == ["f"]


def test_a_sweep_passes_over_what_it_may_not_read(
    guards: PathGuards, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("closed", "open"):
        (base / name).mkdir()
        (base / name / ".nsb-1.part").write_text("x")
    down = tree_module.Cursor.down

    def closed(cursor: tree_module.Cursor, name: str) -> None:
        if name == "closed":
            raise PermissionError(errno.EACCES, "no")
        down(cursor, name)

    monkeypatch.setattr(tree_module.Cursor, "down", closed)
    assert guards.sweep() == 1
    assert names(base / "closed") == [".nsb-1.part"]
    with guards.of(PathRule(deny=("x",))).locate(".", "read") as location, location.child("open") as child:
        child.remove()
    (base / "d/closed").mkdir(parents=True)
    with guards.of(PathRule(deny=("x",))).locate("d", "delete") as location, pytest.raises(PermissionError):
        location.remove()


def test_a_directory_that_was_moved_meanwhile_cannot_move_into_itself_either(
    guards: PathGuards, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / "d").mkdir()

    def circular(*_: object) -> None:
        raise OSError(errno.EINVAL, "no")

    monkeypatch.setattr("sandbox_server.guards.location.move_entry", circular)
    guard = guards.of(PathRule())
    with guard.locate("d", "delete") as source, guard.locate("e", "write") as target, pytest.raises(Refusal) as refused:
        source.move_to(target)
    assert refused.value.code == "conflict"
