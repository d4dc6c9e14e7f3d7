"""Adding to files and writing into them: exactly the bytes that were sent, at exactly one place."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
import threading
from pathlib import Path

import pytest

from tests.server.files.conftest import OCTETS, Files
from tests.support.server import Reply, running_server
from tests.support.waiting import eventually

LARGE = (1 << 16) + 1  # does not fit what is read into memory at once


def refusal(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json()["code"]


@pytest.mark.parametrize("size", [0, 1, LARGE - 1, LARGE])
def test_an_append_makes_the_file_and_then_adds_to_it(files: Files, size: int) -> None:
    data = os.urandom(size)
    first = files.upload("new/log", data, append="true", mode="600").json()
    assert (first["bytes"], first["size"], first["created"], first["mode"]) == (size, size, True, "0600")
    again = files.upload("new/log", data, append="true").json()
    assert (again["bytes"], again["size"], again["created"], again["mode"]) == (size, 2 * size, False, "0600")
    assert (files.base / "new/log").read_bytes() == data + data
    assert again["etag"] == files.download("new/log").headers["etag"]
    assert os.listdir(files.base / "new") == ["log"]


def test_the_json_form_appends_too(files: Files) -> None:
    for text in ("one\n", "two\n"):
        body = {"path": "log", "content_base64": base64.b64encode(text.encode()).decode(), "append": True}
        assert files.server.request("POST", "/files/upload-stream", body).status == 200
    body = {"path": "log", "content_base64": base64.b64encode(b"TWO").decode(), "offset": 4}
    assert files.server.request("POST", "/files/upload-stream", body).json()["size"] == 8
    assert (files.base / "log").read_bytes() == b"one\nTWO\n"


@pytest.mark.parametrize("size", [3, LARGE])
def test_a_write_at_an_offset_keeps_the_rest(files: Files, size: int) -> None:
    old, new = os.urandom(size + 10), os.urandom(size)
    (files.base / "f").write_bytes(old)
    reply = files.upload("f", new, offset=4, mtime="1000")
    assert (reply.json()["bytes"], reply.json()["size"], reply.json()["mtime"]) == (size, size + 10, 1000.0)
    assert (files.base / "f").read_bytes() == old[:4] + new + old[4 + size :]
    reply = files.upload("f", new, offset=size + 10)
    assert reply.json()["size"] == 2 * size + 10
    assert (files.base / "f").read_bytes() == old[:4] + new + old[4 + size :] + new


def test_a_changed_program_keeps_no_set_id_bit(files: Files) -> None:
    (files.base / "f").write_bytes(b"x")
    for how in ({"append": "true"}, {"offset": 0}, {"offset": 0, "mode": "711"}):
        (files.base / "f").chmod(0o6755)
        assert files.upload("f", b"y", **how).json()["mode"] == ("0711" if "mode" in how else "0755")


def test_an_offset_behind_the_end_is_refused_with_the_size(files: Files) -> None:
    (files.base / "f").write_bytes(b"12345")
    for path, size in (("f", 5), ("missing", 0)):
        reply = files.upload(path, b"x", offset=6)
        assert refusal(reply) == (416, "range_not_satisfiable")
        assert (reply.json()["size"], reply.headers["content-range"]) == (size, f"bytes */{size}")
    assert files.upload("missing", b"x", offset=0).json()["created"] is True
    assert (files.base / "f").read_bytes() == b"12345"


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ({"append": "true", "offset": 0}, {}),
        ({"offset": -1}, {}),
        ({"append": "true"}, {"If-None-Match": "*"}),
        ({"offset": 0}, {"If-None-Match": "*"}),
    ],
)
def test_what_contradicts_itself_is_refused(files: Files, query: dict[str, object], headers: dict[str, str]) -> None:
    assert refusal(files.upload("f", b"x", headers, **query)) == (400, "invalid_argument")
    assert os.listdir(files.base) == []


def test_what_is_no_file_takes_no_append(files: Files) -> None:
    (files.base / "d").mkdir()
    os.mkfifo(files.base / "pipe")
    for path in ("d", "pipe"):
        for size in (1, LARGE):
            assert refusal(files.upload(path, b"x" * size, append="true")) == (404, "not_found")


def test_the_digest_is_that_of_what_was_sent(files: Files) -> None:
    wanted = {"Want-Repr-Digest": "sha-256"}
    for data in (b"first", os.urandom(LARGE), b"last"):
        reply = files.upload("f", data, wanted, append="true")
        assert reply.json()["sha256"] == hashlib.sha256(data).hexdigest()
        assert ("repr-digest" in reply.headers) == (data == b"first")


@pytest.mark.field(28)
def test_field_028_a_thousand_appends_send_only_what_they_add(files: Files) -> None:
    pieces = [os.urandom(4096) for _ in range(1000)]
    (files.base / "log").touch()
    kept = (files.base / "log").stat().st_ino
    for number, piece in enumerate(pieces, 1):
        receipt = files.upload("log", piece, append="true").json()
        assert (receipt["bytes"], receipt["size"]) == (4096, number * 4096)
    assert (files.base / "log").stat().st_ino == kept
    assert (files.base / "log").read_bytes() == b"".join(pieces)


@pytest.mark.parametrize("start", ["missing", "there"])
def test_appends_at_once_never_mix_and_none_is_lost(files: Files, start: str) -> None:
    if start == "there":
        (files.base / "log").touch()
    sizes = (100, LARGE, 3 * LARGE)
    replies: list[Reply] = []

    def work(mark: bytes) -> None:
        for size in sizes:
            replies.append(files.upload("log", mark * size, append="true"))

    threads = [threading.Thread(target=work, args=(bytes([65 + n]),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [reply.status for reply in replies] == [200] * 24
    assert sum(reply.json()["created"] for reply in replies) == (start == "missing")
    content = (files.base / "log").read_bytes()
    assert len(content) == 8 * sum(sizes)
    for mark in range(65, 73):
        for size in sorted(sizes, reverse=True):
            record = bytes([mark]) * size
            assert record in content
            content = content.replace(record, b"", 1)
    assert content == b""
    assert os.listdir(files.base) == ["log"]


def test_an_append_that_breaks_off_adds_nothing(files: Files) -> None:
    (files.base / "log").write_bytes(b"before")
    seen = files.broken_off("log")
    for sent, length in ((10, 20), (LARGE, 2 * LARGE)):
        head = (
            f"POST /files/upload-stream?path=log&append=true HTTP/1.1\r\nHost: localhost\r\nContent-Type: {OCTETS}\r\n"
        )
        with socket.create_connection(("127.0.0.1", files.server.port)) as connection:
            connection.sendall(head.encode() + f"Content-Length: {length}\r\n\r\n".encode() + b"x" * sent)
    eventually(lambda: files.broken_off("log") == seen + 2)
    assert os.listdir(files.base) == ["log"]
    assert (files.base / "log").read_bytes() == b"before"


def test_an_append_can_demand_the_version_it_read_and_of_many_one_wins(files: Files) -> None:
    etag = files.upload("log", b"0").json()["etag"]
    assert refusal(files.upload("log", b"1", {"If-Match": '"other"'}, append="true")) == (412, "precondition_failed")
    assert refusal(files.upload("missing", b"1", {"If-Match": "*"}, append="true")) == (412, "precondition_failed")
    statuses: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: statuses.append(files.upload("log", b"1", {"If-Match": etag}, append="true").status)
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [412] * 7
    assert (files.base / "log").read_bytes() == b"01"


def test_of_many_writers_that_demand_one_version_exactly_one_replaces_it(files: Files) -> None:
    etag = files.upload("f", b"old").json()["etag"]
    statuses: list[int] = []

    def write(size: int) -> None:
        statuses.append(files.upload("f", b"n" * size, {"If-Match": etag}).status)

    threads = [threading.Thread(target=write, args=(size,)) for size in (1, 2, 3, LARGE, LARGE + 1, LARGE + 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [412] * 5


def test_the_rules_for_writing_hold_for_appends(tmp_path: Path) -> None:
    policy = {
        "endpoints": {
            "files_upload_stream": {
                "params": {"overwrite": False, "deny_extensions": [".exe"]},
                "limits": {"max_bytes": 10},
                "paths": {"hardlinks": "deny"},
            }
        }
    }
    with running_server(tmp_path, policy=policy) as server:
        files = Files(server, tmp_path / "base")
        assert files.upload("new", b"x" * 10, append="true").status == 200
        assert refusal(files.upload("new", b"x", append="true")) == (409, "file_exists")
        assert refusal(files.upload("a.exe", b"x", append="true")) == (403, "extension_not_allowed")
        os.link(files.base / "new", files.base / "twin")
        assert refusal(files.upload("twin", b"x", append="true")) == (403, "hardlink_denied")


def test_a_policy_bounds_what_a_file_grows_to(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_upload_stream": {"limits": {"max_bytes": 10}}}}
    with running_server(tmp_path, policy=policy) as server:
        files = Files(server, tmp_path / "base")
        assert files.upload("f", b"123456", append="true").status == 200
        assert refusal(files.upload("f", b"78901", append="true")) == (413, "payload_too_large")
        assert refusal(files.upload("f", b"78901", offset=6)) == (413, "payload_too_large")
        assert files.upload("f", b"7890", offset=6).status == 200


@pytest.mark.field(31)
@pytest.mark.parametrize("how", [{"append": "true"}, {"offset": 2_000_000}])
def test_field_031_an_append_that_does_not_fit_leaves_the_file(
    small_disk: Path, tmp_path: Path, how: dict[str, object]
) -> None:
    with running_server(tmp_path) as server:
        files = Files(server, small_disk)
        old = os.urandom(2_000_000)
        assert files.upload("f", old).status == 200
        (small_disk / "fill").write_bytes(bytes(2_800_000))
        for size in (60_000, 600_000):
            room = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
            filler = small_disk / "filler"
            filler.write_bytes(bytes(max(0, room - 40_000)))
            reply = files.upload("f", b"n" * size, **how)
            assert refusal(reply) == (507, "no_space")
            assert (reply.json()["needed"], reply.json()["free"] < 60_000) == (size, True)
            assert (small_disk / "f").read_bytes() == old
            filler.unlink()
