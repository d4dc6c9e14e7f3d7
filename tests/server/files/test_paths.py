"""Single paths: facts, making, removing, moving."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.server.files.conftest import Files
from tests.support.server import Reply


def refusal(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json()["code"]


def test_facts_about_a_file(files: Files) -> None:
    file = files.base / "f"
    file.write_bytes(b"alpha")
    file.chmod(0o4750)
    os.utime(file, ns=(1_400_000_000_000_000_000, 1_500_000_000_123_456_789))
    facts = files.stat("f").json()
    assert facts.pop("created").endswith("+00:00")
    assert facts.pop("etag") == files.download("f").headers["etag"]
    assert facts == {
        "name": "f", "path": str(file), "type": "file", "size": 5, "permissions": "750", "exists": True,
        "modified": "2017-07-14T02:40:00.123456+00:00", "accessed": "2014-05-13T16:53:20+00:00",
        "kind": "file", "mode": "4750", "uid": os.getuid(), "gid": os.getgid(),
        "mtime_ns": "1500000000123456789", "is_symlink": False, "link_target": None,
    }  # fmt: skip


def test_a_missing_path_is_an_answer_with_the_same_keys(files: Files) -> None:
    (files.base / "f").touch()
    there, missing = files.stat("f"), files.stat("none/below")
    assert (missing.status, missing.json()["exists"], missing.json()["type"]) == (200, False, "unknown")
    assert missing.json().keys() == there.json().keys()
    assert missing.json()["path"] == str(files.base / "none/below")


@pytest.mark.field(40)
def test_field_040_links_are_followed_unless_the_caller_says_otherwise(files: Files) -> None:
    (files.base / "d").mkdir()
    (files.base / "l").symlink_to("d")
    (files.base / "dangling").symlink_to("none")
    followed, itself = files.stat("l").json(), files.stat("l", follow="false").json()
    assert (followed["path"], followed["kind"]) == (str(files.base / "d"), "directory")
    assert (itself["path"], itself["kind"], itself["size"]) == (str(files.base / "l"), "symlink", 1)
    for facts in (followed, itself):
        assert (facts["is_symlink"], facts["link_target"]) == (True, "d")
    dangling = files.stat("dangling").json()
    assert (dangling["exists"], dangling["is_symlink"], dangling["link_target"]) == (False, True, "none")
    assert files.stat("dangling", follow="false").json()["exists"] is True


def test_kinds_other_than_files_are_only_looked_at(files: Files) -> None:
    os.mkfifo(files.base / "fifo")
    facts = files.stat("fifo").json()
    assert (facts["kind"], facts["type"], facts["exists"]) == ("fifo", "file", True)


def test_making_directories_makes_parents_and_repeats_quietly(files: Files) -> None:
    for _ in range(2):
        reply = files.mkdir("a/b/c")
        assert (reply.status, reply.json()) == (200, {"path": str(files.base / "a/b/c"), "created": True})
    assert (files.base / "a/b/c").is_dir()


def test_a_file_in_the_way_of_a_directory_is_a_conflict(files: Files) -> None:
    (files.base / "f").touch()
    assert refusal(files.mkdir("f")) == (409, "file_exists")
    assert files.mkdir("f/below").status in (404, 409)
    assert (files.base / "f").is_file()


def test_deleting_removes_files_trees_and_links_themselves(files: Files) -> None:
    (files.base / "d/sub").mkdir(parents=True)
    (files.base / "d/sub/f").touch()
    (files.base / "kept").mkdir()
    (files.base / "kept/f").touch()
    (files.base / "d/out").symlink_to(files.base / "kept")
    (files.base / "link").symlink_to("kept")
    (files.base / "dangling").symlink_to("none")
    for path in ("link", "dangling", "d"):
        reply = files.delete(path)
        assert (reply.status, reply.json()) == (200, {"path": str(files.base / path), "deleted": True})
    assert os.listdir(files.base) == ["kept"]
    assert os.listdir(files.base / "kept") == ["f"]


@pytest.mark.finding("R1-F2")
def test_a_tree_that_holds_a_denied_entry_is_neither_removed_nor_moved(files: Files) -> None:
    (files.base / "d/deep").mkdir(parents=True)
    (files.base / "d/a").touch()
    (files.base / "d/deep/k.pem").touch()
    assert refusal(files.delete("d")) == (403, "path_denied")
    assert refusal(files.move("d", "e")) == (403, "path_denied")
    assert {str(found.relative_to(files.base)) for found in files.base.rglob("*")} == {
        "d",
        "d/a",
        "d/deep",
        "d/deep/k.pem",
    }


def test_the_root_itself_is_neither_removed_nor_moved(files: Files) -> None:
    assert refusal(files.delete(".")) == (403, "path_denied")
    assert refusal(files.move(".", "x")) == (403, "path_denied")
    assert files.base.is_dir()


@pytest.mark.field(44)
def test_field_044_moving_follows_the_table_of_mv(files: Files) -> None:
    def names() -> set[str]:
        return {str(found.relative_to(files.base)) for found in files.base.rglob("*")}

    (files.base / "f").write_text("f")
    (files.base / "g").write_text("g")
    (files.base / "d/inner").mkdir(parents=True)

    onto_file = files.move("f", "g")  # file -> file: replaced
    assert onto_file.json() == {
        "source": str(files.base / "f"), "destination": str(files.base / "g"), "path": str(files.base / "g")
    }  # fmt: skip
    assert (files.base / "g").read_text() == "f"
    into = files.move("g", "d")  # file -> directory: inside it
    assert (into.json()["destination"], into.json()["path"]) == (str(files.base / "d"), str(files.base / "d/g"))
    assert files.move("d", "new/place").json()["path"] == str(files.base / "new/place")  # directory -> new
    assert names() == {"new", "new/place", "new/place/g", "new/place/inner"}
    (files.base / "other").mkdir()
    assert files.move("new", "other").status == 200  # directory -> directory: inside it
    assert names() == {"other", "other/new", "other/new/place", "other/new/place/g", "other/new/place/inner"}


def test_a_directory_cannot_be_moved_into_itself(files: Files) -> None:
    (files.base / "d/e").mkdir(parents=True)
    assert refusal(files.move("d", "d/e/f")) == (409, "conflict")
    assert (files.base / "d/e").is_dir()


def test_a_move_never_replaces_a_directory_with_contents(files: Files) -> None:
    (files.base / "f").touch()
    (files.base / "d/f/x").mkdir(parents=True)
    assert files.move("f", "d").status == 409
    assert (files.base / "f").is_file() and (files.base / "d/f/x").is_dir()


def test_moving_a_link_moves_the_link(files: Files) -> None:
    (files.base / "f").write_text("f")
    (files.base / "link").symlink_to("f")
    assert files.move("link", "moved").status == 200
    assert os.readlink(files.base / "moved") == "f"
    assert (files.base / "f").read_text() == "f"


@pytest.mark.finding("R1-F2")
def test_moving_asks_for_deletion_at_the_source_and_writing_at_the_destination(files: Files) -> None:
    (files.base / "f").touch()
    (files.base / "secret").touch()
    assert refusal(files.move("secret", "g")) == (403, "path_denied")
    assert refusal(files.move("f", "x.pem")) == (403, "path_denied")
    assert refusal(files.move("/etc/passwd", "g")) == (403, "path_not_allowed")
    assert refusal(files.move("f", "/etc/g")) == (403, "path_not_allowed")
    assert {found.name for found in files.base.iterdir()} == {"f", "secret"}


@pytest.mark.field(49)
def test_field_049_every_verb_on_a_missing_path_is_not_found(files: Files) -> None:
    for reply in (
        files.delete("none"), files.delete("none/below"), files.move("none", "x"), files.list("none"),
        files.download("none"), files.download_text("none"),
    ):  # fmt: skip
        assert (reply.status, reply.json()["type"], reply.json()["code"]) == (404, "FileNotFoundError", "not_found")


@pytest.mark.field(41)
def test_field_041_files_beside_command_made_directories_can_be_written_and_written_again(files: Files) -> None:
    subprocess.run(["mkdir", "-p", "made/by/command"], cwd=files.base, check=True)
    for data in (b"one", b"two"):
        reply = files.upload("made/by/command/f", data)
        assert (reply.status, reply.json()["mode"]) == (200, "0644")
        assert (files.base / "made/by/command/f").read_bytes() == data
    assert (files.base / "made/by/command/f").stat().st_uid == os.getuid()


def test_the_operating_system_never_turns_into_a_server_error(files: Files) -> None:
    (files.base / "f").touch()
    long = "x" * 300
    for reply in (
        files.stat(long), files.mkdir(long), files.upload(long, b"x"), files.download(long), files.list(long),
        files.delete(long), files.move("f", long), files.mkdir("f/x"), files.upload("f/x/y", b""),
        files.upload(".", b""), files.upload("d/", b""), files.move("f", "f/x"), files.delete("f/x"),
    ):  # fmt: skip
        assert reply.status < 500, reply.body
        if reply.status >= 400:
            assert "Errno" not in reply.json()["error"]


@pytest.mark.finding("R2-S5")
def test_outside_is_the_same_refusal_whether_or_not_it_exists(files: Files) -> None:
    outside = files.base.parent
    (outside / "there").touch()
    bodies = []
    for name in ("there", "gone!"):
        reply = files.stat(outside / name)
        body = reply.json()
        bodies.append((reply.status, {key: str(value).replace(name, "NAME") for key, value in body.items()}))
    assert bodies[0] == bodies[1]
    assert bodies[0][0] == 403


@pytest.mark.finding("R2-S6")
def test_relative_paths_start_at_the_base_directory(files: Files) -> None:
    (files.base / "f").touch()
    assert files.stat("f").json()["path"] == str(files.base / "f")
    assert files.list(".").json()["entries"][0]["name"] == "f"
    assert Path(files.stat(".").json()["path"]) == files.base
