"""A local file is replaced as a whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox_sdk import Receipt, TransferError
from sandbox_sdk.transfer.incoming import Incoming
from sandbox_sdk.transfer.progress import Progress
from sandbox_sdk.transfer.target import LocalTarget


def test_the_old_content_stays_until_the_new_is_complete(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("old")
    target = LocalTarget(str(file))
    target.open()
    target.write(b"new")
    assert file.read_text() == "old"
    target.commit()
    assert file.read_text() == "new"
    assert os.listdir(tmp_path) == ["f"]


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    def told(target: LocalTarget, step: Callable[[], object]) -> tuple[int | None, object, object]:
        with pytest.raises(OSError) as caught:
            step()
        target.discard()
        return caught.value.errno, caught.value.filename, caught.value.filename2

    target = LocalTarget("/proc/self/no/f")
    assert told(target, target.open) == (errno.ENOENT, "/proc/self/no/f", None)
    (tmp_path / "file").touch()
    target = LocalTarget(str(tmp_path / "file/f"))
    assert told(target, target.open)[1] == str(tmp_path / "file/f")
    target = LocalTarget("/dev/full")
    target.open()
    assert told(target, lambda: target.write(b"x")) == (errno.ENOSPC, "/dev/full", None)
    target = LocalTarget(str(tmp_path / "d"))
    target.open()
    (tmp_path / "d").mkdir()
    assert told(target, target.commit) == (errno.EISDIR, str(tmp_path / "d"), None)
    assert sorted(os.listdir(tmp_path)) == ["d", "file"]


@pytest.mark.field(26)
def test_field_026_what_is_discarded_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("old")
    target = LocalTarget(str(file))
    target.open()
    target.write(b"half")
    target.discard()
    target.discard()
    assert os.listdir(tmp_path) == ["f"]
    assert file.read_text() == "old"


def test_permissions_of_a_replaced_file_are_kept_and_new_ones_follow_the_umask(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text("x")
    old.chmod(0o640)
    mask = os.umask(0o027)
    try:
        for name in ("old", "new"):
            target = LocalTarget(str(tmp_path / name))
            target.open()
            target.commit()
    finally:
        os.umask(mask)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_link_keeps_pointing_to_the_file_that_gets_the_content(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    target = LocalTarget(str(tmp_path / "link"))
    target.open()
    target.write(b"new")
    target.commit()
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_missing_parents_are_made(tmp_path: Path) -> None:
    target = LocalTarget(str(tmp_path / "a" / "b" / "f"))
    target.open()
    target.write(b"x")
    target.commit()
    assert (tmp_path / "a" / "b" / "f").read_bytes() == b"x"


def test_a_device_is_written_to_directly() -> None:
    target = LocalTarget("/dev/null")
    target.open()
    target.write(b"x")
    assert not target.rewindable
    target.commit()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_the_longest_name_still_works(tmp_path: Path) -> None:
    target = LocalTarget(str(tmp_path / ("n" * 255)))
    target.open()
    target.commit()
    assert os.listdir(tmp_path) == ["n" * 255]


def incoming(tmp_path: Path) -> Incoming:
    return Incoming("remote", str(tmp_path / "f"), Progress(None))


def test_a_download_in_two_parts_of_one_version(tmp_path: Path) -> None:
    download = incoming(tmp_path)
    download.accept(200, {"content-length": "6", "etag": '"v1"'})
    download.write(b"abc")
    assert download.resumable
    download.accept(206, {"content-range": "bytes 3-5/6", "content-length": "3", "etag": '"v1"'})
    download.write(b"def")
    assert download.finish(True).bytes == 6
    assert (tmp_path / "f").read_bytes() == b"abcdef"


def test_another_version_begins_anew(tmp_path: Path) -> None:
    progress = Progress(None)
    download = Incoming("remote", str(tmp_path / "f"), progress)
    download.accept(200, {"content-length": "6", "etag": '"v1"'})
    download.write(b"abc")
    download.accept(200, {"content-length": "2", "etag": '"v2"'})
    assert progress.done == 0
    download.write(b"xy")
    download.finish(False)
    assert (tmp_path / "f").read_bytes() == b"xy"


@pytest.mark.parametrize(
    ("headers", "message"),
    [({"content-range": "bytes 4-5/6"}, "at byte 4 instead of 3"), ({}, "without saying which")],
)
def test_a_part_that_does_not_fit_is_refused(tmp_path: Path, headers: dict[str, str], message: str) -> None:
    download = incoming(tmp_path)
    download.accept(200, {"content-length": "6"})
    download.write(b"abc")
    with pytest.raises(TransferError, match=message):
        download.accept(206, headers)
    download.discard()


@pytest.mark.field(20)
def test_field_020_too_few_bytes_are_no_success(tmp_path: Path) -> None:
    download = incoming(tmp_path)
    download.accept(200, {"content-length": "6"})
    download.write(b"abc")
    with pytest.raises(TransferError, match="3 of 6 bytes"):
        download.finish(False)
    download.discard()
    assert os.listdir(tmp_path) == []


def test_a_damaged_file_is_not_put_in_place(tmp_path: Path) -> None:
    download = incoming(tmp_path)
    download.accept(200, {"content-length": "1", "repr-digest": "md5=:AAAA:, sha-256=:AAAA:"})
    download.write(b"x")
    with pytest.raises(TransferError, match="damaged"):
        download.finish(True)
    download.discard()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("header", ["sha-256=:=:", "last-modified"])
def test_odd_headers_are_ignored(tmp_path: Path, header: str) -> None:
    download = incoming(tmp_path)
    download.accept(200, {"content-length": "x", "repr-digest": header, "last-modified": "yesterday"})
    receipt = download.finish(True)
    assert receipt.mtime is None and receipt.sha256


def test_weak_or_missing_versions_cannot_be_resumed(tmp_path: Path) -> None:
    for headers in ({}, {"etag": 'W/"v1"'}):
        download = incoming(tmp_path)
        download.accept(200, headers)
        assert not download.resumable
        download.discard()


def test_the_receipt_tells_the_facts(tmp_path: Path) -> None:
    download = incoming(tmp_path)
    head = {"content-length": "0", "etag": '"v"', "last-modified": "Thu, 01 Jan 1970 00:00:10 GMT", "repr-digest": "x"}
    download.accept(200, head)
    receipt = download.finish(True)
    assert receipt.mtime is not None and receipt.mtime.timestamp() == 10
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert receipt == Receipt("remote", 0, mtime=receipt.mtime, etag='"v"', sha256=empty)


def test_progress_is_thinned_out_and_always_ends_with_the_total() -> None:
    now = [0.0]
    seen: list[tuple[int, int]] = []
    progress = Progress(lambda *facts: seen.append(facts), 100, clock=lambda: now[0])
    for _ in range(100):
        progress.add(1)
        now[0] += 0.03
    progress.finish()
    progress.finish()
    assert seen[0] == (1, 100)
    assert seen[-1] == (100, 100)
    assert len(seen) <= 3 / 0.1 + 1
    assert seen == sorted(seen)
