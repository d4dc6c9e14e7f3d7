"""Archives: what is in them, what is kept out of them, and that they can be read elsewhere."""

from __future__ import annotations

import base64
import gzip
import http.client
import io
import json
import os
import resource
import stat
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_server.archives.blocks import gzipped, joined
from sandbox_server.archives.members import PIECE, Source
from sandbox_server.archives.tar_writer import tar
from sandbox_server.archives.zip_writer import zipped
from sandbox_server.messages import Aborted
from tests.server.files.conftest import Files, empty
from tests.support.server import running_server
from tests.support.waiting import eventually

TAR, GZ, ZIP = "application/x-tar", "application/gzip", "application/zip"


def tar_members(data: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name: member for member in archive}


def tar_content(data: bytes, name: str) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        file = archive.extractfile(name)
        assert file
        return file.read()


def zip_content(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {info.filename: archive.read(info) for info in archive.infolist()}


def unwrapped(reply: Any) -> bytes:
    answer = reply.json()
    data = base64.b64decode(answer["content_base64"], validate=True)
    assert len(data) == answer["bytes"]
    return data


def plant(base: Path) -> None:
    (base / "out/sub/void").mkdir(parents=True)
    (base / "out/a.txt").write_text("alpha")
    (base / "out/empty").touch()
    (base / "out/sub/n.txt").write_text("nested")
    (base / "out/link").symlink_to("sub/n.txt")
    (base / "out/sub/up").symlink_to("..")


def test_the_json_form_is_a_gzipped_tar_without_directories(files: Files) -> None:
    plant(files.base)
    reply = files.archive("out")
    assert reply.json()["format"] == "tar.gz"
    members = tar_members(unwrapped(reply))
    assert sorted(members) == ["out/a.txt", "out/empty", "out/link", "out/sub/n.txt", "out/sub/up"]
    assert (members["out/link"].linkname, members["out/sub/up"].linkname) == ("sub/n.txt", "..")


@pytest.mark.parametrize("format", ["tar", "tar.gz", "zip"])
def test_every_format_comes_in_json_too(files: Files, format: str) -> None:
    plant(files.base)
    data = unwrapped(files.archive("out/a.txt", format=format))
    assert zip_content(data) == {"a.txt": b"alpha"} if format == "zip" else tar_content(data, "a.txt") == b"alpha"


@pytest.mark.parametrize(("accept", "opened"), [(TAR, "r:"), (GZ, "r:gz"), (f"{TAR};q=0.4, text/plain", "r:")])
def test_a_streamed_tar_has_directories_modes_and_times(files: Files, accept: str, opened: Any) -> None:
    plant(files.base)
    (files.base / "out/a.txt").chmod(0o4751)
    os.utime(files.base / "out/a.txt", (1, 1_600_000_000))
    (files.base / "out/sub/void").chmod(0o711)
    reply = files.archive("out", accept=accept)
    assert reply.headers["content-type"] == accept.partition(";")[0]
    assert "content-length" not in reply.headers
    with tarfile.open(fileobj=io.BytesIO(reply.body), mode=opened) as archive:
        members = {member.name: member for member in archive}
    assert list(members) == [
        "out", "out/a.txt", "out/empty", "out/link", "out/sub", "out/sub/n.txt", "out/sub/up", "out/sub/void",
    ]  # fmt: skip
    a = members["out/a.txt"]
    assert (a.mode, a.mtime, a.size, a.uid, a.gid, a.uname) == (0o4751, 1_600_000_000, 5, 0, 0, "")
    assert members["out/sub/void"].isdir() and members["out/sub/void"].mode == 0o711
    assert members["out/empty"].isreg() and members["out/empty"].size == 0


def test_octets_mean_the_format_that_the_body_names(files: Files) -> None:
    plant(files.base)
    assert zip_content(files.archive("out/a.txt", accept="application/octet-stream", format="zip").body)
    assert gzip.decompress(files.archive("out/a.txt", accept="application/octet-stream").body)
    assert files.archive("out/a.txt", accept=TAR, format="zip").headers["content-type"] == ZIP


@pytest.mark.parametrize("level", [0, 1, 9])
def test_a_zip_holds_the_content_behind_links_and_no_linked_directory(files: Files, level: int) -> None:
    plant(files.base)
    (files.base / "out/big").write_bytes(b"0123456789abcdef" * 50_000)
    reply = files.archive("out", accept=ZIP, level=level)
    assert reply.headers["content-disposition"].startswith('attachment; filename="out.zip"')
    found = zip_content(reply.body)
    assert found == {
        "out/": b"", "out/a.txt": b"alpha", "out/big": b"0123456789abcdef" * 50_000, "out/empty": b"",
        "out/link": b"nested", "out/sub/": b"", "out/sub/n.txt": b"nested", "out/sub/void/": b"",
    }  # fmt: skip
    assert (len(reply.body) > 800_000) is (level == 0)


@pytest.mark.finding("R2-S1")
@pytest.mark.finding("R1-F2")
@pytest.mark.field(145)
@pytest.mark.parametrize("accept", ["", TAR, GZ, ZIP])
def test_field_145_denied_members_and_links_that_lead_out_are_left_out(files: Files, accept: str) -> None:
    base = files.base
    plant(base)
    outside = base.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "o.txt").write_text("OUTSIDE")
    (base / "out/secret").mkdir()
    (base / "out/secret/s.txt").write_text("SECRET")
    (base / "out/k.pem").write_text("SECRET")
    (base / "out/to-file").symlink_to(outside / "o.txt")
    (base / "out/to-directory").symlink_to(outside)
    (base / "out/to-denied").symlink_to("k.pem")
    (base / "out/round").symlink_to("round")
    os.mkfifo(base / "out/pipe")
    reply = files.archive("out", accept=accept)
    data = reply.body if accept else unwrapped(reply)
    names = set(zip_content(data)) if accept == ZIP else set(tar_members(data))
    hidden = {"secret", "s.txt", "k.pem", "to-file", "to-directory", "to-denied", "pipe", "o.txt"}
    assert not {part for name in names for part in name.split("/")} & hidden
    assert {"out/a.txt", "out/sub/n.txt"} <= names
    plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    assert b"SECRET" not in plain and b"OUTSIDE" not in plain


def test_files_with_several_names_are_left_out_where_the_rule_says_so(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_*": {"paths": {"hardlinks": "deny"}}}}
    with running_server(tmp_path, policy=policy) as server:
        base = tmp_path / "base"
        (base / "d").mkdir()
        (base / "d/one").write_text("1")
        (base / "d/two").write_text("2")
        os.link(base / "d/two", base / "three")
        assert sorted(tar_members(Files(server, base).archive("d", accept=TAR).body)) == ["d", "d/one"]


@pytest.mark.field(1)
@pytest.mark.field(10)
@pytest.mark.field(19)
def test_field_001_010_019_odd_names_and_empty_files_arrive_as_they_are(files: Files) -> None:
    names = ["-rf", "--help.txt", "ü.txt", "日本", "a b", 'q"u', "new\nline", "back\\slash", "x" * 200, "é" * 120]
    deep = "/".join(["d" * 90] * 4)
    (files.base / "t" / deep).mkdir(parents=True)
    for name in [*names, f"{deep}/leaf"]:
        (files.base / "t" / name).write_bytes(name.encode())
    (files.base / "t/empty").touch()
    expected = {f"t/{name}": name.encode() for name in [*names, f"{deep}/leaf"]} | {"t/empty": b""}
    data = files.archive("t", accept=TAR).body
    assert {name: tar_content(data, name) for name, m in tar_members(data).items() if m.isreg()} == expected
    zipped = zip_content(files.archive("t", accept=ZIP).body)
    assert {name: content for name, content in zipped.items() if not name.endswith("/")} == expected


def test_names_that_are_no_utf8_keep_their_bytes(files: Files) -> None:
    long = b"\xff" * 130
    (files.base / "t").mkdir()
    for name in (b"\xff\xfe", long):
        Path(os.fsdecode(os.path.join(os.fsencode(files.base), b"t", name))).write_bytes(b"x")
    names = {os.fsencode(name) for name in tar_members(files.archive("t", accept=TAR).body)}
    assert names == {b"t", b"t/\xff\xfe", b"t/" + long}


def test_paths_with_the_same_name_are_numbered_and_a_path_given_twice_is_packed_once(files: Files) -> None:
    for place in ("a", "b", "c"):
        (files.base / place).mkdir()
        (files.base / place / "x.txt").write_text(place)
    data = files.archive("a/x.txt", "b/x.txt", "c/x.txt", "a/./x.txt", accept=TAR).body
    assert {name: tar_content(data, name) for name in tar_members(data)} == {
        "x.txt": b"a", "x (2).txt": b"b", "x (3).txt": b"c",
    }  # fmt: skip


@pytest.mark.field(146)
def test_field_146_no_member_is_absolute_or_leads_up(files: Files) -> None:
    plant(files.base)
    for paths in (["."], [str(files.base)], ["out/../out/sub"], ["./out"]):
        for name in tar_members(files.archive(*paths, accept=TAR).body):
            assert not name.startswith("/") and ".." not in name.split("/")


def test_a_missing_path_a_bad_format_and_a_bad_level_are_refused(files: Files) -> None:
    plant(files.base)
    for accept in ("", TAR):
        assert files.archive("out", "none", accept=accept).json()["code"] == "not_found"
        assert files.archive("out", "/etc/passwd", accept=accept).json()["code"] == "path_not_allowed"
        assert files.archive("secret", accept=accept).json()["code"] == "path_denied"
        for body in ({"format": "rar"}, {"level": 10}, {"level": -1}):
            reply = files.archive("out", accept=accept, **body)
            assert (reply.status, reply.json()["code"]) == (400, "invalid_argument")


def test_limits_bound_the_streamed_form_only_where_a_policy_writes_them(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_archive": {"limits": {"max_files": 2, "max_bytes": 8000}}}}
    with running_server(tmp_path, policy=policy) as server:
        files = Files(server, tmp_path / "base")
        for name in ("a", "b", "c"):
            (files.base / name).write_bytes(os.urandom(2000))
        assert files.archive("a", "b", accept=TAR).status == 200
        assert files.archive("a", "b", "c", accept=TAR).json()["code"] == "invalid_argument"
        (files.base / "b").write_bytes(os.urandom(1_000_000))
        assert files.archive("b").json() == {**files.archive("b").json(), "code": "payload_too_large", "limit": 8000}
        assert files.archive("b", accept=TAR).json()["code"] == "payload_too_large"  # nothing had been sent yet
        with pytest.raises(http.client.IncompleteRead):
            files.archive("a", "b", accept=TAR)


def test_a_file_that_shrinks_breaks_a_tar_off_and_leaves_a_zip_whole(tmp_path: Path) -> None:
    def packed(write: Any) -> bytes:
        file = tmp_path / "f"
        file.write_bytes(b"x" * (3 * PIECE))
        descriptor = os.open(file, os.O_RDONLY)
        try:
            found = b""
            for piece in write([Source(b"f", stat.S_IFREG | 0o644, 0, 3 * PIECE, descriptor)]):
                found += piece
                if len(found) > PIECE:
                    os.truncate(file, PIECE + 1)
            return found
        finally:
            os.close(descriptor)

    with pytest.raises(Aborted):
        packed(tar)
    assert zip_content(packed(lambda sources: zipped(sources, 0))) == {"f": b"x" * (PIECE + 1)}


def test_a_file_that_grows_is_packed_up_to_the_size_it_had(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"x" * (2 * PIECE))
    descriptor = os.open(file, os.O_RDONLY)
    source = Source(b"f", stat.S_IFREG | 0o644, 0, 2 * PIECE, descriptor)
    try:
        for write in (tar, lambda sources: zipped(sources, 0)):
            found = b""
            for piece in write([source]):
                found += piece
                with file.open("ab") as end:
                    end.write(b"y" * 1000)
            content = zip_content(found)["f"] if found[:2] == b"PK" else tar_content(found, "f")
            assert content == b"x" * (2 * PIECE)
    finally:
        os.close(descriptor)


def test_sizes_beyond_eight_gibibytes_and_many_members_are_told_right(tmp_path: Path) -> None:
    file = tmp_path / "sparse"
    size = 9 << 30
    with file.open("wb") as made:
        made.truncate(size)
    descriptor = os.open(file, os.O_RDONLY)
    try:
        first = next(tar([Source(b"s", stat.S_IFREG | 0o644, -5, size, descriptor)]))
    finally:
        os.close(descriptor)
    with tarfile.open(fileobj=io.BytesIO(first)) as archive:
        member = archive.next()
    assert member and (member.name, member.size, member.mtime) == ("s", size, -5)
    many = b"".join(zipped((Source(b"d%d" % n, stat.S_IFDIR | 0o755, 0) for n in range(70_000)), 1))
    with zipfile.ZipFile(io.BytesIO(many)) as archive:
        assert len(archive.infolist()) == 70_000


def test_the_first_bytes_come_before_the_rest_is_read(tmp_path: Path) -> None:
    read: list[int] = []

    def sources() -> Any:
        for number in range(1000):
            read.append(number)
            yield Source(b"d%d" % number, stat.S_IFDIR | 0o755, 0)

    blocks = joined(gzipped(tar(sources()), 0))
    assert next(blocks)
    assert len(read) < 100


def test_a_caller_that_leaves_does_not_cost_a_descriptor(files: Files) -> None:
    (files.base / "big").mkdir()
    for number in range(40):
        (files.base / f"big/{number}").write_bytes(os.urandom(1 << 20))
    held = len(os.listdir(f"/proc/{files.server.pid}/fd"))
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", files.server.port, timeout=60)
        body = json.dumps({"paths": ["big"]})
        connection.request("POST", "/files/archive", body, {"Accept": TAR, "Content-Type": "application/json"})
        connection.getresponse().read(1000)
        connection.close()
    eventually(lambda: len(os.listdir(f"/proc/{files.server.pid}/fd")) <= held)


TREES = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "ü", "x" * 101, "-", "e" * 30]), min_size=1, max_size=4).map(tuple),
    st.binary(max_size=600),
    max_size=6,
)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(tree=TREES)
def test_any_tree_comes_out_as_it_went_in(files: Files, tree: dict[tuple[str, ...], bytes]) -> None:
    empty(files.base)
    top = files.base / "t"
    top.mkdir()
    expected = {}
    for parts, content in tree.items():
        place = top.joinpath(*parts)
        if place.exists() or any(parent.is_file() for parent in place.parents):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        expected["/".join(("t", *parts))] = content
    data = files.archive("t", accept=TAR).body
    assert {name: tar_content(data, name) for name, m in tar_members(data).items() if m.isreg()} == expected
    found = zip_content(files.archive("t", accept=ZIP).body)
    assert {name: content for name, content in found.items() if not name.endswith("/")} == expected
    with tempfile.TemporaryFile() as kept:
        kept.write(data)
        assert kept.tell() % 512 == 0


def test_only_files_count_as_files_and_links_do_too(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_archive": {"limits": {"max_files": 2}}}}
    with running_server(tmp_path, policy=policy) as server:
        files = Files(server, tmp_path / "base")
        (files.base / "d/e/f").mkdir(parents=True)
        (files.base / "d/one").touch()
        (files.base / "d/two").symlink_to("one")
        assert files.archive("d", accept="application/x-tar").status == 200
        (files.base / "d/e/three").symlink_to("../one")
        assert files.archive("d", accept="application/x-tar").status == 400


def test_a_name_that_no_zip_can_hold_is_a_refusal(files: Files) -> None:
    place = os.open(files.base, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d" * 250, dir_fd=place)
        deeper = os.open("d" * 250, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = deeper
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=place))
    os.close(place)
    try:
        reply = files.archive(".", format="zip")
        assert (reply.status, reply.json()["code"], reply.json()["field"]) == (400, "invalid_argument", "format")
        with pytest.raises(http.client.IncompleteRead):  # its head is sent long before the name turns up
            files.archive(".", accept="application/zip")
        with tarfile.open(fileobj=io.BytesIO(files.archive(".", accept="application/x-tar").body)) as archive:
            assert max(len(name) for name in archive.getnames()) > 300 * 250
    finally:
        assert files.delete("d" * 250).status in (200, 403)
        subprocess.run(["rm", "-rf", str(files.base / ("d" * 250))], check=True)


def test_many_paths_are_packed_with_few_descriptors(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        files = Files(server, tmp_path / "base")
        names = [f"f{number}" for number in range(500)]
        for name in names:
            (files.base / name).write_text(name)
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (100, hard))
        for accept in ("", "application/x-tar"):
            reply = files.archive(*names, accept=accept)
            assert reply.status == 200
            data = reply.body if accept else base64.b64decode(reply.json()["content_base64"])
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                assert archive.getnames() == names
