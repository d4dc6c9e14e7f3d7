"""Which paths are judged how, before and after links are looked at."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_server.access import OPS, PathRule
from sandbox_server.guards.paths import PathGuard, PathGuards
from sandbox_server.messages import Refusal
from tests.support.forks import fork

from .conftest import STEADY, GuardOf, shown


def refused(guard: PathGuard, path: Any, op: Any = "read", **options: Any) -> str:
    with pytest.raises(Refusal) as caught:
        guard.locate(path, op, **options).close()
    return caught.value.code


def located(guard: PathGuard, path: Any, op: Any = "read", **options: Any) -> str:
    with guard.locate(path, op, **options) as location:
        return location.path


# As text


@pytest.mark.finding("R2-S17")
@pytest.mark.parametrize("raw", [None, 5, b"a", ["a"], "", "a\0b", "a" * 4097, "half \ud83d of a pair"])
def test_what_is_no_path_is_refused_as_such(guard: PathGuard, raw: object) -> None:
    assert refused(guard, raw) == "invalid_path"
    with pytest.raises(Refusal) as caught:
        guard.check(raw, "read")
    assert caught.value.status == 400


def test_a_name_that_is_not_utf_8_is_a_path_like_any_other(guard: PathGuard, base: Path) -> None:
    name = os.fsdecode(b"\xff\xfe.bin")
    (base / name).write_bytes(b"x")
    with guard.locate(name, "read") as location:
        assert location.stat().st_size == 1


@pytest.mark.finding("R2-S20")
def test_names_that_look_alike_are_different_files(guard: PathGuard, base: Path) -> None:
    composed, decomposed, full_width = "caf\u00e9", "cafe\u0301", "\uff0e\uff0e"
    (base / composed).write_text("composed")
    with guard.locate(decomposed, "read") as location:
        assert location.missing
    assert located(guard, f"{full_width}/x") == f"{base}/{full_width}/x"


@pytest.mark.field(5)
def test_field_005_a_name_that_looks_encoded_is_taken_as_it_is(guard: PathGuard, base: Path) -> None:
    (base / "%2e%2e%2fetc").write_text("literal")
    with guard.locate("%2e%2e%2fetc", "read") as location:
        descriptor = location.open()
    assert os.read(descriptor, 10) == b"literal"
    os.close(descriptor)


@pytest.mark.field(10)
@pytest.mark.parametrize("name", ["-rf", "--help.txt", "~", "~root", "$HOME", "a b", ";x", "a\nb"])
def test_field_010_odd_names_are_plain_data(guard: PathGuard, base: Path, name: str) -> None:
    assert located(guard, name) == f"{base}/{name}"


@pytest.mark.field(146)
@pytest.mark.field(155)
@pytest.mark.parametrize("path", ["../x", "a/../../x", "..", "./..", "/", "//etc", "/etc/passwd", "a/../../base-evil"])
def test_field_146_a_path_cannot_climb_out(guard: PathGuard, path: str) -> None:
    assert refused(guard, path) == "path_not_allowed"


@pytest.mark.field(155)
@pytest.mark.parametrize(
    "spelling", ["a.txt", "./a.txt", "sub/../a.txt", "BASE//a.txt", "//BASE/a.txt", "BASE/a.txt/", "a.txt/."]
)
def test_field_155_one_file_has_one_path(guard: PathGuard, base: Path, spelling: str) -> None:
    (base / "a.txt").write_text("x")
    path = spelling.replace("BASE", str(base))
    assert located(guard, path) == guard.check(path, "read") == f"{base}/a.txt"


def test_components_are_compared_and_not_the_beginning_of_the_text(guard_of: GuardOf, tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root-evil").mkdir()
    assert refused(guard_of(allow=[tmp_path / "root"]), f"{tmp_path}/root-evil/x") == "path_not_allowed"


@pytest.mark.finding("R2-S5")
def test_a_path_outside_is_refused_without_a_look(
    guard: PathGuard, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = base.parent / "there"
    there.write_text("x")

    def look(*_: object, **__: object) -> Any:
        raise AssertionError("looked at the file system")

    answers = []
    with monkeypatch.context() as patched:
        for name in ("open", "stat", "lstat", "readlink", "access"):
            patched.setattr(os, name, look)
        patched.setattr(type(guard.door), "try_open", look)
        for path in (there, base.parent / "nope_"):
            with pytest.raises(Refusal) as caught:
                guard.locate(str(path), "read")
            answers.append(caught.value.body() | {"error": caught.value.message.replace(path.name, "")})
    assert answers[0] == answers[1]
    assert answers[0]["code"] == "path_not_allowed"


@pytest.mark.finding("R2-S5")
def test_a_link_out_gets_the_same_answer_whatever_is_there(guard: PathGuard, base: Path) -> None:
    (base.parent / "there").write_text("x")
    (base / "l").symlink_to(base.parent / "there")
    with pytest.raises(Refusal) as first:
        guard.locate("l", "read")
    (base.parent / "there").unlink()
    with pytest.raises(Refusal) as second:
        guard.locate("l", "read")
    assert first.value.body() == second.value.body()
    assert first.value.code == "path_not_allowed"
    assert "there" not in first.value.message


@pytest.mark.finding("R1-F5")
def test_checking_text_never_looks(guard_of: GuardOf, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = guard_of(deny=["*.pem"], read_only=True)
    monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("looked"))
    assert guard.check("nope", "read") == f"{base}/nope"
    for path, op, code in (
        ("k.pem", "read", "path_denied"),
        ("x", "write", "read_only"),
        ("/x", "read", "path_not_allowed"),
    ):
        with pytest.raises(Refusal) as caught:
            guard.check(path, op)
        assert caught.value.code == code


# Roots


@pytest.mark.finding("R2-S6")
def test_relative_paths_begin_at_the_first_root(guard_of: GuardOf, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    guard = guard_of(allow=[tmp_path / "one", tmp_path / "two"])
    assert located(guard, "x") == f"{tmp_path}/one/x"
    assert located(guard, "../two/x") == f"{tmp_path}/two/x"
    assert guard.base == f"{tmp_path}/one"
    with guard.default("exec") as location:
        assert (location.path, location.is_root, location.name) == (f"{tmp_path}/one", True, "one")


@pytest.mark.field(152)
def test_field_152_an_empty_list_allows_nothing_and_none_means_the_base(guard_of: GuardOf, base: Path) -> None:
    nothing = guard_of(allow=[])
    assert nothing.roots == () and nothing.base == "/"
    assert refused(nothing, "x") == refused(nothing, str(base)) == "path_not_allowed"
    with pytest.raises(Refusal):
        nothing.default("read")
    assert guard_of().roots == (str(base),)


@pytest.mark.field(149)
def test_field_149_a_root_may_say_that_all_below_it_is_meant(guard_of: GuardOf, base: Path) -> None:
    guard = guard_of(allow=[f"{base}/w/**"])
    (base / "w").mkdir()
    assert guard.roots == (f"{base}/w",)
    assert located(guard, "a/b") == f"{base}/w/a/b"
    assert refused(guard, str(base / "v")) == "path_not_allowed"


def test_the_root_of_everything_and_slashes_at_the_end_work(guard_of: GuardOf, base: Path) -> None:
    everything = guard_of(allow=["/"])
    assert located(everything, "/etc/hostname") == "/etc/hostname"
    assert located(everything, "etc") == "/etc"
    assert located(everything, "/") == "/"
    assert located(everything, "..") == "/"
    assert located(guard_of(allow=[f"{base}//sub/"]), "x") == f"{base}/sub/x"


@pytest.mark.finding("R2-S16")
@pytest.mark.parametrize("path", ["/proc", "/proc/self/environ", "/sys/kernel", "/dev/null", "/dev/shm/x"])
def test_the_kernels_own_directories_are_never_reachable(guard_of: GuardOf, base: Path, path: str) -> None:
    everything = guard_of(allow=["/"])
    assert refused(everything, path) == "path_denied"
    (base / "l").symlink_to(path)
    assert refused(everything, str(base / "l")) == "path_denied"
    assert "dev" not in shown(everything, "/")
    assert refused(guard_of(allow=["/proc"]), "/proc/self") == "path_denied"


def test_a_root_reached_through_a_link_is_allowed_under_both_names(
    guard_of: GuardOf, tmp_path: Path, base: Path
) -> None:
    (tmp_path / "alias").symlink_to(base)
    (base / "a").write_text("x")
    guard = guard_of(allow=[tmp_path / "alias"], symlinks="never")
    assert guard.roots == (f"{tmp_path}/alias",)
    for path in ("a", f"{tmp_path}/alias/a", f"{base}/a"):
        assert located(guard, path) == f"{base}/a"
    assert located(guard, f"{tmp_path}/alias") == str(base)


def test_a_pattern_may_name_a_root_by_either_of_its_names(guard_of: GuardOf, tmp_path: Path, base: Path) -> None:
    (tmp_path / "alias").symlink_to(base)
    for pattern in (f"{tmp_path}/alias/s", f"{base}/s"):
        guard = guard_of(allow=[tmp_path / "alias"], deny=[pattern])
        assert refused(guard, f"{tmp_path}/alias/s/x") == "path_denied"
    with pytest.raises(Refusal):
        guard_of(allow=[tmp_path / "alias"], deny=[f"{base}/s"]).check(f"{tmp_path}/alias/s", "read")


def test_a_missing_root_is_found_once_it_exists(guard_of: GuardOf, base: Path) -> None:
    guard = guard_of(allow=[base / "later/root"])
    with guard.locate("a", "read") as location:
        assert location.missing
    with guard.default("read") as location:
        assert location.missing and location.is_root
        with pytest.raises(Refusal, match="no directory"):
            location.open_directory()
    (base / "later/root").mkdir(parents=True)
    (base / "later/root/a").write_text("x")
    with guard.locate("a", "read") as location:
        assert location.stat().st_size == 1


def test_a_missing_root_that_appears_as_a_link_is_not_followed(guard_of: GuardOf, base: Path) -> None:
    guard = guard_of(allow=[base / "root"])
    (base / "root").symlink_to("/etc")
    with guard.locate("hostname", "read") as location:
        assert location.missing
        with pytest.raises(Refusal, match="no file"):
            location.open()
    with guard.locate("new", "write") as location, pytest.raises(Refusal) as caught:
        location.replace()
    assert caught.value.code == "file_exists"
    assert not os.path.lexists("/etc/new")


def test_a_missing_root_is_made_with_what_is_written_into_it(guard_of: GuardOf, base: Path) -> None:
    guard = guard_of(allow=[base / "x/y"])
    with guard.locate("d/f", "write") as location, location.replace() as replacement:
        os.write(replacement.descriptor, b"1")
        replacement.commit()
    assert (base / "x/y/d/f").read_bytes() == b"1"
    shutil.rmtree(base / "x")
    with guard.default("write") as location:
        location.make_directories()
        assert not location.missing
    assert (base / "x/y").is_dir()


def test_a_root_that_was_removed_and_made_again_is_that_directory(guard: PathGuard, base: Path) -> None:
    shutil.rmtree(base)
    with guard.locate("a", "read") as location:
        assert location.missing
    base.mkdir()
    (base / "a").write_text("new")
    assert shown(guard) == ["a"]
    shutil.rmtree(base)
    base.mkdir()
    with guard.locate("b", "write") as location, location.replace() as replacement:
        replacement.commit()
    assert (base / "b").exists()
    shutil.rmtree(base)
    base.mkdir()
    (base / "c").mkdir()
    (base / "c/d").write_text("x")
    with guard.locate("c/d", "read") as location:
        assert location.stat().st_size == 1


def test_guards_of_one_rule_are_one_and_share_their_directories(guards: PathGuards, base: Path) -> None:
    assert guards.of(PathRule(deny=("x",))) is guards.of(PathRule(deny=("x",)))
    assert guards.of(PathRule()).roots == guards.of(PathRule(allow=(f"{base}/",))).roots


# Narrowing


def test_narrowing_takes_the_smaller_of_nested_directories(guard_of: GuardOf, base: Path) -> None:
    guard = guard_of(allow=[base / "w", base / "v/deep"], within=[[base / "w/alice", base / "v"]])
    assert guard.roots == (f"{base}/w/alice", f"{base}/v/deep")
    assert located(guard, "x") == f"{base}/w/alice/x"
    assert refused(guard, f"{base}/w/bob") == refused(guard, f"{base}/w") == "path_not_allowed"
    assert guard_of(within=[[base / "a"], [base / "b"]]).roots == ()
    assert guard_of(within=[[base], [base / "b"]]).roots == (f"{base}/b",)
    assert guard_of(within=[[]]).roots == ()


def test_narrowing_also_binds_what_links_lead_to(guard_of: GuardOf, base: Path) -> None:
    (base / "alice").mkdir()
    (base / "bob").mkdir()
    (base / "bob/secret").write_text("x")
    (base / "alice/l").symlink_to("../bob/secret")
    assert located(guard_of(), "alice/l") == f"{base}/bob/secret"
    assert refused(guard_of(within=[[base / "alice"]]), "l") == "path_not_allowed"


_names = st.sampled_from(["a", "b", "c"])
_below = st.lists(_names, max_size=3).map(lambda names: "/".join(["/w", *names]))
_lists = st.lists(_below, max_size=3).map(tuple)


@given(allow=_lists, within=st.lists(_lists, max_size=2).map(tuple), path=_below)
@settings(STEADY)
def test_a_narrowed_rule_admits_what_every_list_admits(
    allow: tuple[str, ...], within: tuple[tuple[str, ...], ...], path: str
) -> None:
    def below(path: str, directories: tuple[str, ...]) -> bool:
        return any((path + "/").startswith(directory + "/") for directory in directories)

    guards = PathGuards("/")
    try:
        guards.of(PathRule(allow=allow, within=within)).check(path, "read")
        admitted = True
    except Refusal:
        admitted = False
    finally:
        guards.close()
    assert admitted == all(below(path, directories) for directories in (allow, *within))


# Links


@pytest.mark.field(143)
def test_field_143_links_are_judged_by_where_they_lead(guard: PathGuard, base: Path) -> None:
    (base / "etc").symlink_to("/etc")
    assert refused(guard, "etc/passwd") == refused(guard, "etc/passwd", "write") == "path_not_allowed"
    assert refused(guard, "etc/new", "write") == "path_not_allowed"


@pytest.mark.parametrize(
    ("target", "resolved"),
    [
        ("d", "d/x"),
        ("BASE/d", "d/x"),
        ("../base/d", "d/x"),
        ("BASE/../base/./d/", "d/x"),
        ("d/e/..", "d/x"),
        ("d/e/../e", "d/e/x"),
        ("up", "x"),
        ("gone", "gone/x"),
        ("gone/../d", "d/x"),
        ("gone/deeper/../../d", "d/x"),
        ("d/file/../e", "d/e/x"),
        ("d/file", "d/file/x"),
        ("d/hop", "d/e/x"),
        (".", "x"),
    ],
)
def test_links_within_are_followed_by_hand(guard: PathGuard, base: Path, target: str, resolved: str) -> None:
    (base / "d/e").mkdir(parents=True)
    (base / "d/file").write_text("x")
    (base / "up").symlink_to(".")
    (base / "d/hop").symlink_to("e")
    (base / "l").symlink_to(target.replace("BASE", str(base)))
    assert located(guard, "l/x") == f"{base}/{resolved}"


@pytest.mark.parametrize(
    "target", ["/etc", "../outside", "..", "../..", "BASE/../outside", "/", "../base-evil", "a/../../x"]
)
def test_links_that_leave_every_root_are_refused(guard: PathGuard, base: Path, target: str) -> None:
    (base / "l").symlink_to(target.replace("BASE", str(base)))
    assert refused(guard, "l") == refused(guard, "l/x") == "path_not_allowed"
    assert located(guard, "l", follow=False) == f"{base}/l"


def test_a_link_may_lead_from_one_root_into_another(guard_of: GuardOf, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (two / "f").write_text("x")
    (one / "relative").symlink_to("../two")
    (one / "absolute").symlink_to(two)
    (tmp_path / "alias").symlink_to(two)
    (one / "by_alias").symlink_to(tmp_path / "alias/f")
    guard = guard_of(allow=[one, two])
    assert located(guard, "relative/f") == located(guard, "absolute/f") == f"{two}/f"
    assert located(guard_of(allow=[one, tmp_path / "alias"]), "by_alias") == f"{two}/f"
    assert refused(guard_of(allow=[one]), "relative/f") == "path_not_allowed"
    assert refused(guard_of(allow=[one, two], symlinks="never"), "relative/f") == "symlink_denied"


def test_a_link_into_a_root_that_is_missing_leads_to_something_missing(guard_of: GuardOf, base: Path) -> None:
    (base / "one").mkdir()
    (base / "one/l").symlink_to(base / "two/x/../y")
    with guard_of(allow=[base / "one", base / "two"]).locate("l/z", "write") as location:
        assert location.missing
        assert location.path == f"{base}/two/y/z"
    (base / "one/back").symlink_to(base / "two/../one/f")
    assert located(guard_of(allow=[base / "one", base / "two"]), "back") == f"{base}/one/f"


def test_forty_links_are_followed_and_no_more(guard: PathGuard, base: Path) -> None:
    (base / "l0").write_text("x")
    for number in range(1, 42):
        (base / f"l{number}").symlink_to(f"l{number - 1}")
    with guard.locate("l40", "read") as location:
        assert (location.path, location.missing) == (f"{base}/l0", False)
    with guard.locate("l41", "read") as location:
        assert (location.path, location.missing) == (f"{base}/l41", True)


def test_a_loop_stands_for_itself_and_cannot_be_used(guard: PathGuard, base: Path) -> None:
    (base / "loop").symlink_to("loop")
    with guard.locate("loop", "write") as location:
        assert location.missing and location.readlink() == "loop"
        with pytest.raises(FileNotFoundError):
            location.stat()
        with pytest.raises(Refusal, match="no file"):
            location.open()
        with pytest.raises(Refusal, match="not a regular file"):
            location.replace()
        with pytest.raises(Refusal, match="in the way"):
            location.make_directories()
    with guard.locate("loop/x", "write") as location, pytest.raises(Refusal, match="in the way"):
        location.replace()
    assert os.readlink(base / "loop") == "loop"


def test_a_file_on_the_way_makes_what_is_below_missing(guard: PathGuard, base: Path) -> None:
    (base / "f").write_text("x")
    with guard.locate("f/a/b", "write") as location:
        assert location.missing and location.path == f"{base}/f/a/b"
        with pytest.raises(FileNotFoundError):
            location.stat()
        with pytest.raises(Refusal) as caught:
            location.make_directories()
        assert caught.value.code == "file_exists"


@pytest.mark.finding("R2-S10")
def test_deny_matches_the_path_as_given_and_as_resolved(guard_of: GuardOf, base: Path) -> None:
    (base / ".env").write_text("x")
    (base / "innocent").symlink_to(".env")
    (base / "a").write_text("x")
    (base / "alias").symlink_to("a")
    guard = guard_of(deny=["**/.env", "alias"])
    assert refused(guard, "innocent") == refused(guard, "alias") == refused(guard, "x/../.env") == "path_denied"
    assert located(guard, "innocent", "delete", follow=False) == f"{base}/innocent"
    assert located(guard, ".ENV") == f"{base}/.ENV"


@pytest.mark.field(151)
def test_field_151_a_pattern_of_a_parent_leaves_the_working_directory(guard_of: GuardOf, base: Path) -> None:
    assert located(guard_of(deny=["..", "../x", "."]), ".") == str(base)
    assert refused(guard_of(deny=[str(base.parent)]), ".") == "path_denied"


@pytest.mark.finding("R2-S5")
def test_what_lies_behind_a_denied_name_makes_no_difference(guard_of: GuardOf, base: Path) -> None:
    (base / "secret").mkdir()
    (base / "secret/out").symlink_to("/etc")
    guard = guard_of(deny=["secret"])
    assert refused(guard, "secret/out/passwd") == refused(guard, "secret/none") == "path_denied"


def test_refusals_come_in_the_order_of_the_contract(guard_of: GuardOf, base: Path) -> None:
    (base / "f").write_text("x")
    os.link(base / "f", base / "g")
    (base / "in").symlink_to("f")
    (base / "out").symlink_to("/etc")
    everything_wrong = guard_of(deny=["f"], symlinks="never", read_only=True, hardlinks="deny")
    assert refused(everything_wrong, "out", "write") == "path_not_allowed"
    assert refused(everything_wrong, "in", "write") == "symlink_denied"
    assert refused(everything_wrong, "f", "write") == "path_denied"
    assert refused(guard_of(read_only=True, hardlinks="deny"), "f", "write") == "read_only"
    assert refused(guard_of(read_only=True, hardlinks="deny"), "f", "exec") == "hardlink_denied"


def test_a_rule_without_links_refuses_a_link_itself_too(guard_of: GuardOf, base: Path) -> None:
    (base / "f").write_text("x")
    (base / "in").symlink_to("f")
    (base / "lost").symlink_to("none")
    guard = guard_of(symlinks="never")
    for name in ("in", "lost"):
        assert refused(guard, name, "delete", follow=False) == "symlink_denied"
    assert located(guard, "f", "delete", follow=False) == f"{base}/f"


@pytest.mark.parametrize("op", OPS)
def test_read_only_leaves_reading_and_executing(guard_of: GuardOf, op: Any) -> None:
    guard = guard_of(read_only=True)
    if op in ("write", "delete"):
        assert refused(guard, "x", op) == "read_only"
    else:
        located(guard, "x", op)


@pytest.mark.finding("R2-S9")
@pytest.mark.parametrize("op", OPS)
def test_a_file_with_two_names_is_refused_where_the_rule_says_so(guard_of: GuardOf, base: Path, op: Any) -> None:
    (base / "one").write_text("x")
    located(guard_of(hardlinks="deny"), "one", op)
    os.link(base / "one", base / "two")
    (base / "l").symlink_to("two")
    assert refused(guard_of(hardlinks="deny"), "two", op) == refused(guard_of(hardlinks="deny"), "l", op)
    assert refused(guard_of(hardlinks="deny"), "two", op) == "hardlink_denied"
    located(guard_of(), "two", op)
    located(guard_of(hardlinks="deny"), ".", op)


@pytest.mark.finding("R2-S9")
def test_a_second_name_made_after_the_judgement_is_seen_when_opening(guard_of: GuardOf, base: Path) -> None:
    (base / "f").write_text("x")
    with guard_of(hardlinks="deny").locate("f", "read") as location:
        os.link(base / "f", base / "g")
        with pytest.raises(Refusal) as caught:
            location.open()
    assert caught.value.code == "hardlink_denied"


def test_names_of_parts_cannot_be_used(guard: PathGuard, base: Path) -> None:
    (base / ".nsb-0123.part").write_text("x")
    assert refused(guard, ".nsb-0123.part") == refused(guard, "a/.nsb-x.part/b", "write") == "path_denied"
    assert located(guard, ".nsb-0123") == f"{base}/.nsb-0123"
    (base / "l").symlink_to(".nsb-0123.part")
    assert refused(guard, "l") == "path_denied"


def test_a_long_value_is_cut_in_a_refusal(guard: PathGuard) -> None:
    with pytest.raises(Refusal) as caught:
        guard.locate("/" + "x" * 3000, "read")
    assert len(caught.value.message) < 400


def test_a_name_longer_than_the_file_system_takes_is_the_systems_own_error(guard: PathGuard) -> None:
    for path in ("n" * 300, "n" * 300 + "/x"):
        with pytest.raises(OSError, match="File name too long"):
            guard.locate(path, "read")


# The cache


def test_what_is_cached_is_found_without_the_disk(guards: PathGuards, guard: PathGuard, base: Path) -> None:
    (base / "f").write_text("x")
    if guard.door._openat2 is None:
        with pytest.raises(BlockingIOError):
            guard.locate("f", "read", cached=True)
        return
    located(guard, "f")
    for _ in range(10_000):  # a mount or a rename anywhere makes the kernel give up; it may be asked again
        with suppress(BlockingIOError):
            assert located(guard, "f", cached=True) == f"{base}/f"
            break
    else:
        pytest.fail("never found in the cache")
    (base / "l").symlink_to("f")
    for path in ("l", "none", "f/x"):
        with pytest.raises(BlockingIOError):
            guard.locate(path, "read", cached=True)
    assert refused(guard, "/etc", cached=True) == "path_not_allowed"


def test_a_missing_root_is_for_somebody_who_may_wait(guard_of: GuardOf, base: Path) -> None:
    with pytest.raises(BlockingIOError):
        guard_of(allow=[base / "none"]).locate("x", "read", cached=True)


# Sweeping


def test_parts_without_a_writer_are_swept_and_others_stay(guards: PathGuards, guard_of: GuardOf, base: Path) -> None:
    (base / "d").mkdir()
    (base / "other").mkdir()
    guard_of(allow=[base / "other", "/"])
    for place in (".", "d", "other"):
        (base / place / ".nsb-0.part").write_text("stale")
    (base / ".nsb-dir.part/copied").mkdir(parents=True)
    (base / "keep.part").write_text("x")
    with guard_of().locate("f", "write") as location, location.replace() as replacement:
        assert guards.sweep() == 4
        replacement.commit()
    assert sorted(str(path.relative_to(base)) for path in base.rglob("*")) == [
        "d",
        "f",
        "keep.part",
        "other",
    ]


def test_a_part_of_a_writer_that_was_killed_is_swept_at_once(guards: PathGuards, guard_of: GuardOf, base: Path) -> None:
    def die() -> None:
        with guard_of().locate("f", "write") as location, location.replace() as replacement:
            os.write(replacement.descriptor, b"half")
            os.kill(os.getpid(), signal.SIGKILL)

    os.waitpid(fork(die), 0)
    assert len(os.listdir(base)) == 1
    assert guards.sweep() == 1
    assert os.listdir(base) == []


def test_a_sweep_of_closed_guards_touches_nothing(base: Path) -> None:
    guards = PathGuards(str(base))
    (base / ".nsb-0011223344556677.part").touch()
    guards.close()
    assert guards.sweep() == 0
    assert (base / ".nsb-0011223344556677.part").exists()


def test_a_sweep_ends_after_as_many_entries_as_it_may_see(guards: PathGuards, guard_of: GuardOf, base: Path) -> None:
    guard_of(allow=[base / "missing"])
    for number in range(5):
        (base / str(number)).mkdir()
        (base / str(number) / ".nsb-0.part").write_text("")
    assert guards.sweep(most_entries=6) < 5
    assert guards.sweep() >= 3
    assert guards.sweep() == 0


def test_a_part_that_cannot_be_opened_or_locked_stays(
    guards: PathGuards, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base / ".nsb-0.part").symlink_to("/etc/passwd")
    assert guards.sweep() == 0
    assert (base / ".nsb-0.part").is_symlink()
