"""Permission bits: the nine of them, of the very file that was judged, and never through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.server.files.conftest import Files
from tests.support.server import Reply, running_server


def chmod(files: Files, path: str, mode: str, **fields: Any) -> Reply:
    return files.server.request("POST", "/files/chmod", {"path": path, "mode": mode, **fields})


def refusal(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json()["code"]


def bits(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def tree(files: Files) -> Path:
    (files.base / "d/sub").mkdir(parents=True)
    for name in ("d/a", "d/sub/b", "outside"):
        (files.base / name).write_text(name)
        (files.base / name).chmod(0o644)
    (files.base / "d/link").symlink_to("../outside")
    os.mkfifo(files.base / "d/pipe", 0o600)
    (files.base / "d").chmod(0o755)
    (files.base / "d/sub").chmod(0o755)
    return files.base


def test_a_file_gets_its_bits_and_the_answer_tells_whether_they_changed(files: Files, tree: Path) -> None:
    for changed in (1, 0):
        answer = chmod(files, "d/a", "750").json()
        assert answer == {"path": str(tree / "d/a"), "mode": "0750", "changed": changed}
    assert bits(tree / "d/a") == 0o750
    assert chmod(files, "d", "0700").json()["mode"] == "0700"
    assert (bits(tree / "d"), bits(tree / "d/sub")) == (0o700, 0o755)


def test_set_id_bits_are_never_set_and_are_cleared(files: Files, tree: Path) -> None:
    for mode in ("4755", "1777", "", "7", "888", "u+x", "-755", "755\n"):
        assert refusal(chmod(files, "d/a", mode)) == (400, "invalid_argument")
    (tree / "d/a").chmod(0o4755)
    assert chmod(files, "d/a", "755").json()["changed"] == 1
    assert bits(tree / "d/a") == 0o755


def test_a_whole_tree_gets_them_but_for_links_and_pipes(files: Files, tree: Path) -> None:
    assert chmod(files, "d", "700", recursive=True).json()["changed"] == 4
    assert {name: bits(tree / name) for name in ("d", "d/a", "d/sub", "d/sub/b", "d/pipe", "outside")} == {
        "d": 0o700, "d/a": 0o700, "d/sub": 0o700, "d/sub/b": 0o700, "d/pipe": 0o600, "outside": 0o644,
    }  # fmt: skip
    assert chmod(files, "d/a", "600", recursive=True).json()["changed"] == 1


def test_bits_that_close_directories_reach_everything_all_the_same(files: Files, tree: Path) -> None:
    assert chmod(files, "d", "000", recursive=True).json()["changed"] == 4
    assert {bits(tree / name) for name in ("d", "d/a", "d/sub", "d/sub/b")} == {0}


def test_the_allowed_directory_itself_stays_open(files: Files, tree: Path) -> None:
    assert refusal(chmod(files, ".", "500", recursive=True)) == (403, "path_denied")
    assert chmod(files, ".", "750").json() == {"path": str(tree), "mode": "0750", "changed": 1}
    assert chmod(files, ".", "755").status == 200


def test_a_link_is_followed_to_its_target_where_that_is_allowed(files: Files, tree: Path) -> None:
    assert chmod(files, "d/link", "600").json()["path"] == str(tree / "outside")
    assert bits(tree / "outside") == 0o600
    (tree / "away").symlink_to("/etc/passwd")
    before = bits(Path("/etc/passwd"))
    assert refusal(chmod(files, "away", "600")) == (403, "path_not_allowed")
    assert bits(Path("/etc/passwd")) == before


def test_what_has_no_bits_of_its_own_and_what_is_missing_are_refused(files: Files, tree: Path) -> None:
    assert refusal(chmod(files, "d/pipe", "644")) == (404, "not_found")
    assert refusal(chmod(files, "missing", "644")) == (404, "not_found")


def test_a_tree_that_holds_a_denied_entry_is_refused_before_anything_changes(files: Files, tree: Path) -> None:
    (tree / "d/sub/key.pem").write_text("")
    (tree / "d/sub/key.pem").chmod(0o644)
    assert refusal(chmod(files, "d", "700", recursive=True)) == (403, "path_denied")
    assert refusal(chmod(files, "d/sub/key.pem", "700")) == (403, "path_denied")
    assert {bits(tree / name) for name in ("d", "d/sub")} == {0o755}
    assert {bits(tree / name) for name in ("d/a", "d/sub/b", "d/sub/key.pem")} == {0o644}


def test_the_rule_about_hard_links_holds(tmp_path: Path) -> None:
    with running_server(tmp_path, policy={"endpoints": {"files_chmod": {"paths": {"hardlinks": "deny"}}}}) as server:
        files = Files(server, tmp_path / "base")
        (files.base / "d").mkdir()
        (tmp_path / "outside").write_text("")
        os.link(tmp_path / "outside", files.base / "d/twin")
        before = bits(tmp_path / "outside")
        assert refusal(chmod(files, "d/twin", "777")) == (403, "hardlink_denied")
        assert refusal(chmod(files, "d", "777", recursive=True)) == (403, "hardlink_denied")
        assert bits(tmp_path / "outside") == before


def test_a_read_only_rule_forbids_it(tmp_path: Path) -> None:
    with running_server(tmp_path, policy={"endpoints": {"files_chmod": {"paths": {"read_only": True}}}}) as server:
        files = Files(server, tmp_path / "base")
        (files.base / "f").write_text("")
        assert refusal(chmod(files, "f", "600")) == (403, "read_only")
