"""Reading files: exact bytes, ranges, validators, and headers that cannot be forged."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import socket
from email.utils import formatdate
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server.handlers.download import content_disposition
from tests.server.files.conftest import OCTETS, Files
from tests.support.server import running_server


@pytest.mark.field(20)
def test_field_020_every_size_is_read_exactly_in_both_forms(files: Files) -> None:
    for size in (0, 1, 2, 3, 4095, 65535, 65536, 65537, 786431, 786432, 786433, 3_000_001):
        data = os.urandom(size)
        (files.base / "f").write_bytes(data)
        raw, text = files.download("f"), files.download_text("f")
        assert (raw.status, raw.body, raw.headers["content-length"]) == (200, data, str(size))
        assert text.json() == {
            "path": str(files.base / "f"),
            "content_base64": base64.b64encode(data).decode(),
            "bytes": size,
        }


def test_raw_answers_describe_themselves(files: Files) -> None:
    (files.base / "f").write_bytes(b"alpha")
    os.utime(files.base / "f", (1_500_000_000, 1_500_000_000))
    headers = files.download("f").headers
    assert headers["content-type"] == OCTETS
    assert headers["accept-ranges"] == "bytes"
    assert headers["last-modified"] == formatdate(1_500_000_000, usegmt=True)
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-disposition"] == "attachment; filename=\"f\"; filename*=UTF-8''f"
    assert headers["etag"] == files.stat("f").json()["etag"]
    assert files.download_text("f").headers["content-type"].startswith("application/json")


def test_head_answers_the_same_headers_and_no_body(files: Files) -> None:
    (files.base / "f").write_bytes(b"alpha")
    get, head = files.download("f"), files.download("f", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    for name in ("content-length", "etag", "content-type", "accept-ranges"):
        assert head.headers[name] == get.headers[name]


@pytest.mark.parametrize(
    ("asked", "content_range", "body"),
    [
        ("bytes=0-0", "0-0", b"0"),
        ("bytes=2-5", "2-5", b"2345"),
        ("bytes=7-", "7-9", b"789"),
        ("bytes=-3", "7-9", b"789"),
    ],
)
def test_a_range_is_answered_with_206(files: Files, asked: str, content_range: str, body: bytes) -> None:
    (files.base / "f").write_bytes(b"0123456789")
    reply = files.download("f", {"Range": asked})
    assert (reply.status, reply.body) == (206, body)
    assert reply.headers["content-range"] == f"bytes {content_range}/10"
    assert reply.headers["content-length"] == str(len(body))


def test_a_range_outside_is_416_and_several_are_the_whole_file(files: Files) -> None:
    (files.base / "f").write_bytes(b"0123456789")
    outside = files.download("f", {"Range": "bytes=10-"})
    assert (outside.status, outside.json()["code"]) == (416, "range_not_satisfiable")
    assert outside.headers["content-range"] == "bytes */10"
    several = files.download("f", {"Range": "bytes=0-1,4-5"})
    assert (several.status, several.body) == (200, b"0123456789")


def test_a_download_can_be_conditional(files: Files) -> None:
    (files.base / "f").write_bytes(b"0123456789")
    etag = files.download("f").headers["etag"]
    same = files.download("f", {"If-None-Match": etag})
    assert (same.status, same.body, same.headers["etag"]) == (304, b"", etag)
    assert files.download("f", {"If-Match": etag}).status == 200
    assert files.download("f", {"If-Match": '"other"'}).status == 412
    assert files.download("f", {"Range": "bytes=0-1", "If-Range": etag}).status == 206
    assert files.upload("f", b"abcdefghij").status == 200
    assert files.download("f", {"If-None-Match": etag}).status == 200
    resumed = files.download("f", {"Range": "bytes=5-", "If-Range": etag})
    assert (resumed.status, resumed.body) == (200, b"abcdefghij")


def test_connections_survive_every_kind_of_answer(files: Files) -> None:
    (files.base / "f").write_bytes(b"0123456789")
    (files.base / "big").write_bytes(os.urandom(2_000_000))
    connection = http.client.HTTPConnection("127.0.0.1", files.server.port)
    raw = {"Accept": OCTETS}
    etag = files.download("f").headers["etag"]
    plan = [
        ("GET", "f", raw, 200), ("HEAD", "f", raw, 200), ("GET", "f", {}, 200), ("HEAD", "big", {}, 200),
        ("GET", "f", {**raw, "Range": "bytes=3-4"}, 206), ("GET", "f", {**raw, "Range": "bytes=30-"}, 416),
        ("GET", "f", {**raw, "If-None-Match": etag}, 304), ("GET", "none", raw, 404), ("GET", "big", raw, 200),
        ("GET", "big", {}, 200), ("GET", "f", raw, 200),
    ]  # fmt: skip
    for method, path, headers, status in plan:
        connection.request(method, f"/files/download-stream?path={path}", headers=headers)
        sock = connection.sock
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
        assert connection.sock is sock
    connection.close()


def test_a_digest_is_sent_when_wanted_and_is_that_of_the_whole_file(files: Files) -> None:
    data = os.urandom(2_500_000)
    (files.base / "f").write_bytes(data)
    expected = f"sha-256=:{base64.b64encode(hashlib.sha256(data).digest()).decode()}:"
    wanted = {"Want-Repr-Digest": "sha-256=1"}
    assert files.download("f", wanted).headers["repr-digest"] == expected
    part = files.download("f", {**wanted, "Range": "bytes=5-9"})
    assert (part.body, part.headers["repr-digest"]) == (data[5:10], expected)
    assert "repr-digest" not in files.download("f").headers


@pytest.mark.field(23)
def test_field_023_the_limit_refuses_before_reading(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_download_stream": {"limits": {"max_bytes": "1MiB"}}}}
    with running_server(tmp_path, policy=policy) as server:
        files = Files(server, tmp_path / "base")
        with (files.base / "sparse").open("wb") as sparse:
            sparse.truncate(2 << 30)
        for reply in (files.download("sparse"), files.download_text("sparse")):
            assert (reply.status, reply.json()["code"], reply.json()["limit"]) == (413, "payload_too_large", 1 << 20)


@pytest.mark.field(26)
@pytest.mark.field(49)
def test_field_049_what_is_no_regular_file_is_not_found_and_never_hangs(files: Files) -> None:
    (files.base / "d").mkdir()
    os.mkfifo(files.base / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(files.base / "s"))
        for path in ("none", "d", "fifo", "s", "none/below", "fifo/below"):
            reply = files.download(path)
            assert (reply.status, reply.json()["type"], reply.json()["code"]) == (404, "FileNotFoundError", "not_found")
    (files.base / "secret").write_text("x")
    denied = files.download("secret")
    assert (denied.status, denied.json()["code"]) == (403, "path_denied")


def test_a_file_that_shrinks_meanwhile_breaks_the_answer_off_instead_of_padding_it(files: Files) -> None:
    for accept in (OCTETS, "application/json"):
        size = 64 << 20
        with (files.base / "f").open("wb") as sparse:
            sparse.truncate(size)
        connection = http.client.HTTPConnection("127.0.0.1", files.server.port)
        connection.request("GET", "/files/download-stream?path=f", headers={"Accept": accept})
        answer = connection.getresponse()
        assert len(answer.read(1 << 20)) == 1 << 20
        os.truncate(files.base / "f", 1000)
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()
        connection.close()
    assert files.stat("f").status == 200


def test_a_file_that_grows_meanwhile_is_answered_as_long_as_it_was(files: Files) -> None:
    size = 32 << 20
    with (files.base / "f").open("wb") as sparse:
        sparse.truncate(size)
    connection = http.client.HTTPConnection("127.0.0.1", files.server.port)
    connection.request("GET", "/files/download-stream?path=f", headers={"Accept": OCTETS})
    answer = connection.getresponse()
    first = answer.read(1000)
    os.truncate(files.base / "f", 2 * size)
    assert len(first) + len(answer.read()) == size
    connection.close()


@pytest.mark.field(11)
@given(st.text(min_size=1, max_size=40))
def test_field_011_no_name_can_end_its_header(name: str) -> None:
    try:
        encoded = os.fsencode(name)
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte cannot be a file's name
        return
    value = content_disposition(name)
    assert value.isascii() and value.isprintable()
    plain, _, exact = value.removeprefix('attachment; filename="').partition("\"; filename*=UTF-8''")
    assert not set(plain) & set('"\\%;')
    assert not set(exact) & set(" \"';,\\")
    assert unquote(exact, errors="surrogateescape") == os.fsdecode(encoded)


@pytest.mark.field(1)
def test_field_001_a_name_beyond_ascii_travels_in_the_extended_form(files: Files) -> None:
    name = "日本語 é.txt"
    files.upload(name, b"x")
    value = files.download(name).headers["content-disposition"]
    assert value == "attachment; filename=\"___ _.txt\"; filename*=UTF-8''%E6%97%A5%E6%9C%AC%E8%AA%9E%20%C3%A9.txt"


@pytest.mark.parametrize("accept", ["application/octet-stream", "application/json"])
def test_conditions_hold_for_both_forms_and_dates_count_where_no_tag_is_named(files: Files, accept: str) -> None:
    (files.base / "f").write_bytes(b"data")
    os.utime(files.base / "f", (1_000_000_000, 1_000_000_000.5))
    etag = files.stat("f").json()["etag"]
    exactly, before = "Sun, 09 Sep 2001 01:46:40 GMT", "Sun, 09 Sep 2001 01:46:39 GMT"
    for fields, status in (
        ({"If-None-Match": etag}, 304),
        ({"If-Match": '"other"'}, 412),
        ({"If-Modified-Since": exactly}, 304),
        ({"If-Modified-Since": before}, 200),
        ({"If-Modified-Since": exactly, "If-None-Match": '"other"'}, 200),
        ({"If-Unmodified-Since": exactly}, 200),
        ({"If-Unmodified-Since": before}, 412),
        ({"If-Unmodified-Since": before, "If-Match": etag}, 200),
        ({"If-Modified-Since": "yesterday", "If-Unmodified-Since": "99 99 99"}, 200),
    ):
        assert files.download("f", {"Accept": accept, **fields}).status == status, fields
