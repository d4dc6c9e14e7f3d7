"""Audit lines: one JSON object each, numbered and chained."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import threading

import pytest

from sandbox_server.audit import GENESIS, AuditLog, cut
from sandbox_server.verifying import verify
from tests.support.waiting import eventually


def lines(path) -> list[dict]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.finding("R2-S18")
def test_lines_are_numbered_and_each_holds_the_hash_of_the_one_before(tmp_path):
    file = tmp_path / "audit.jsonl"
    log = AuditLog(str(file))
    for number in range(3):
        log.write({"endpoint": "files_stat", "paths": [f"/a\n{number}"]})
    log.close()
    raw = file.read_bytes().splitlines()
    assert len(raw) == 3  # the line feed in a path is escaped, not a fourth line
    previous = GENESIS
    for number, line in enumerate(raw, 1):
        record = json.loads(line)
        assert (record["seq"], record["prev"]) == (number, previous)
        previous = hashlib.sha256(line).hexdigest()


def test_a_restart_continues_the_chain(tmp_path):
    file = tmp_path / "audit.jsonl"
    for _ in range(2):
        log = AuditLog(str(file))
        log.write({"endpoint": "shell"})
        log.close()
    first, second = file.read_bytes().splitlines()
    assert json.loads(second)["seq"] == 2
    assert json.loads(second)["prev"] == hashlib.sha256(first).hexdigest()


@pytest.mark.finding("R2-S18")
@pytest.mark.parametrize("lost", [1, 7])  # the line feed alone, and more
def test_a_torn_last_line_takes_no_other_line_with_it(tmp_path, lost):
    file = tmp_path / "audit.jsonl"
    for endpoint in ("shell", "health"):
        if file.exists():
            file.write_bytes(file.read_bytes()[:-lost])
        log = AuditLog(str(file))
        log.write({"endpoint": endpoint})
        log.write({"endpoint": endpoint})
        log.close()
    lines = file.read_bytes().splitlines()
    whole = [line for line in lines if line.endswith(b"}")]
    assert len(lines) - len(whole) == (lost > 1)
    assert [json.loads(line)["endpoint"] for line in whole[-2:]] == ["health", "health"]
    for before, line in itertools.pairwise(whole):
        assert json.loads(line)["prev"] == hashlib.sha256(before).hexdigest()
        assert json.loads(line)["seq"] == json.loads(before)["seq"] + 1


def test_a_line_that_was_written_in_part_takes_no_other_line_with_it(tmp_path, monkeypatch):
    file = tmp_path / "audit.jsonl"
    write, rest = os.write, [10]  # bytes, then the disk is full for once

    def failing(descriptor, data):
        if not rest:
            return write(descriptor, data)
        if rest[0]:
            count, rest[0] = rest[0], 0
            return write(descriptor, data[:count])
        rest.clear()
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", failing)
    log = AuditLog(str(file))
    log.write({"endpoint": "shell"})
    log.write({"endpoint": "health"})
    log.close()
    torn, lost, last = file.read_bytes().splitlines()
    assert len(torn) == 10
    assert json.loads(lost)["event"] == "lost"
    assert json.loads(last)["endpoint"] == "health"
    assert json.loads(last)["prev"] == hashlib.sha256(lost).hexdigest()


@pytest.mark.parametrize(("unwritten", "lost"), [(1, 0), (30, 3), (1_000_000, 3)])  # bytes at the end of every line
def test_lines_that_a_full_disk_took_are_counted_and_no_links_of_the_chain(tmp_path, monkeypatch, unwritten, lost):
    file = tmp_path / "audit.jsonl"
    write, full = os.write, threading.Event()

    def failing(descriptor, data):
        count = len(data) - unwritten if full.is_set() else len(data)
        if count <= 0:
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data[:count])

    monkeypatch.setattr(os, "write", failing)
    log = AuditLog(str(file))
    log.write({"endpoint": "first"})
    eventually(lambda: log.written == 1)
    full.set()
    for _ in range(3):
        log.write({"endpoint": "shell"})
    eventually(lambda: log.written + log.lost == 4)
    full.clear()
    log.write({"endpoint": "last"})
    log.close()
    verdict = verify([(file.name, file.read_bytes().splitlines(keepends=True))])
    assert (log.lost, verdict.lost) == (lost, lost)
    assert verdict.lines == 2 + (1 if lost else 3)


@pytest.mark.parametrize("path", ["/dev/full", "/dev/zero", "/dev/null"])
def test_what_is_no_file_is_not_read_for_its_last_line(path):
    log = AuditLog(path)
    log.write({"endpoint": "shell"})
    log.close()
    assert log.written + log.lost == 1


def test_a_torn_last_line_does_not_stop_the_next_start(tmp_path):
    file = tmp_path / "audit.jsonl"
    log = AuditLog(str(file))
    log.write({"endpoint": "shell"})
    log.close()
    whole = file.read_bytes()
    file.write_bytes(whole + b'{"seq": 2, "torn')
    log = AuditLog(str(file))
    log.write({"endpoint": "shell"})
    log.close()
    assert file.read_bytes().splitlines()[-1].endswith(hashlib.sha256(whole.rstrip()).hexdigest().encode() + b'"}')


def test_a_file_of_other_text_starts_a_new_chain(tmp_path):
    file = tmp_path / "audit.jsonl"
    file.write_text("hello\n")
    log = AuditLog(str(file))
    log.write({})
    log.close()
    assert json.loads(file.read_bytes().splitlines()[1]) == {"seq": 1, "prev": GENESIS}


def test_the_file_is_private(tmp_path):
    file = tmp_path / "audit.jsonl"
    AuditLog(str(file)).close()
    assert file.stat().st_mode & 0o777 == 0o600


def chain(raw: list[bytes]) -> bool:
    """True when every line but the first holds the hash of the one before."""
    hashes = [hashlib.sha256(line).hexdigest() for line in raw]
    return [json.loads(line)["prev"] for line in raw[1:]] == hashes[:-1]


def test_a_log_that_grows_too_long_loses_its_oldest_lines(tmp_path):
    file = tmp_path / "audit.jsonl"
    for _ in range(2):
        log = AuditLog(str(file), most_bytes=4000)
        for number in range(100):
            log.write({"endpoint": "shell", "number": number})
        log.close()
        raw = file.read_bytes().splitlines()
        assert 1000 - len(raw[0]) <= len(file.read_bytes()) <= 4000
        assert json.loads(raw[0])["seq"] > 1 and json.loads(raw[-1])["number"] == 99
        assert chain(raw)
    assert json.loads(raw[-1])["seq"] == 200


@pytest.mark.parametrize("flags", [os.O_WRONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR])
def test_standard_error_is_shortened_when_it_is_a_file(tmp_path, flags):
    file = tmp_path / "log"
    descriptor = os.open(file, flags | os.O_CREAT)
    log = AuditLog(descriptor=descriptor, most_bytes=2000)
    for number in range(50):
        log.write({"endpoint": "shell", "number": number})
    log.close()
    os.close(descriptor)
    raw = file.read_bytes().splitlines()
    assert len(file.read_bytes()) <= 2000
    assert json.loads(raw[-1])["seq"] == 50 and chain(raw)


def test_a_pipe_is_not_shortened():
    reader, writer = os.pipe()
    log = AuditLog(descriptor=writer, most_bytes=1)
    log.write({})
    log.write({})
    log.close()
    os.close(writer)
    assert len(os.read(reader, 65536).splitlines()) == 2
    os.close(reader)


def test_what_does_not_fit_is_counted_and_the_count_is_written():
    reader, writer = os.pipe()
    log = AuditLog(descriptor=writer, most_waiting=1)
    log._thread = object()  # nobody takes lines out yet
    for _ in range(3):
        log.write({"endpoint": "shell"})
    log._thread = None
    log._start()
    log.close()
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        records = [json.loads(line) for line in file.read().splitlines()]
    assert [(r.get("event"), r.get("count")) for r in records] == [("lost", 2), (None, None)]


def test_without_a_thread_lines_are_counted_and_the_next_one_tries_again(tmp_path, monkeypatch):
    file = tmp_path / "audit.jsonl"
    log = AuditLog(str(file))

    def none_left(self) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("threading.Thread.start", none_left)
        log.write({"endpoint": "shell"})
    log.write({"endpoint": "shell"})
    log.close()
    assert [record.get("count") for record in lines(file)] == [1, None]


@pytest.fixture
def stuck(tmp_path, monkeypatch):
    """A log that nobody reads: a line is on its way to a full pipe, and another one waits. Its pipe is full of `x`."""
    monkeypatch.setattr("sandbox_server.audit._PATIENCE", 0.1)
    os.mkfifo(tmp_path / "fifo")
    log = AuditLog(str(tmp_path / "fifo"), most_waiting=1)
    os.set_blocking(log._descriptor, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(log._descriptor, b"x" * 4096)
    os.set_blocking(log._descriptor, True)
    log.write({"endpoint": "shell"})
    eventually(lambda: log._waiting.empty())
    log.write({"endpoint": "health"})
    yield log
    os.close(log._descriptor)


def test_closing_does_not_wait_for_a_reader_who_is_not_there(stuck):
    stuck.close()
    assert stuck._thread.is_alive()
    os.fstat(stuck._descriptor)  # is not closed under what is being written
    os.read(stuck._descriptor, 65536)
    stuck._thread.join()
    assert (stuck.written, stuck.lost) == (1, 0)  # what waited is not written to whatever comes later


def test_a_full_disk_does_not_stop_the_log():
    full = os.open("/dev/full", os.O_WRONLY)
    log = AuditLog(descriptor=full)
    log.write({"endpoint": "shell"})
    log.close()
    os.close(full)
    assert log._lost == 1


def test_long_and_many_paths_are_cut():
    assert cut(["x" * 1000] * 20) == ["x" * 512] * 8
