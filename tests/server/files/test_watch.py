"""Watching: what changes is told once, nothing that policy hides is named, and nothing is left when nobody listens."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.server.files.conftest import Files
from tests.support.server import ServerProcess, running_server
from tests.support.waiting import eventually

QUEUE = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())


class Watcher:
    """One stream of events, read as they come."""

    def __init__(self, files: Files, **query: Any) -> None:
        self.base = files.base
        self.connection = http.client.HTTPConnection("127.0.0.1", files.server.port, timeout=60)
        self.cursor = ""
        try:
            self.connection.request("GET", "/files/watch?" + urlencode({"path": ".", **query}))
            self.reply = self.connection.getresponse()
            assert self.reply.status == 200, self.reply.read()
            name, self.ready = self.next()
            assert name == "ready"
        except BaseException:
            self.connection.close()
            raise

    def next(self) -> tuple[str, dict[str, Any]]:
        """The next event. Comments are passed over, and that a directory just moved is polled for now."""
        name, data = "", ""
        while True:
            line = self.reply.readline().decode()
            assert line, "the stream ended without an end"
            if line.startswith("event: "):
                name = line[7:-1]
            elif line.startswith("data: "):
                data = line[6:]
            elif name == "mode":
                name = ""
            elif name:
                event = json.loads(data)
                self.cursor = event["cursor"]
                return name, event

    def changes(self, count: int) -> list[tuple[str, ...]]:
        """So many changes: type, path relative to the base; the old path too of a rename."""
        found = []
        for _ in range(count):
            name, event = self.next()
            if name == "overflow":
                found.append(("overflow",))
                continue
            assert name == "change", (name, event)
            paths = [event["from"], event["path"]] if "from" in event else [event["path"]]
            found.append((event["type"], *(os.path.relpath(path, self.base) for path in paths)))
        return found

    def until(self, condition: Callable[[set[tuple[str, ...]]], bool]) -> set[tuple[str, ...]]:
        """Changes until they fulfil a condition."""
        found: set[tuple[str, ...]] = set()
        while not condition(found):
            found.update(self.changes(1))
        return found

    def close(self) -> None:
        self.reply.close()
        self.connection.close()


@contextmanager
def watching(files: Files, **query: Any) -> Iterator[Watcher]:
    watcher = Watcher(files, **query)
    try:
        yield watcher
    finally:
        watcher.close()


def write(file: Path, text: str) -> None:
    """Into a file that is there, without emptying it first: the kernel gives one notice of it, and not two of which
    the second comes late when this process is stopped between them.
    """
    descriptor = os.open(file, os.O_WRONLY)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def test_files_are_told_as_they_come_change_and_go(files: Files) -> None:
    with watching(files) as watch:
        assert watch.ready["path"] == str(files.base)
        assert watch.ready["mode"] == "inotify"
        (files.base / "f").touch()
        assert watch.changes(1) == [("created", "f")]
        write(files.base / "f", "2")
        assert watch.changes(1) == [("modified", "f")]
        os.utime(files.base / "f", (1, 1))
        assert watch.changes(1) == [("modified", "f")]
        (files.base / "f").chmod(0o600)  # is no change of the content
        (files.base / "f").unlink()
        assert watch.changes(1) == [("deleted", "f")]
        (files.base / "d").mkdir()
        assert watch.changes(1) == [("created", "d")]
        (files.base / "d" / "inner").touch()  # not watched
        (files.base / "g").touch()
        assert watch.changes(1) == [("created", "g")]


def test_a_burst_of_writes_is_one_change(files: Files) -> None:
    with watching(files) as watch, (files.base / "f").open("wb", buffering=0) as file:
        assert watch.changes(1) == [("created", "f")]
        for _ in range(1000):
            file.write(b"x")
        (files.base / "last").touch()
        told = watch.until(lambda found: ("created", "last") in found)
        assert told == {("modified", "f"), ("created", "last")}


@pytest.mark.parametrize("depth", [1, 8])
def test_a_new_directory_is_told_with_all_that_is_already_in_it(files: Files, depth: int) -> None:
    with watching(files, recursive=True) as watch:
        for round_ in range(20):
            names = [f"r{round_}", *(f"d{n}" for n in range(depth))]
            deep = files.base.joinpath(*names)
            deep.mkdir(parents=True)
            for number in range(5):
                (deep / f"f{number}").touch()
            expected = {("created", "/".join(names[: n + 1])) for n in range(len(names))}
            expected |= {("created", "/".join([*names, f"f{number}"])) for number in range(5)}
            assert set(watch.changes(len(expected))) == expected  # each once
            (deep / "later").touch()
            assert watch.changes(1) == [("created", "/".join([*names, "later"]))]


def test_a_rename_is_two_changes_or_one_as_the_caller_likes(files: Files) -> None:
    (files.base / "d").mkdir()
    (files.base / "d" / "f").write_text("x")
    (files.base / "d" / "g").write_text("y")
    with watching(files, recursive=True) as two, watching(files, recursive=True, renames=True) as one:
        os.rename(files.base / "d" / "f", files.base / "f")
        assert one.changes(1) == [("renamed", "d/f", "f")]
        assert two.changes(2) == [("created", "f"), ("deleted", "d/f")]
        os.rename(files.base / "d", files.base / "a")
        assert one.changes(1) == [("renamed", "d", "a")]
        assert two.changes(4) == [("created", "a"), ("created", "a/g"), ("deleted", "d/g"), ("deleted", "d")]
        write(files.base / "a" / "g", "z")
        assert one.changes(1) == two.changes(1) == [("modified", "a/g")]
        os.rename(files.base / "f", files.base / "a" / "g")  # in the place of another
        assert one.changes(1) == [("renamed", "f", "a/g")]
        assert two.changes(2) == [("modified", "a/g"), ("deleted", "f")]


def test_an_upload_is_one_change_although_it_is_written_beside(files: Files) -> None:
    with watching(files, renames=True) as watch:
        files.upload("f", b"1" * 2_000_000)
        assert watch.changes(1) == [("created", "f")]
        files.upload("f", b"2" * 2_000_000)
        assert watch.changes(1) == [("modified", "f")]
        (files.base / ".nsb-0123456789abcdef.part").touch()
        (files.base / "last").touch()
        assert watch.changes(1) == [("created", "last")]


@pytest.mark.finding("R2-S2", "R1-F2")
@pytest.mark.field(145)
def test_field_145_what_is_denied_is_never_named(files: Files, tmp_path: Path) -> None:
    (files.base / "secret").mkdir()
    with watching(files, recursive=True, renames=True) as watch:
        (files.base / "secret" / "f").touch()
        (files.base / "k.pem").touch()
        (files.base / "d" / "secret" / "deep").mkdir(parents=True)
        (files.base / "d" / "secret" / "deep" / "f").touch()
        (files.base / "link").symlink_to(tmp_path)
        (files.base / "link2").symlink_to("secret/f")
        (files.base / "open").touch()
        assert set(watch.changes(2)) == {("created", "d"), ("created", "open")}
        os.rename(files.base / "open", files.base / "x.pem")
        assert watch.changes(1) == [("deleted", "open")]
        os.rename(files.base / "x.pem", files.base / "again")
        assert watch.changes(1) == [("created", "again")]
        (files.base / "link").unlink()
        (files.base / "k.pem").unlink()
        os.rename(files.base / "secret", files.base / "public")
        assert watch.changes(2) == [("created", "public"), ("created", "public/f")]


@pytest.mark.parametrize("how", ["removed", "renamed", "replaced", "parent renamed"])
def test_a_watch_ends_when_its_directory_is_gone(files: Files, how: str) -> None:
    top = files.base / "p" / "top"
    top.mkdir(parents=True)
    with watching(files, path="p/top", recursive=True) as watch:
        if how == "removed":
            shutil.rmtree(top)
        elif how == "parent renamed":
            os.rename(files.base / "p", files.base / "q")
            (files.base / "q" / "top" / "f").touch()
        else:
            os.rename(top, files.base / "elsewhere")
            if how == "replaced":
                top.symlink_to(files.base / "elsewhere")
        assert watch.next() == ("end", {"reason": "removed", "cursor": watch.cursor})
    if how == "removed":
        top.mkdir()
        with watching(files, path="p/top", cursor=watch.cursor) as again:
            assert again.changes(1) == [("overflow",)]
            (top / "f").touch()
            assert again.changes(1) == [("created", "p/top/f")]


def test_a_cursor_goes_on_without_gap_or_repetition(files: Files) -> None:
    with watching(files, recursive=True) as watch:
        (files.base / "a").touch()
        (files.base / "b").touch()
        assert watch.changes(1) == [("created", "a")]
        cursor = watch.cursor
    (files.base / "c").mkdir()
    (files.base / "c" / "d").touch()
    (files.base / "a").unlink()
    for _ in range(2):  # as often as one likes
        with watching(files, recursive=True, cursor=cursor) as again:
            told = again.until(lambda found: len(found) == 4)
            assert told == {("created", "b"), ("created", "c"), ("created", "c/d"), ("deleted", "a")}
            last = again.cursor
    with watching(files, recursive=True, cursor=last) as again:
        (files.base / "e").touch()
        assert again.changes(1) == [("created", "e")]
    with watching(files, recursive=True) as fresh:  # whoever begins now hears nothing of what was
        (files.base / "f").touch()
        assert fresh.changes(1) == [("created", "f")]


@pytest.mark.parametrize("cursor", ["x", "0123456789abcdef-3", "-", "-5", "é", "9" * 400])
def test_an_unknown_cursor_is_answered_with_an_overflow_first(files: Files, cursor: str) -> None:
    with watching(files, cursor=cursor) as watch:
        (files.base / "f").touch()
        assert watch.changes(2) == [("overflow",), ("created", "f")]


def test_a_cursor_is_of_no_use_for_another_watch(files: Files) -> None:
    with watching(files) as watch:
        (files.base / "d").mkdir()
        assert watch.changes(1) == [("created", "d")]
        for query in ({"path": "d"}, {"recursive": True}, {"renames": True}):
            with watching(files, cursor=watch.cursor, **query) as other:
                assert other.next()[0] == "overflow"
        number = int(watch.cursor.partition("-")[2])
        with watching(files, cursor=watch.cursor.replace(f"-{number}", f"-{number + 1}")) as ahead:
            assert ahead.next()[0] == "overflow"


def test_what_the_kernel_could_not_keep_is_said_and_what_is_there_is_told_all_the_same(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:  # of its own: readers of other tests, just leaving, have descriptors too
        files = Files(server, tmp_path / "base")
        with watching(files) as watch:
            cursor = watch.ready["cursor"]
            listening = event_descriptors(server)
        eventually(lambda: event_descriptors(server) < listening)  # nobody empties the queue now
        for number in range(QUEUE // 2 + 1000):
            (files.base / f"f{number}").write_text("x")  # two notices: that it was made, and that it was written to
        with watching(files, cursor=cursor) as again:
            assert again.changes(1) == [("overflow",)]
            (files.base / "last").touch()
            again.until(lambda found: ("created", "last") in found)


def event_descriptors(server: ServerProcess) -> int:
    """Each reader has one; so do other parts of the server."""
    count = 0
    for link in Path(f"/proc/{server.pid}/fd").iterdir():
        try:
            count += "eventfd" in os.readlink(link)
        except FileNotFoundError:
            continue  # closed meanwhile
    return count


@pytest.mark.finding("R1-F9")
def test_a_watch_lasts_as_long_as_the_policy_allows_and_so_many_at_once(tmp_path: Path) -> None:
    limits = {"max_duration_seconds": 0.3, "max_concurrency": 1}
    with running_server(tmp_path, policy={"endpoints": {"files_watch": {"limits": limits}}}) as server:
        files = Files(server, tmp_path / "base")
        with watching(files, timeout=3600) as watch:
            assert watch.next() == ("end", {"reason": "timeout", "cursor": watch.cursor})
    limits["max_duration_seconds"] = 3600
    with running_server(tmp_path, policy={"endpoints": {"files_watch": {"limits": limits}}}) as server:
        files = Files(server, tmp_path / "base")
        with watching(files):
            refused = server.request("GET", "/files/watch", query={"path": "."})
            assert (refused.status, refused.json()["code"]) == (429, "concurrency_limited")
        eventually(lambda: server.request("GET", "/files/watch", query={"path": ".", "timeout": 0.1}).status == 200)
        with watching(files) as watch:
            server.process.send_signal(signal.SIGTERM)
            assert watch.next() == ("end", {"reason": "shutdown", "cursor": watch.cursor})


def test_the_default_bound_is_five_minutes(files: Files) -> None:
    facts = files.server.request("GET", "/capabilities").json()["endpoints"]["files_watch"]
    assert facts["allowed"] is True
    capabilities = files.server.request("GET", "/capabilities").json()
    assert "300" in json.dumps(capabilities["endpoints"]["files_watch"])


def kernel_watches(server: ServerProcess) -> int:
    """How many directories the kernel watches for this server."""
    count = 0
    for info in Path(f"/proc/{server.pid}/fdinfo").iterdir():
        try:
            count += info.read_text().count("inotify wd:")
        except FileNotFoundError:
            continue  # closed meanwhile
    return count


def descriptors(server: ServerProcess) -> int:
    return len(os.listdir(f"/proc/{server.pid}/fd"))


@pytest.mark.field(53)
def test_field_053_a_thousand_watches_leave_nothing_behind(files: Files) -> None:
    for number in range(30):
        (files.base / f"d{number}" / "deep").mkdir(parents=True)
    with watching(files, recursive=True, renames=True):
        pass
    watches, before = kernel_watches(files.server), descriptors(files.server)
    assert watches >= 61
    for number in range(1000):
        watch = Watcher(files, recursive=True, renames=True)
        if number % 100 == 0:
            (files.base / f"f{number}").touch()
            assert watch.changes(1) == [("created", f"f{number}")]
        watch.close()  # in the middle of it
    eventually(lambda: descriptors(files.server) <= before)
    assert kernel_watches(files.server) <= watches
    for number in range(30):  # each another directory: few of those that nobody reads live on
        Watcher(files, path=f"d{number}").close()
    eventually(lambda: descriptors(files.server) <= before + 20)


def test_idle_watches_hold_no_thread(files: Files) -> None:
    def threads() -> int:
        return len(os.listdir(f"/proc/{files.server.pid}/task"))

    before = threads()
    with ExitStack() as stack:
        watchers = [stack.enter_context(watching(files)) for _ in range(40)]
        # A few wait for work; where all watches look after their directory at once, that is soon enough to stay.
        eventually(lambda: threads() <= before + 10)
        (files.base / "f").touch()
        assert [watcher.changes(1) for watcher in watchers] == [[("created", "f")]] * 40


def disturb(one: Path, other: Path, number: int) -> None:
    """One of six ways to change two directories."""
    way = number % 6
    if way == 0:
        (one / f"f{number}").touch()
    elif way == 1:
        (one / f"s{number}" / "t").mkdir(parents=True)
        (one / f"s{number}" / "t" / "u").touch()
    elif way == 2 and one != other:
        os.rename(one, other / f"m{number}")
        one.mkdir()
    elif way == 3:
        shutil.rmtree(one)
        one.mkdir()
    elif way == 4 and one != other:
        for found in list(one.iterdir()):
            os.rename(found, other / f"{found.name}-{number}")
    elif way == 5:
        (one / "x").write_text(str(number))
        os.rename(one / "x", one / "y")


def test_storms_of_changes_end_with_what_is_there(files: Files) -> None:
    """Whoever applies the changes to what was there before has what is there now."""
    for number in range(20):
        (files.base / f"d{number}").mkdir()
    with watching(files, recursive=True) as watch:
        picture = {f"d{number}" for number in range(20)}
        for number in range(600):
            disturb(files.base / f"d{number % 20}", files.base / f"d{(number * 7 + 1) % 20}", number)
        for mark in ("last", "end"):  # what is told after the last change may still concern an earlier one
            (files.base / mark).touch()
            while (change := watch.changes(1)[0]) != ("created", mark):
                (picture.discard if change[0] == "deleted" else picture.add)(change[1])
    there = {os.path.relpath(path, files.base) for path in files.base.rglob("*")}
    assert picture == there - {"last", "end"}


@pytest.mark.parametrize(("query", "status", "code"), [
    ({"path": "nowhere"}, 404, "not_found"),
    ({"path": "file"}, 404, "not_found"),
    ({"path": "secret"}, 403, "path_denied"),
    ({"path": "/etc"}, 403, "path_not_allowed"),
    ({"path": ".", "interval": "nan"}, 400, "invalid_argument"),
    ({"path": ".", "timeout": "soon"}, 400, "invalid_argument"),
])  # fmt: skip
def test_what_cannot_be_watched_is_refused(files: Files, query: dict[str, str], status: int, code: str) -> None:
    (files.base / "file").touch()
    reply = files.server.request("GET", "/files/watch", query=query)
    assert (reply.status, reply.json()["code"]) == (status, code)
