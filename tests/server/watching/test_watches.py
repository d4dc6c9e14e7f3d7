"""Watches without a server: polling where the kernel is silent, and the bounds of what is kept."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.access import PathRule
from sandbox_server.guards.below import Below
from sandbox_server.guards.paths import PathGuards
from sandbox_server.handlers import watch
from sandbox_server.messages import Refusal, Wait
from sandbox_server.watching import inotify, snapshot, tree, watches
from sandbox_server.watching.snapshot import TooLarge
from sandbox_server.watching.watches import Reader, Subject, Watches
from tests.support.waiting import eventually

RULE = PathRule()


@pytest.fixture
def guards(tmp_path: Path) -> Iterator[PathGuards]:
    opened = PathGuards(str(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def service() -> Iterator[Watches]:
    running = Watches()
    yield running
    running.close()


def below(guards: PathGuards, path: str = ".") -> Below:
    with guards.of(RULE).locate(path, "read") as location:
        return location.inside()


def attach(
    service: Watches, guards: PathGuards, path: str = ".", *, recursive: bool = False, renames: bool = False,
    cursor: str = "",
) -> Reader:  # fmt: skip
    place = below(guards, path)
    return service.attach(Subject(RULE, place.path, recursive, renames), place, interval=0.1, cursor=cursor)


def changes(reader: Reader, top: Path, count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def enough() -> bool:
        found.extend((change.type, os.path.relpath(change.path, top)) for change, _ in reader.read()[1])
        return len(found) >= count

    eventually(enough)
    return found


def no_inotify(self: inotify.Inotify) -> None:
    raise OSError(errno.EMFILE, "no more")


def no_watches(self: inotify.Inotify, directory: int) -> int:
    raise OSError(errno.ENOSPC, "no more")


def shared_by_network(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inotify.Inotify, "hears", lambda self, directory: False)


SILENT: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a shared file system": shared_by_network,
    "no more queues": lambda patch: patch.setattr(inotify.Inotify, "__init__", no_inotify),
    "no more watches": lambda patch: patch.setattr(inotify.Inotify, "add", no_watches),
}


@pytest.mark.field(52)
@pytest.mark.parametrize("why", SILENT)
def test_field_052_where_the_kernel_is_silent_it_is_polled_and_said_so(
    why: str, service: Watches, guards: PathGuards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SILENT[why](monkeypatch)
    (tmp_path / "d").mkdir()
    reader = attach(service, guards, recursive=True, renames=True)
    assert reader.polls
    (tmp_path / "d" / "f").write_text("x")
    assert changes(reader, tmp_path, 1) == [("created", "d/f")]
    os.rename(tmp_path / "d", tmp_path / "e")
    assert changes(reader, tmp_path, 1) == [("renamed", "e")]
    (tmp_path / "e" / "f").write_text("longer")
    assert changes(reader, tmp_path, 1) == [("modified", "e/f")]
    (tmp_path / "e" / "f").unlink()
    assert changes(reader, tmp_path, 1) == [("deleted", "e/f")]
    reader.close()


@pytest.mark.field(52)
def test_field_052_the_file_systems_of_networks_are_known_by_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = inotify.Inotify()
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        assert queue.hears(directory)
        everything = type("Everything", (frozenset,), {"__contains__": lambda self, number: number > 0})()
        monkeypatch.setattr(inotify, "_SHARED", everything)
        assert not queue.hears(directory)
    finally:
        os.close(directory)
        queue.close()
    monkeypatch.undo()
    assert {0x6969, 0xFF534D42, 0x65735546, 0x01021997} <= inotify._SHARED  # NFS, CIFS, FUSE, 9P


def told(stream: Iterator[bytes | Wait]) -> list[tuple[str, dict[str, Any]]]:
    """The events of the next piece that has any."""
    for piece in stream:
        if isinstance(piece, bytes) and piece.startswith(b"event: "):
            events = (event.split("\n") for event in piece.decode().removesuffix("\n\n").split("\n\n"))
            return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in events]
        if isinstance(piece, Wait):
            select.select(piece.descriptors, [], [], max(0.0, piece.until - time.monotonic()))
    raise AssertionError("the stream has ended")


@pytest.mark.field(52)
def test_field_052_a_watch_whose_notices_run_out_says_that_it_polls_and_when_no_more(
    service: Watches, guards: PathGuards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = attach(service, guards, recursive=True)
    with contextlib.closing(watch._events(reader, str(tmp_path), time.monotonic() + 3600)) as stream:
        [(name, facts)] = told(stream)
        assert (name, facts["mode"]) == ("ready", "inotify")
        SILENT["no more watches"](monkeypatch)
        (tmp_path / "d").mkdir()
        [(name, made)] = told(stream)
        assert (name, made["path"]) == ("change", str(tmp_path / "d"))
        [mode] = told(stream)
        assert mode == ("mode", {"mode": "polling", "cursor": made["cursor"]})
        (tmp_path / "d" / "f").touch()
        [(name, facts)] = told(stream)  # the mode is told once
        assert (name, facts["path"]) == ("change", str(tmp_path / "d" / "f"))
        os.rename(tmp_path / "d", f"{tmp_path}-elsewhere")
        *gone, mode = told(stream)
        assert [facts["type"] for _, facts in gone] == ["deleted", "deleted"]
        assert mode == ("mode", {"mode": "inotify", "cursor": reader.cursor})
    reader.close()


@pytest.mark.field(52)
def test_field_052_every_reader_is_woken_when_polling_begins_though_nothing_has_changed(
    service: Watches, guards: PathGuards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shut(self: Below, path: str) -> int:
        if path == "d":
            raise PermissionError
        return open_(self, path)

    open_ = Below.open
    (tmp_path / "d").mkdir()
    monkeypatch.setattr(Below, "open", shut)
    one, other = attach(service, guards, recursive=True), attach(service, guards, recursive=True)
    assert not other.polls
    monkeypatch.setattr(Below, "open", open_)
    SILENT["no more watches"](monkeypatch)
    assert other.read() == (None, [])
    (tmp_path / "d").chmod(0o755)  # now it can be entered
    eventually(lambda: one.read() == (None, []) and one.polls)
    woken, _, _ = select.select(other.descriptors[:1], [], [], 0)
    assert woken == [other.descriptors[0]]
    one.close()
    other.close()


def test_polling_rests_longer_than_it_works(
    service: Watches, guards: PathGuards, monkeypatch: pytest.MonkeyPatch
) -> None:
    SILENT["no more queues"](monkeypatch)
    planted = tree.Tree(below(guards), recursive=False, renames=False, interval=0.5)
    now = 1000.0
    monkeypatch.setattr(tree.time, "monotonic", lambda: now)
    planted._plan_poll(3.0)
    assert planted._poll_at == now + 30
    planted._plan_poll(0.001)
    assert planted._poll_at == now + 0.5
    planted.close()


def test_more_entries_than_are_kept_track_of_are_refused_or_end_the_watch(
    service: Watches, guards: PathGuards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "MOST_ENTRIES", 10)
    (tmp_path / "d").mkdir()
    for number in range(9):
        (tmp_path / "d" / f"f{number}").touch()
    reader = attach(service, guards, recursive=True)
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "f").touch()
    eventually(lambda: reader.read() and reader.ended == "too_large")
    reader.close()
    with pytest.raises(TooLarge):
        attach(service, guards, recursive=True)
    attach(service, guards).close()  # these two it can


def test_what_is_made_and_written_at_once_is_one_change(service: Watches, guards: PathGuards, tmp_path: Path) -> None:
    reader = attach(service, guards)
    assert not reader.polls
    (tmp_path / "f").write_text("x")  # the kernel gives notice of both
    assert changes(reader, tmp_path, 1) == [("created", "f")]
    (tmp_path / "f").write_text("y")  # emptied, then written
    assert changes(reader, tmp_path, 1) == [("modified", "f")]
    (tmp_path / "g").touch()
    assert changes(reader, tmp_path, 1) == [("created", "g")]
    reader.close()


def test_those_who_watch_the_same_share_it(service: Watches, guards: PathGuards, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    one, same = attach(service, guards), attach(service, guards)
    others = [
        attach(service, guards, "d"),
        attach(service, guards, recursive=True),
        attach(service, guards, renames=True),
    ]
    assert one.cursor == same.cursor
    assert len({reader.cursor for reader in (one, *others)}) == 4
    (tmp_path / "f").touch()
    assert changes(one, tmp_path, 1) == changes(same, tmp_path, 1) == [("created", "f")]
    for reader in (one, same, *others):
        reader.close()
        reader.close()  # as often as one likes


def test_what_a_reader_knew_of_when_it_left_is_told_to_the_others(
    service: Watches, guards: PathGuards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "TOGETHER", 3600.0)
    stays, leaves = attach(service, guards), attach(service, guards)
    assert stays.read() == (None, [])
    (tmp_path / "f").touch()
    assert leaves.read() == (None, [])  # the notice is taken in, and waits for more of them
    leaves.close()
    woken, _, _ = select.select(stays.descriptors[:1], [], [], 0)
    assert woken == [stays.descriptors[0]]
    attach(service, guards).close()  # whoever begins has a look at once
    assert changes(stays, tmp_path, 1) == [("created", "f")]
    stays.close()


def open_queues() -> int:
    count = 0
    for number in os.listdir("/proc/self/fd"):
        try:
            count += "inotify" in os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue  # the listing's own
    return count


def test_a_watch_that_nobody_reads_ends_after_a_while(guards: PathGuards, tmp_path: Path) -> None:
    before = open_queues()
    patient = Watches()
    attach(patient, guards).close()
    assert open_queues() == before + 1
    patient.close()
    service = Watches(linger=0.2)
    reader = attach(service, guards)
    cursor = reader.cursor
    reader.close()
    eventually(lambda: open_queues() == before)
    again = attach(service, guards, cursor=cursor)
    assert again.read()[0] is not None  # what happened meanwhile is lost, and that is said
    again.close()
    service.close()
    assert open_queues() == before


def test_only_so_many_directories_are_watched_and_few_of_them_for_nobody(
    service: Watches, guards: PathGuards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = open_queues()
    monkeypatch.setattr(watches, "MOST_TREES", 6)
    monkeypatch.setattr(watches, "MOST_LINGERING", 2)
    for number in range(7):
        (tmp_path / f"d{number}").mkdir()
    for number in range(7):
        attach(service, guards, f"d{number}").close()
    assert open_queues() == before + 2
    readers = [attach(service, guards, f"d{number}") for number in range(6)]
    with pytest.raises(Refusal) as refused:
        attach(service, guards, "d6")
    assert refused.value.code == "busy"
    assert open_queues() == before + 6
    readers.pop().close()
    readers.append(attach(service, guards, "d6"))  # in the place of one that nobody reads
    for reader in readers:
        reader.close()


def test_a_reader_who_is_too_slow_is_told_that_something_is_missing(
    service: Watches, guards: PathGuards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "KEPT", 3)
    slow, quick = attach(service, guards), attach(service, guards)
    for number in range(5):
        (tmp_path / f"f{number}").touch()
        assert changes(quick, tmp_path, 1) == [("created", f"f{number}")]
    gap, found = slow.read()
    assert [os.path.basename(change.path) for change, _ in found] == ["f2", "f3", "f4"]
    assert gap == found[0][1].replace("-3", "-2")  # the cursor before the first that is left
    assert slow.read() == (None, [])
    slow.close()
    quick.close()


def test_a_server_that_stops_ends_its_watches_and_begins_no_more(
    service: Watches, guards: PathGuards, tmp_path: Path
) -> None:
    (tmp_path / "d").mkdir()
    with pytest.raises(FileNotFoundError):
        attach(service, guards, "nowhere")
    reader = attach(service, guards, "d")
    service.retire()
    assert reader.ended == "shutdown"
    reader.close()
    with pytest.raises(Refusal):
        attach(service, guards, "d")


def test_a_silent_watch_says_that_it_is_alive_and_waits_without_a_thread(
    service: Watches, guards: PathGuards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "HEARTBEAT", 0.0)
    reader = attach(service, guards)
    stream = watch._events(reader, str(tmp_path), time.monotonic() + 3600)
    assert b"event: ready" in next(stream)
    assert next(stream) == b":\n\n"
    wait = next(stream)
    assert isinstance(wait, Wait) and set(wait.descriptors) == set(reader.descriptors)
    stream.close()
    reader.close()
