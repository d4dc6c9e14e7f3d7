"""The kernel's part of the file browser, asked as its page would ask, against a real sandbox."""

from __future__ import annotations

import hashlib
import io
import os
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_notebook.render import as_text
from sandbox_notebook.widgets import outgoing
from sandbox_notebook.widgets.files import FileBrowser
from sandbox_sdk import NotFoundError, Sandbox
from tests.support.waiting import eventually


class Desk:
    """A page without a browser: it asks, and keeps what it is told."""

    def __init__(self, browser: FileBrowser, monkeypatch: pytest.MonkeyPatch) -> None:
        self.browser = browser
        self.told: list[dict[str, Any]] = []
        self._number = 0

        def hear(content: dict[str, Any], buffers: list[bytes] | None = None) -> None:
            self.told.append({**content, "buffers": buffers or []})

        monkeypatch.setattr(browser, "send", hear)

    def say(self, kind: str, **facts: Any) -> None:
        self.browser._hear(None, {"kind": kind, **facts}, ())

    def ask(self, kind: str, **facts: Any) -> dict[str, Any]:
        self._number += 1
        self.say(kind, ask=self._number, **facts)
        return next(told for told in self.told if told.get("ask") == self._number)

    def names(self, path: str = "") -> list[str]:
        return [row[0] for row in self.ask("list", path=path)["rows"]]

    def fetch(self, *paths: str, archive: bool = False) -> tuple[dict[str, Any], bytes]:
        assert "error" not in self.ask("fetch", id="one", paths=list(paths), archive=archive)
        eventually(lambda: self.ask("fetched", id="one")["state"] != "coming")
        answer = self.ask("fetched", id="one")
        offsets = range(0, answer["length"] if answer["state"] == "ready" else 0, self.browser.chunk)
        return answer, b"".join(self.ask("piece", id="one", offset=offset)["buffers"][0] for offset in offsets)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def sandbox(root: Path) -> Iterator[Sandbox]:
    with Sandbox.local(root=root) as sandbox:
        yield sandbox


@pytest.fixture
def place(root: Path) -> Path:
    """A fresh directory, by its name on this side; the browser shows it."""
    made = root / f"place-{len(os.listdir(root))}"
    (made / "folder").mkdir(parents=True)
    (made / "folder" / "leaf.txt").write_text("leaf")
    (made / "a.txt").write_text("some text")
    return made


@pytest.fixture
def desk(sandbox: Sandbox, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    desk = Desk(FileBrowser(sandbox, place.name), monkeypatch)
    yield desk
    desk.browser.close()


def test_a_folder_is_listed_when_it_is_asked_for(desk: Desk) -> None:
    rows = {row[0]: row for row in desk.ask("list", path="")["rows"]}
    assert list(rows) == ["a.txt", "folder"]
    name, is_dir, kind, length, time, mode, target, kept = rows["a.txt"]
    assert (is_dir, kind, length, mode, target, kept) == (False, "file", 9, "0644", None, False)
    assert time > 1_600_000_000_000
    assert rows["folder"][1] is True
    assert desk.names("folder") == ["leaf.txt"]
    assert desk.ask("list", path="nowhere")["error"].startswith("no directory at")


def test_the_static_face_is_the_listing(desk: Desk, place: Path) -> None:
    assert as_text(desk.browser.face()) == f"/workspace/{place.name}\n  name     size\n  a.txt     9 B\n  folder/"
    assert repr(desk.browser) == as_text(desk.browser.face())


def test_a_directory_that_is_not_there_is_an_error_at_once(sandbox: Sandbox) -> None:
    with pytest.raises(NotFoundError):
        FileBrowser(sandbox, "nowhere")


def test_renaming_never_replaces(desk: Desk, place: Path) -> None:
    (place / "b.txt").write_text("other")
    assert desk.ask("rename", path="a.txt", name="b.txt")["error"] == '"b.txt" is there already'
    assert "error" not in desk.ask("rename", path="a.txt", name="c.txt")
    assert "error" not in desk.ask("rename", path="folder/leaf.txt", name="new leaf")
    assert sorted(os.listdir(place)) == ["b.txt", "c.txt", "folder"]
    assert (place / "b.txt").read_text() == "other"
    assert os.listdir(place / "folder") == ["new leaf"]


def test_a_link_that_leads_nowhere_is_not_replaced_either(desk: Desk, place: Path) -> None:
    (place / "link").symlink_to("nowhere")
    assert desk.ask("rename", path="a.txt", name="link")["error"] == '"link" is there already'
    assert os.readlink(place / "link") == "nowhere"
    os.mkfifo(place / "pipe")
    assert desk.ask("preview", path="pipe", size=0)["error"]


def test_folders_are_made_and_things_are_deleted(desk: Desk, place: Path) -> None:
    assert "error" not in desk.ask("mkdir", path="folder", name="inner")
    assert (place / "folder" / "inner").is_dir()
    assert desk.ask("mkdir", path="", name="a.txt")["error"] == '"a.txt" is there already'
    answer = desk.ask("delete", paths=["folder", "missing", "a.txt"])
    assert [path for path, _ in answer["failed"]] == ["missing"]
    assert os.listdir(place) == []


@pytest.mark.parametrize("path", ["", ".", "/", "./.", "..", "../x", "a/../..", "/etc/passwd", "a\0b", 3, None, []])
def test_nothing_but_an_entry_below_is_touched(desk: Desk, place: Path, path: object) -> None:
    for kind in ("rename", "delete"):
        answer = desk.ask(kind, path=path, paths=[path], name="x")
        assert answer.get("error") or answer["failed"]
    assert sorted(os.listdir(place)) == ["a.txt", "folder"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "a\0", 3, None])
def test_a_name_is_one_component(desk: Desk, place: Path, name: object) -> None:
    assert "error" in desk.ask("rename", path="a.txt", name=name)
    assert "error" in desk.ask("mkdir", path="", name=name)
    assert sorted(os.listdir(place)) == ["a.txt", "folder"]


def test_a_message_that_is_not_ours_is_answered_with_a_reason_or_ignored(desk: Desk) -> None:
    strange: list[Any] = [{}, {"kind": "list"}, {"kind": "list", "ask": "1", "path": ""}, {"kind": 3}, [], None, "list"]
    for content in strange:
        desk.browser._hear(None, content, ())
    assert {told["kind"] for told in desk.told} <= {"failed"}
    for kind in ("preview", "judge", "fetch", "fetched", "piece", "delete"):
        assert "error" in desk.ask(kind), kind


def test_names_that_are_no_text_travel_there_and_back(desk: Desk, place: Path) -> None:
    with open(os.fsencode(place) + b"/caf\xe9", "wb") as file:
        file.write(b"x")
    name = next(name for name in desk.names() if name.startswith("caf"))
    name.encode()
    assert desk.ask("preview", path=name, size=1)["text"] == "x"
    assert desk.ask("delete", paths=[name])["failed"] == []
    assert sorted(os.listdir(place)) == ["a.txt", "folder"]


def test_a_preview_reads_no_more_than_it_shows(desk: Desk, place: Path) -> None:
    with open(place / "huge.txt", "wb") as file:
        file.write(b"begin\n")
        file.truncate(4 << 30)
    answer = desk.ask("preview", path="huge.txt", size=4 << 30)
    assert answer["type"] == "binary" and answer["note"] == "the first 512 B of 4.3 GB"
    assert desk.ask("preview", path="folder/leaf.txt", size=4)["text"] == "leaf"
    assert "error" in desk.ask("preview", path="folder", size=1)


def test_a_download_is_the_file_as_it_was_at_one_moment(desk: Desk, place: Path) -> None:
    data = os.urandom(5 << 20)
    (place / "data.bin").write_bytes(data)
    answer, got = desk.fetch("data.bin")
    assert got == data
    assert (answer["name"], answer["length"]) == ("data.bin", len(data))
    assert answer["sha256"] == hashlib.sha256(data).hexdigest()
    (place / "data.bin").write_bytes(b"changed")
    assert desk.ask("piece", id="one", offset=3 << 20)["buffers"][0] == data[3 << 20 : 5 << 20]
    kept = desk.browser._outgoing["one"].directory.name
    desk.say("discard", id="one")
    assert not os.path.exists(kept)
    assert desk.ask("piece", id="one", offset=0)["error"] == "this download has ended"


@pytest.mark.field(4)
def test_field_004_a_download_keeps_every_name_and_takes_none_for_another(desk: Desk, place: Path) -> None:
    names = ["a b", "a%20b", "a%2520b", "a#b", "a?b=c&d", "日本語 é", "a+b", "%2e%2e%2fa"]
    for name in names:
        (place / name).write_text(f"this is {name}")
    for name in names:
        answer, got = desk.fetch(name)
        assert (answer["name"], got.decode()) == (name, f"this is {name}")
        desk.say("discard", id="one")


def test_an_empty_file_is_downloaded_too(desk: Desk, place: Path) -> None:
    (place / "empty").touch()
    answer, _ = desk.fetch("empty")
    assert (answer["state"], answer["length"]) == ("ready", 0)


def test_a_folder_is_downloaded_as_one_archive(desk: Desk, place: Path) -> None:
    answer, got = desk.fetch("folder", "a.txt", archive=True)
    assert answer["name"] == f"{place.name}.zip"
    with zipfile.ZipFile(io.BytesIO(got)) as archive:
        assert archive.testzip() is None
        found = {name.rpartition("/")[2]: archive.read(name) for name in archive.namelist() if name[-1] != "/"}
    assert found == {"leaf.txt": b"leaf", "a.txt": b"some text"}
    desk.say("discard", id="one")
    assert desk.fetch("folder", archive=True)[0]["name"] == "folder.zip"


def test_what_is_too_large_for_a_page_is_refused_with_the_way_that_works(
    desk: Desk, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "LIMIT", 1 << 20)
    (place / "large file.bin").write_bytes(os.urandom(2 << 20))
    expected = f"%sandbox download '{place.name}/large file.bin' brings it"
    assert desk.fetch("large file.bin")[0]["reason"].endswith(expected)
    desk.say("discard", id="one")
    answer, _ = desk.fetch("large file.bin", archive=True)
    assert answer["state"] == "failed" and "more than a page can take" in answer["reason"]


def test_a_download_that_fails_says_why_and_only_a_few_are_under_way(desk: Desk) -> None:
    assert desk.fetch("missing")[0]["reason"].startswith("no file at")
    for id in ("2", "3", "4"):
        assert "error" not in desk.ask("fetch", id=id, paths=["a.txt"])
    assert desk.ask("fetch", id="5", paths=["a.txt"])["error"].startswith("4 downloads are under way")
    directories = [outgoing.directory.name for outgoing in desk.browser._outgoing.values()]
    desk.browser.close()
    eventually(lambda: not any(map(os.path.exists, directories)))


def test_a_cancelled_download_leaves_nothing(desk: Desk, place: Path) -> None:
    with open(place / "large", "wb") as file:
        file.truncate(150_000_000)
    desk.ask("fetch", id="one", paths=["large"])
    outgoing = desk.browser._outgoing["one"]
    desk.say("discard", id="one")
    eventually(lambda: outgoing.state != "coming")
    assert not os.path.exists(outgoing.directory.name)


def test_downloads_whose_page_was_closed_make_room(desk: Desk) -> None:
    for id in "1234":
        assert "error" not in desk.ask("fetch", id=id, paths=["a.txt"])
    desk.browser._outgoing["2"].asked -= 3600
    assert "error" not in desk.ask("fetch", id="5", paths=["a.txt"])
    assert set(desk.browser._outgoing) == {"1", "3", "4", "5"}


def test_changes_are_told_by_their_folders_while_a_page_looks(desk: Desk, place: Path) -> None:
    desk.say("hello", page="p")
    eventually(lambda: desk.browser.live == "live")
    (place / "folder" / "fresh").write_text("x")
    eventually(lambda: {"folder"} in [set(told["paths"]) for told in desk.told if told["kind"] == "changed"])
    watching = desk.browser._watching
    assert watching is not None
    desk.say("bye", page="p")
    eventually(lambda: not [one for one in threading.enumerate() if one.name.startswith("file browser")])
    assert watching.over.is_set() and desk.browser._watching is None


def test_pages_that_come_and_go_at_once_leave_no_thread(desk: Desk) -> None:
    for number in range(20):
        desk.say("hello", page=str(number))
        desk.say("bye", page=str(number))
    eventually(lambda: not [one for one in threading.enumerate() if one.name.startswith("file browser")])
    assert "failed" not in [told["kind"] for told in desk.told]


def test_closing_ends_the_watch(desk: Desk) -> None:
    desk.say("hello", page="p")
    eventually(lambda: desk.browser.live == "live")
    desk.browser.close()
    eventually(lambda: not [one for one in threading.enumerate() if one.name.startswith("file browser")])


def test_what_the_policy_denies_is_told_with_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("x")
    with Sandbox.local(root=tmp_path, policy="read-only") as sandbox:
        desk = Desk(FileBrowser(sandbox), monkeypatch)
        denied = desk.browser.denied
        assert set(denied) == {"upload", "mkdir", "rename", "delete"}
        assert denied["delete"] == "denied by rule preset:read-only:endpoints.files_delete"
        assert desk.ask("judge", paths=["a.txt"])["denied"] == denied
        assert "error" in desk.ask("mkdir", path="", name="x")
        assert desk.ask("delete", paths=["a.txt"])["failed"][0][0] == "a.txt"
        desk.browser.close()
    assert (tmp_path / "a.txt").exists()


def test_a_rule_about_one_path_is_told_where_it_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "in").mkdir()
    changes = ("files_delete", "files_move", "files_mkdir", "files_upload_stream")
    endpoints: dict[str, object] = {name: {"paths": {"allow": ["/workspace/out"]}} for name in changes}
    rules = {"version": 1, "preset": "workspace", "endpoints": {**endpoints, "files_watch": {"enabled": False}}}
    with Sandbox.local(root=tmp_path, policy=rules) as sandbox:
        desk = Desk(FileBrowser(sandbox), monkeypatch)
        assert {row[0]: row[7] for row in desk.ask("list", path="")["rows"]} == {"in": True, "out": False}
        denied = desk.ask("judge", paths=["in"], into="in")["denied"]
        assert set(denied) == {"upload", "mkdir", "rename", "delete"}
        assert denied["delete"].startswith('denied: "/workspace/in" lies outside the allowed directories')
        assert desk.ask("judge", paths=["out"], into="out")["denied"] == {}
        assert set(desk.ask("judge", paths=["out"])["denied"]) == {"upload", "mkdir"}, "it would go to the root"
        desk.say("hello", page="p")
        watching = desk.browser._watching
        assert watching is not None and watching.over.wait(60)
        assert desk.browser.live == "" and desk.names() == ["in", "out"]
        desk.browser.close()
