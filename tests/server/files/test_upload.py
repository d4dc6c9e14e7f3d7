"""Storing files: exact bytes, one rename, conditions, and nothing left behind."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import socket
import threading
from pathlib import Path

import pytest

from tests.server.files.conftest import OCTETS, Files
from tests.support.server import Reply, running_server
from tests.support.waiting import eventually

SIZES = sorted({size + step for power in range(23) for size in [1 << power] for step in (-1, 0, 1)})


def refusal(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json()["code"]


@pytest.mark.field(20)
def test_field_020_every_size_is_stored_exactly_and_confirmed(files: Files) -> None:
    for size in SIZES:
        data = os.urandom(size)
        reply = files.upload("f", data)
        assert reply.status == 200
        assert (reply.json()["bytes"], reply.json()["size"]) == (size, size)
        assert (files.base / "f").read_bytes() == data


def test_a_receipt_tells_what_was_stored(files: Files) -> None:
    reply = files.upload("new/dir/f.txt", b"alpha", mode="640", mtime="1500000000.5")
    found = (files.base / "new/dir/f.txt").stat()
    receipt = reply.json()
    assert receipt.pop("etag") == files.download("new/dir/f.txt").headers["etag"]
    assert receipt == {
        "path": str(files.base / "new/dir/f.txt"),
        "bytes": 5,
        "size": 5,
        "mode": "0640",
        "mtime": 1500000000.5,
        "sha256": None,
        "created": True,
        "replaced_directly": False,
    }
    assert (found.st_mode & 0o7777, found.st_mtime) == (0o640, 1500000000.5)
    assert files.upload("new/dir/f.txt", b"beta").json()["created"] is False


def test_a_digest_is_given_only_when_wanted(files: Files) -> None:
    data = os.urandom(300_000)
    assert files.upload("f", data).json()["sha256"] is None
    wanted = {"Want-Repr-Digest": "sha-256"}
    for reply in (files.upload("f", data, wanted), files.upload_text("f", base64.b64encode(data).decode(), wanted)):
        assert reply.json()["sha256"] == hashlib.sha256(data).hexdigest()
        expected = base64.b64encode(hashlib.sha256(data).digest()).decode()
        assert reply.headers["repr-digest"] == f"sha-256=:{expected}:"
        assert (files.base / "f").read_bytes() == data


@pytest.mark.field(19)
def test_field_019_an_empty_file_is_a_file_in_both_forms(files: Files) -> None:
    for path, reply in (("raw", files.upload("raw", b"")), ("text", files.upload_text("text", ""))):
        assert (reply.status, reply.json()["bytes"]) == (200, 0)
        assert (files.base / path).read_bytes() == b""
        assert files.download(path).body == b""
        assert files.download_text(path).json() == {
            "path": str(files.base / path),
            "content_base64": "",
            "bytes": 0,
        }
        assert files.download(path, {"Range": "bytes=0-0"}).status == 200


def test_missing_and_malformed_content_is_refused_before_anything_is_written(files: Files) -> None:
    server = files.server
    assert refusal(server.request("POST", "/files/upload-stream", {"path": "f"})) == (400, "invalid_argument")
    assert refusal(files.upload_text("f", "!!!")) == (400, "invalid_argument")
    assert refusal(files.upload_text("f", "YQ")) == (400, "invalid_argument")
    text = server.request("POST", "/files/upload-stream", "hello", {"Content-Type": "text/plain"})
    assert refusal(text) == (415, "unsupported_media_type")
    assert list(files.base.iterdir()) == []


def test_a_target_that_is_a_directory_is_refused(files: Files) -> None:
    (files.base / "d").mkdir()
    (files.base / "d/inside").touch()
    assert files.upload("d", b"x").status in (404, 409)
    assert files.upload("d/inside/below", b"x").status in (404, 409)
    assert os.listdir(files.base / "d") == ["inside"]


@pytest.mark.parametrize("mode", ["8", "999", "4755", "-644", "0x1a", "00644", "rw-r--r--"])
def test_modes_are_three_octal_digits_without_set_id_bits(files: Files, mode: str) -> None:
    assert refusal(files.upload("f", b"x", mode=mode)) == (400, "invalid_argument")
    assert not (files.base / "f").exists()


@pytest.mark.parametrize("mtime", ["-1", "1e300", "nan", "inf", "yesterday"])
def test_times_outside_the_calendar_are_refused(files: Files, mtime: str) -> None:
    assert refusal(files.upload("f", b"x", mtime=mtime)) == (400, "invalid_argument")


def test_a_replaced_file_keeps_its_permissions(files: Files) -> None:
    (files.base / "script").write_bytes(b"old")
    (files.base / "script").chmod(0o751)
    assert files.upload("script", b"new").json()["mode"] == "0751"
    assert (files.base / "script").stat().st_mode & 0o777 == 0o751


def test_overwriting_can_be_forbidden_by_the_caller(files: Files) -> None:
    assert files.upload("f", b"old", overwrite="false").status == 200
    assert refusal(files.upload("f", b"new", overwrite="false")) == (409, "file_exists")
    assert (files.base / "f").read_bytes() == b"old"


def test_a_policy_that_forbids_overwriting_wins_over_the_caller(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_upload_stream": {"params": {"overwrite": False, "deny_extensions": [".sh"]}}}}
    with running_server(tmp_path, policy=policy) as server:
        files = Files(server, tmp_path / "base")
        assert files.upload("f", b"old").status == 200
        assert refusal(files.upload("f", b"new", overwrite="true")) == (409, "file_exists")
        assert refusal(files.upload("x.SH", b"new")) == (403, "extension_not_allowed")
        assert [(found.name, found.read_bytes()) for found in files.base.iterdir()] == [("f", b"old")]


def test_a_write_can_demand_a_new_file(files: Files) -> None:
    only_new = {"If-None-Match": "*"}
    assert files.upload("f", b"one", only_new).status == 200
    assert refusal(files.upload("f", b"two", only_new)) == (412, "precondition_failed")
    assert (files.base / "f").read_bytes() == b"one"


def test_a_write_can_demand_the_version_it_read(files: Files) -> None:
    first = files.upload("f", b"one").json()["etag"]
    second = files.upload("f", b"two", {"If-Match": first}).json()["etag"]
    assert second != first
    assert refusal(files.upload("f", b"three", {"If-Match": first})) == (412, "precondition_failed")
    assert refusal(files.upload("none", b"three", {"If-Match": "*"})) == (412, "precondition_failed")
    assert refusal(files.upload("f", b"three", {"If-None-Match": second})) == (412, "precondition_failed")
    assert (files.base / "f").read_bytes() == b"two"


def test_of_many_writers_that_demand_a_new_file_exactly_one_succeeds(files: Files) -> None:
    replies: list[tuple[bytes, int]] = []

    def write(data: bytes) -> None:
        replies.append((data, files.upload("f", data, {"If-None-Match": "*"}).status))

    writers = [threading.Thread(target=write, args=(bytes([n]) * 1000,)) for n in range(12)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    won = [data for data, status in replies if status == 200]
    assert len(won) == 1
    assert {status for _, status in replies} <= {200, 412}
    assert (files.base / "f").read_bytes() == won[0]


@pytest.mark.finding("R1-F3")
def test_an_upload_that_breaks_off_leaves_the_old_file_and_nothing_else(files: Files) -> None:
    files.upload("f", b"old")
    seen = {target: files.broken_off(target) for target in ("f", "new/g")}
    for target in seen:
        with socket.create_connection(("127.0.0.1", files.server.port)) as connection:
            head = f"POST /files/upload-stream?path={target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {OCTETS}\r\n"
            connection.sendall(head.encode() + b"Content-Length: 10000000\r\n\r\n" + b"x" * 3_000_000)
    eventually(lambda: all(files.broken_off(target) > count for target, count in seen.items()))
    assert (files.base / "f").read_bytes() == b"old"
    left = {str(found.relative_to(files.base)) for found in files.base.rglob("*")}
    assert left <= {"f", "new"}


@pytest.mark.field(43)
def test_field_043_a_reader_sees_the_old_file_or_the_new_one_never_a_mixture(files: Files) -> None:
    size = 1 << 20
    files.upload("f", b"a" * size)
    mixed: list[bytes] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            data = files.download("f").body
            if len(data) != size or len(set(data)) != 1:
                mixed.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    for letter in b"bcdefghijk":
        files.upload("f", bytes([letter]) * size)
    done.set()
    reader.join()
    assert not mixed


@pytest.mark.field(34)
def test_field_034_a_file_is_there_as_soon_as_its_upload_is_answered(files: Files) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", files.server.port)
    for number in range(200):
        connection.request("POST", f"/files/upload-stream?path=f{number}", b"x", {"Content-Type": OCTETS})
        connection.getresponse().read()
        assert (files.base / f"f{number}").read_bytes() == b"x"
    connection.close()


@pytest.mark.finding("R1-F3")
def test_a_policy_bounds_raw_bodies_and_text_alike_and_the_default_only_text(tmp_path: Path, files: Files) -> None:
    policy = {"endpoints": {"files_upload_stream": {"limits": {"max_bytes": 64}}}}
    with running_server(tmp_path, policy=policy) as server:
        bounded = Files(server, tmp_path / "base")
        assert bounded.upload("f", b"x" * 64).status == 200
        for reply in (bounded.upload("g", b"x" * 65), bounded.upload_text("g", base64.b64encode(b"x" * 65).decode())):
            assert refusal(reply) == (413, "payload_too_large")
            assert reply.json()["limit"] == 64
        assert os.listdir(bounded.base) == ["f"]
    assert files.upload("big", b"x" * (11 << 20)).status == 200
    assert files.upload_text("big", base64.b64encode(b"x" * (11 << 20)).decode()).status == 413


def test_too_large_is_refused_before_the_body_is_read(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_upload_stream": {"limits": {"max_bytes": 64}}}}
    head = f"POST /files/upload-stream?path=f HTTP/1.1\r\nHost: localhost\r\nContent-Type: {OCTETS}\r\n"
    with (
        running_server(tmp_path, policy=policy) as server,
        socket.create_connection(("127.0.0.1", server.port)) as connection,
    ):
        connection.sendall(head.encode() + b"Content-Length: 100000000000\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


@pytest.mark.field(31)
def test_field_031_a_full_disk_is_a_typed_refusal_and_the_old_file_stays(small_disk: Path, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        files = Files(server, small_disk)
        assert files.upload("f", b"old" * 100_000).status == 200
        reply = files.upload("f", b"n" * (6 << 20))
        assert refusal(reply) == (507, "no_space")
        assert reply.json()["needed"] == 6 << 20
        assert 0 < reply.json()["free"] < 6 << 20
        assert (small_disk / "f").read_bytes() == b"old" * 100_000
        assert os.listdir(small_disk) == ["f"]
        assert files.upload("f", b"new").status == 200


def round_trip(files: Files, name: str) -> None:
    """Every verb takes the name as it is, and every answer gives it back."""
    assert files.upload(name, b"data").json()["path"] == str(files.base / name)
    assert (files.base / name).read_bytes() == b"data"
    assert files.download(name).body == b"data"
    listed = files.list(os.path.dirname(name) or ".").json()["entries"]
    assert [entry["name"] for entry in listed] == [os.path.basename(name)]
    assert files.stat(name).json()["name"] == os.path.basename(name)
    assert files.delete(name).status == 200
    assert not (files.base / name).exists()


@pytest.mark.field(1)
def test_field_001_a_name_beyond_ascii_comes_back_exactly(files: Files) -> None:
    round_trip(files, "日本語 é.txt")


@pytest.mark.field(2)
def test_field_002_blanks_and_umlauts_are_decoded_once(files: Files) -> None:
    round_trip(files, "a b/ü.txt")


@pytest.mark.field(5)
def test_field_005_a_name_that_looks_encoded_is_that_very_name(files: Files) -> None:
    round_trip(files, "%2e%2e%2fetc")


@pytest.mark.field(10)
@pytest.mark.parametrize("name", ["-rf", "--help.txt", "-"])
def test_field_010_a_leading_dash_is_data(files: Files, name: str) -> None:
    round_trip(files, name)


@pytest.mark.field(11)
@pytest.mark.parametrize("name", ['a"b\r\nX: y.txt', "\\", "a;b=c", "\t", "'"])
def test_field_011_quotes_and_line_ends_are_data(files: Files, name: str) -> None:
    round_trip(files, name)


@pytest.mark.field(16)
def test_field_016_dotfiles_are_files(files: Files) -> None:
    round_trip(files, ".env.d/.git")


@pytest.mark.finding("R2-S20")
def test_look_alike_names_are_different_files(files: Files) -> None:
    names = ["\u00e9", "e\u0301", "E\u0301", "\u00c5", "\u212b", "A\u030a", "\u0430", "a"]
    for number, name in enumerate(names):
        files.upload(name, bytes([number]))
    assert [(files.base / name).read_bytes() for name in names] == [bytes([n]) for n in range(len(names))]


@pytest.mark.field(146)
def test_field_146_a_name_that_climbs_out_is_refused(files: Files) -> None:
    for name in ("../x", "a/../../x", "/etc/x", "..", "./.."):
        assert refusal(files.upload(name, b"x")) == (403, "path_not_allowed")
    assert not (files.base.parent / "x").exists()
