"""Repositories that mean harm are only looked at: nothing of theirs runs, nothing outside is shown, nothing hangs."""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.confinement import Confinement
from sandbox_server.handlers import git as handler
from sandbox_server.process import kernel
from tests.server.core.harness import Answer, House, descriptors
from tests.support.repositories import git, repository
from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no way here: no git")
Make = Callable[..., House]
ON: dict[str, Any] = {"groups": ["dev_tools"]}


def status(house: House, path: str = "repo") -> Answer:
    return house.ask("GET", "/git/status", query=[("path", path)])


def diff(house: House, path: str = "repo", **more: str) -> Answer:
    return house.ask("GET", "/git/diff", query=[("path", path), *more.items()])


def looked_at(house: House, path: str = "repo") -> list[Answer]:
    return [status(house, path), diff(house, path), diff(house, path, staged="true"), diff(house, path, file="f.txt")]


@pytest.fixture
def repo(base: Path) -> Path:
    """One with a change in a committed file."""
    made = repository(base / "repo")
    (made / "f.txt").write_text("one\ntwo\n")
    return made


@pytest.fixture(params=[True, False], ids=["kernel", "alone"])
def mine(house: Make, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> House:
    """With the kernel's help, where there is any, and without."""
    if not request.param:
        monkeypatch.setattr(Confinement, "available", False)
    return house(ON)


@pytest.fixture
def trap(base: Path, tmp_path: Path) -> tuple[str, Path]:
    """A program, and the file that it makes when somebody runs it."""
    witness = tmp_path / "it-ran"
    program = base / "trap.sh"
    program.write_text(f"#!/bin/sh\necho ran >> {witness}\ncat\n")
    program.chmod(0o755)
    return str(program), witness


# -- nothing of theirs runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        ["core.fsmonitor={trap}"],
        ["core.hooksPath={folder}"],
        ["filter.evil.clean={trap}", "filter.evil.smudge={trap}", "filter.evil.required=true"],
        ["filter.evil.process={trap}"],
        ["diff.external={trap}"],
        ["diff.evil.textconv={trap}", "diff.evil.command={trap}"],
        ["core.pager={trap}", "pager.diff={trap}", "pager.status={trap}"],
        ["alias.status=!{trap}", "alias.diff=!{trap}"],
        ["core.sshCommand={trap}", "remote.origin.url=ext::{trap}", "extensions.partialClone=origin",
         "core.repositoryformatversion=1", "remote.origin.promisor=true"],
        ["core.editor={trap}", "core.askPass={trap}", "credential.helper=!{trap}", "gpg.program={trap}"],
        ["core.gitProxy={trap}", "uploadpack.packObjectsHook={trap}", "sequence.editor={trap}"],
        ["submodule.sub.update=!{trap}", "submodule.recurse=true", "status.submoduleSummary=true"],
        ["trace2.eventTarget={folder}/trace", "core.trustctime=false"],
    ],
    ids=lambda settings: settings[0].partition("=")[0],
)  # fmt: skip
def test_no_setting_of_a_repository_makes_anything_run(
    mine: House, repo: Path, trap: tuple[str, Path], settings: list[str]
) -> None:
    program, witness = trap
    (repo / ".gitattributes").write_text("* filter=evil diff=evil\n")
    for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout", "pre-commit"):
        shutil.copy(program, repo / hook)
        shutil.copy(program, repo / ".git" / "hooks" / hook)
    for setting in settings:
        name, _, value = setting.partition("=")
        git(repo, "config", name, value.format(trap=program, folder=repo))
    for answer in looked_at(mine):
        assert answer.status == 200, answer.body
    assert diff(mine).json["stats"]["insertions"] == 1
    assert not witness.exists()
    assert not (repo / "trace").exists()


@pytest.mark.parametrize("setting", ["core.fsmonitor", "filter.evil.clean", "diff.external", "diff.evil.textconv"])
def test_the_trap_works_where_git_is_asked_plainly(repo: Path, trap: tuple[str, Path], setting: str) -> None:
    program, witness = trap
    (repo / ".gitattributes").write_text("* filter=evil diff=evil\n")
    git(repo, "config", setting, program)
    for words in (["status"], ["diff"]):
        subprocess.run(["git", *words], cwd=repo, capture_output=True)
    assert witness.exists()


def test_an_included_configuration_is_not_read(mine: House, repo: Path, trap: tuple[str, Path]) -> None:
    program, witness = trap
    (repo / "more").write_text(f"[core]\n\tfsmonitor = {program}\n[diff]\n\texternal = {program}\n")
    git(repo, "config", "include.path", str(repo / "more"))
    git(repo, "config", "includeIf.gitdir:/.path", str(repo / "more"))
    assert [answer.status for answer in looked_at(mine)] == [200] * 4
    assert not witness.exists()


def test_a_submodule_is_not_entered(mine: House, repo: Path, base: Path, trap: tuple[str, Path]) -> None:
    program, witness = trap
    inner = repository(base / "inner")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    git(repo, "commit", "-q", "-m", "with a submodule")
    for setting in ("core.fsmonitor", "diff.external"):
        git(repo / "sub", "config", setting, program)
    (repo / "sub" / "f.txt").write_text("changed\n")
    assert [answer.status for answer in looked_at(mine)] == [200] * 4
    assert not witness.exists()
    assert status(mine, "repo/sub").json["files"] == [{"path": "f.txt", "status": "modified"}]


def test_the_environment_of_the_server_means_nothing_to_git(
    house: Make, repo: Path, trap: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    program, witness = trap
    hostile = {"GIT_EXTERNAL_DIFF": program, "GIT_DIR": "/nonexistent", "GIT_CONFIG_COUNT": "1",
               "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": program}  # fmt: skip
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    made = house(ON, environ=hostile)
    made.ask("POST", "/env", {"vars": hostile}, ("Content-Type", "application/json"))
    assert [answer.status for answer in looked_at(made)] == [200] * 4
    assert not witness.exists()


def test_the_repository_is_not_changed(mine: House, repo: Path) -> None:
    def everything() -> dict[str, str]:
        return {
            str(file.relative_to(repo)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in repo.rglob("*")
            if file.is_file()
        }

    before = everything()
    os.utime(repo / "f.txt", (1, 1))
    looked_at(mine)
    assert everything() == before


# -- nothing outside is shown ---------------------------------------------------------------------------------------


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A repository and a file outside of what is allowed."""
    outside = repository(tmp_path / "outside")
    (outside / "secret.txt").write_text("top secret\n")
    git(outside, "add", ".")
    git(outside, "commit", "-q", "-m", "the secret")
    (outside / "secret.txt").write_text("top secret, changed\n")
    return outside


def shows_nothing(answers: list[Answer]) -> None:
    for answer in answers:
        assert b"secret" not in answer.body.replace(b"trade", b""), answer.body
        assert answer.status < 500


def test_another_work_tree_is_not_used(mine: House, repo: Path, secret: Path) -> None:
    git(repo, "config", "core.worktree", str(secret))
    answers = looked_at(mine)
    shows_nothing(answers)
    assert answers[0].json["files"] == [{"path": "f.txt", "status": "modified"}]


@pytest.mark.parametrize("how", ["file", "link", "commondir"])
def test_a_git_directory_outside_is_refused(mine: House, repo: Path, secret: Path, how: str) -> None:
    if how == "commondir":
        (repo / ".git" / "commondir").write_text(f"{secret}/.git\n")
    else:
        shutil.rmtree(repo / ".git")
        if how == "file":
            (repo / ".git").write_text(f"gitdir: {secret}/.git\n")
        else:
            (repo / ".git").symlink_to(secret / ".git")
    answers = looked_at(mine)
    shows_nothing(answers)
    assert {answer.code for answer in answers} <= {"git_error", "path_not_allowed"}
    assert str(secret) not in "".join(answer.json["error"] for answer in answers)


@pytest.mark.parametrize("how", ["objects", "pack", "alternates"])
def test_objects_of_another_repository_are_not_read(mine: House, repo: Path, secret: Path, how: str) -> None:
    commit = git(secret, "rev-parse", "HEAD").strip()
    (repo / ".git" / "refs" / "heads" / "main").write_text(commit + "\n")
    objects = repo / ".git" / "objects"
    if how == "alternates":
        (objects / "info").mkdir(exist_ok=True)
        (objects / "info" / "alternates").write_text(f"{secret}/.git/objects\n")
    elif how == "objects":
        shutil.rmtree(objects)
        objects.symlink_to(secret / ".git" / "objects")
    else:
        git(secret, "gc", "-q")
        shutil.rmtree(objects / "pack")
        (objects / "pack").symlink_to(secret / ".git" / "objects" / "pack")
    answers = looked_at(mine)
    shows_nothing(answers)
    assert answers[2].code in ("git_error", "path_not_allowed")


@pytest.mark.parametrize("name", ["HEAD", "index", "packed-refs", "refs/heads/main", "config", "info/exclude"])
def test_a_link_in_the_git_directory_leads_nowhere_outside(mine: House, repo: Path, secret: Path, name: str) -> None:
    place = repo / ".git" / name
    place.unlink(missing_ok=True)
    place.symlink_to(secret / "secret.txt")
    shows_nothing(looked_at(mine))


def test_a_pipe_in_the_git_directory_holds_nobody_up(mine: House, repo: Path) -> None:
    for name in ("HEAD", "config", "index", "info/exclude"):
        (repo / ".git" / name).unlink()
        os.mkfifo(repo / ".git" / name)
    assert {answer.status for answer in looked_at(mine)} <= {400, 404}


@pytest.mark.parametrize(
    "name", ["../../outside/secret.txt", "/etc/passwd", "a//b", "./f.txt", "x/../../y", ".git/config"]
)
def test_an_index_that_names_files_outside_is_refused(mine: House, repo: Path, secret: Path, name: str) -> None:
    (repo / ".git" / "index").write_bytes(forged_index(name))
    answers = [status(mine), diff(mine)]
    shows_nothing(answers)
    assert {answer.code for answer in answers} == {"git_error"}


def test_an_index_with_an_endless_name_is_refused(mine: House, repo: Path) -> None:
    (repo / ".git" / "index").write_bytes(forged_index("a/" * 100_000 + "b"))
    assert {status(mine).code, diff(mine).code} == {"git_error"}


def forged_index(name: str) -> bytes:
    """An index with one entry (gitformat-index, version 2)."""
    entry = (
        struct.pack(">10I20sH", 0, 0, 0, 0, 0, 0, 0o100644, 0, 0, 1, b"\x11" * 20, min(len(name), 0xFFF))
        + name.encode()
    )
    entry += b"\0" * (8 - len(entry) % 8)
    data = b"DIRC" + struct.pack(">II", 2, 1) + entry
    return data + hashlib.sha1(data).digest()


def test_a_linked_directory_of_the_work_tree_is_not_followed(mine: House, repo: Path, secret: Path) -> None:
    (repo / "d").mkdir()
    (repo / "d" / "secret.txt").write_text("harmless\n")
    git(repo, "add", "d")
    git(repo, "commit", "-q", "-m", "d")
    shutil.rmtree(repo / "d")
    (repo / "d").symlink_to(secret)
    answers = [status(mine), diff(mine), diff(mine, file="d/secret.txt")]
    assert all(b"top secret" not in answer.body for answer in answers)


def test_a_repository_above_the_allowed_directories_is_not_found(house: Make, base: Path, repo: Path) -> None:
    (repo / "sub").mkdir()
    made = house({**ON, "endpoints": {"git_*": {"paths": {"allow": [str(repo / "sub")]}}}})
    answer = status(made, str(repo / "sub"))
    assert (answer.status, answer.code) == (400, "git_error")


# -- rules ----------------------------------------------------------------------------------------------------------

DENY = {**ON, "endpoints": {"git_*": {"paths": {"deny": ["*.pem", "private"]}}}}


@pytest.mark.field(145)
def test_field_145_denied_files_are_not_listed(house: Make, repo: Path) -> None:
    for name in ("key.pem", "plain.txt", "old.txt"):
        (repo / name).write_text("x")
    git(repo, "add", "old.txt")
    git(repo, "commit", "-q", "-m", "more")
    git(repo, "mv", "old.txt", "new.pem")
    (repo / "private").mkdir()
    (repo / "private" / "x").write_text("x")
    told = status(house(DENY)).json
    assert [file["path"] for file in told["files"]] == ["f.txt", "plain.txt"]


def test_a_tree_in_which_only_denied_files_changed_looks_clean(house: Make, repo: Path) -> None:
    git(repo, "checkout", "-q", "f.txt")
    (repo / "key.pem").write_text("x")
    assert status(house(DENY)).json == {"branch": "main", "clean": True, "files": []}


def test_under_a_deny_rule_exactly_one_file_is_shown(house: Make, repo: Path) -> None:
    (repo / "d").mkdir()
    for name in ("d/key.pem", "d/a.txt"):
        (repo / name).write_text("one\n")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "keys")
    for name in ("d/key.pem", "d/a.txt"):
        (repo / name).write_text("one\nMARK\n")
    made = house(DENY)
    for file in ("", "d", ".", "d/", "d/key.pem", "*", ":/", ":(glob)**"):
        answer = diff(made, file=file)
        assert b"MARK" not in answer.body
        assert answer.code == "path_denied" or answer.json["diff"] == ""
    assert "MARK" in diff(made, file="d/a.txt").json["diff"]
    assert "MARK" in diff(made, "repo/d", file="a.txt").json["diff"]
    shutil.rmtree(repo / "d")
    assert diff(made, file="d").code == "path_denied"  # what was there is still known to git


def test_files_with_several_names_count_as_hidden_under_their_rule(house: Make, repo: Path, tmp_path: Path) -> None:
    made = house({**ON, "endpoints": {"git_*": {"paths": {"hardlinks": "deny"}}}})
    assert diff(made).code == "path_denied"
    assert "two" in diff(made, file="f.txt").json["diff"]
    os.link(repo / "f.txt", repo / "g.txt")
    assert diff(made, file="f.txt").code == "hardlink_denied"


@pytest.mark.field(10)
def test_field_010_a_leading_dash_is_a_name(mine: House, repo: Path) -> None:
    (repo / "--output=stolen").write_text("one\n")
    git(repo, "add", "--", "--output=stolen")
    git(repo, "commit", "-q", "-m", "dash")
    (repo / "--output=stolen").write_text("two\n")
    told = diff(mine, file="--output=stolen").json
    assert told["stats"] == {"files_changed": 1, "insertions": 1, "deletions": 1}
    assert not (repo / "stolen").exists()


# -- what is told ---------------------------------------------------------------------------------------------------


def test_names_are_told_as_they_are(mine: House, repo: Path) -> None:
    for name in ("日本語 é.txt", 'quo"te', "new\nline", " lead", "tab\t", "a -> b"):
        (repo / name).write_text("x")
    (repo / os.fsdecode(b"\xff.bin")).write_text("x")
    paths = [file["path"] for file in status(mine).json["files"]]
    assert set(paths) == {
        "f.txt", "日本語 é.txt", 'quo"te', "new\nline", " lead", "tab\t", "a -> b", "\udcff.bin",
    }  # fmt: skip


def test_a_work_tree_added_to_a_repository_is_one_too(mine: House, repo: Path, base: Path) -> None:
    git(repo, "worktree", "add", "-q", "-b", "side", str(base / "side"))
    (base / "side" / "f.txt").write_text("side\n")
    assert status(mine, "side").json == {
        "branch": "side", "clean": False, "files": [{"path": "f.txt", "status": "modified"}],
    }  # fmt: skip
    assert "+side" in diff(mine, "side").json["diff"]


def test_branches_are_told_in_every_state(mine: House, repo: Path) -> None:
    git(repo, "checkout", "-q", "-b", "topic/one")
    git(repo, "pack-refs", "--all")
    assert status(mine).json["branch"] == "topic/one"
    assert diff(mine).json["stats"]["insertions"] == 1
    git(repo, "checkout", "-q", "--detach")
    assert status(mine).json["branch"] == "HEAD (no branch)"


def test_from_a_directory_inside_paths_are_those_of_the_whole_tree(mine: House, repo: Path) -> None:
    (repo / "d").mkdir()
    (repo / "d" / "n.txt").write_text("x")
    assert status(mine, "repo/d").json["files"] == [
        {"path": "f.txt", "status": "modified"}, {"path": "d/", "status": "untracked"},
    ]  # fmt: skip


def test_ignored_files_stay_out_and_the_repositorys_own_list_is_heeded(mine: House, repo: Path) -> None:
    (repo / ".gitignore").write_text("*.log\n.gitignore\n")
    (repo / ".git" / "info" / "exclude").write_text("*.tmp\n")
    for name in ("a.log", "b.tmp"):
        (repo / name).write_text("x")
    assert [file["path"] for file in status(mine).json["files"]] == ["f.txt"]


def test_settings_that_describe_the_work_tree_are_kept(mine: House, repo: Path) -> None:
    git(repo, "checkout", "-q", "f.txt")
    (repo / "f.txt").chmod(0o755)
    assert status(mine).json["files"] == [{"path": "f.txt", "status": "modified"}]
    git(repo, "config", "core.fileMode", "false")
    assert status(mine).json["clean"] is True


def test_a_repository_of_sha256_is_understood(mine: House, base: Path) -> None:
    made = base / "repo"
    made.mkdir()
    git(made, "init", "-q", "-b", "main", "--object-format=sha256")
    (made / "f.txt").write_text("one\n")
    git(made, "add", ".")
    git(made, "commit", "-q", "-m", "x")
    (made / "f.txt").write_text("two\n")
    assert status(mine).json["files"] == [{"path": "f.txt", "status": "modified"}]


# -- bounds ---------------------------------------------------------------------------------------------------------


def test_a_long_diff_is_cut_with_a_line_that_says_so(mine: House, repo: Path) -> None:
    (repo / "f.txt").write_text("".join(f"{number:09}\n" for number in range(200_000)))
    told = diff(mine).json
    assert told["diff"].endswith("[the diff is cut here: it is longer than 1048576 characters]\n")
    assert len(told["diff"]) < (1 << 20) + 100
    assert told["stats"]["insertions"] == 200_000


def test_a_sparse_giant_is_not_read_into_memory(mine: House, repo: Path) -> None:
    git(repo, "checkout", "-q", "f.txt")
    with (repo / "f.txt").open("r+b") as file:
        file.truncate(64 << 20)
    assert "Binary files" in diff(mine).json["diff"]


def test_git_that_takes_too_long_is_stopped(mine: House, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler, "SECONDS", 0.0)
    answer = status(mine)
    assert (answer.status, answer.code) == (408, "timeout")


@pytest.mark.parametrize("damage", ["HEAD", "index", "objects", "objects/info"])
def test_a_damaged_repository_is_refused_without_a_word_of_gits(mine: House, repo: Path, damage: str) -> None:
    place = repo / ".git" / damage
    if place.is_dir():
        shutil.rmtree(place)
        place.write_text("x")
    else:
        place.write_bytes(b"DIRCgarbage" * 100)
    for answer in (status(mine), diff(mine)):
        assert answer.status in (200, 400, 404)
        assert b"fatal" not in answer.body
    assert kernel.processes()


def test_nothing_is_left_behind(mine: House, repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    looked_at(mine)  # what is made once is made now
    before = descriptors()
    for _ in range(3):
        looked_at(mine)
        status(mine, ".")
    assert descriptors() <= before  # less where garbage of other tests had some
    assert list(temporary.rglob("git-*")) == []


def test_without_git_the_endpoint_says_so(mine: House, repo: Path) -> None:
    mine.machinery.application._services.program_path = ("/nonexistent",)
    answer = status(mine)
    assert (answer.status, answer.code) == (501, "not_implemented")


def test_a_change_of_equal_size_in_the_second_of_the_commit_is_seen(mine: House, base: Path) -> None:
    """The times in Git's index count seconds: what is as old as the index, Git has to read again."""
    for attempt in range(20):
        made = repository(base / str(attempt))
        (made / "f.txt").write_text("two\n")
        written = (made / ".git" / "index").stat().st_mtime
        if int(written) == int((made / "f.txt").stat().st_mtime):
            break
    else:
        raise AssertionError("this machine needs more than a second for a commit")
    eventually(lambda: time.time() > int(written) + 1.1)  # a copy made now looks younger than both
    assert status(mine, made.name).json["files"] == [{"path": "f.txt", "status": "modified"}]
