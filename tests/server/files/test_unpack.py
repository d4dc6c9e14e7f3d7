"""Unpacking: all of an archive or nothing of it, and never anything outside the target."""

from __future__ import annotations

import gzip
import io
import os
import socket
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.server.files.conftest import Files
from tests.support.server import Reply, running_server
from tests.support.waiting import eventually

TAR, GZ, ZIP = "application/x-tar", "application/gzip", "application/zip"
Member = tuple[str, bytes] | tarfile.TarInfo


def info(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, link, mode
    return member


def tar_of(*members: Member, format: int = tarfile.PAX_FORMAT) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=format) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                about = tarfile.TarInfo(member[0])
                about.size = len(member[1])
                archive.addfile(about, io.BytesIO(member[1]))
    return data.getvalue()


def zip_of(*members: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return data.getvalue()


def unpack(files: Files, data: bytes, kind: str = TAR, path: str = "t", **query: Any) -> Reply:
    return files.server.request("POST", "/files/unpack", data, {"Content-Type": kind}, {"path": path, **query})


def found(top: Path) -> dict[str, bytes | str | None]:
    """Everything below: files with their bytes, links with their text, directories as None."""
    tree: dict[str, bytes | str | None] = {}
    for place in sorted(top.rglob("*")):
        name = str(place.relative_to(top))
        tree[name] = os.readlink(place) if place.is_symlink() else None if place.is_dir() else place.read_bytes()
    return tree


def refused(reply: Reply, files: Files, code: str = "bad_archive") -> None:
    assert reply.json()["code"] == code
    assert reply.status < 500 or code == "no_space"
    assert found(files.base) == {}


def packers() -> dict[str, Callable[[bytes], bytes]]:
    return {TAR: bytes, GZ: gzip.compress}


@pytest.mark.parametrize("kind", [TAR, GZ])
@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_a_tar_is_unpacked_with_modes_and_times(files: Files, kind: str, format: int) -> None:
    run = info("d/run", mode=0o6751)
    run.mtime = 1_500_000_000
    data = tar_of(
        info("./", tarfile.DIRTYPE), info("d", tarfile.DIRTYPE, mode=0o700), run, ("d/sub/a", b"alpha" * 99_999),
        ("empty", b""), info("l", tarfile.SYMTYPE, "d/run"), info("h", tarfile.LNKTYPE, "d/sub/a"),
        ("-rf", b"x"), ("ü" * 40, b"y"), format=format,
    )  # fmt: skip
    reply = unpack(files, packers()[kind](data), kind)
    assert reply.json() == {
        "path": str(files.base / "t"), "files": 6, "directories": 2, "links": 1, "bytes": 5 * 99_999 + 2,
    }  # fmt: skip
    top = files.base / "t"
    assert found(top) == {
        "d": None, "d/run": b"", "d/sub": None, "d/sub/a": b"alpha" * 99_999, "empty": b"", "l": "d/run",
        "h": b"alpha" * 99_999, "-rf": b"x", "ü" * 40: b"y",
    }  # fmt: skip
    facts = (top / "d/run").stat()
    assert (stat.S_IMODE(facts.st_mode), facts.st_mtime) == (0o751, 1_500_000_000)
    assert (top / "h").samefile(top / "d/sub/a")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_zip_is_unpacked_with_modes_and_links(files: Files, method: int) -> None:
    program, link = zipfile.ZipInfo("d/run", (2020, 2, 3, 4, 5, 6)), zipfile.ZipInfo("l")
    program.external_attr = (stat.S_IFREG | 0o4750) << 16
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    data = zip_of((program, b"#!"), (link, b"d/run"), ("e/", b""), ("ü", b"u" * 700_000), ("none", b""), method=method)
    assert unpack(files, data, ZIP).json() == {
        "path": str(files.base / "t"), "files": 3, "directories": 2, "links": 1, "bytes": 700_002,
    }  # fmt: skip
    assert found(files.base / "t") == {
        "d": None, "d/run": b"#!", "e": None, "l": "d/run", "ü": b"u" * 700_000, "none": b"",
    }  # fmt: skip
    facts = (files.base / "t/d/run").stat()
    assert (stat.S_IMODE(facts.st_mode), facts.st_mtime) == (0o750, 1_580_702_706)


@pytest.mark.parametrize("kind", [TAR, GZ, ZIP])
def test_what_this_server_packs_it_unpacks_again(files: Files, kind: str) -> None:
    top = files.base / "s"
    (top / "deep/er").mkdir(parents=True)
    (top / "void").mkdir()
    for name in ("a", "ü.txt", "x" * 150, "deep/er/-rf", "deep/empty"):
        (top / name).write_bytes(os.urandom(700_000) if name == "a" else name.encode() * (name != "deep/empty"))
    (top / "deep/up").symlink_to("../a")
    data = files.archive("s", accept=kind).body
    assert unpack(files, data, kind).status == 200
    expected = found(top)
    if kind == ZIP:
        expected["deep/up"] = expected["a"]
    assert found(files.base / "t/s") == expected


def test_a_streamed_zip_of_another_writer_is_read(files: Files) -> None:
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = bytearray()

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.data += data
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", b"alpha" * 1000)
        with archive.open("b", "w", force_zip64=True) as member:
            member.write(b"beta")
    assert unpack(files, bytes(pipe.data), ZIP).status == 200
    assert found(files.base / "t") == {"a": b"alpha" * 1000, "b": b"beta"}


@pytest.mark.field(146)
@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", "a/..", "..", "a/../x", "//x", "b" * 256, "c/" * 2050])
@pytest.mark.parametrize("kind", [TAR, GZ, ZIP])
def test_field_146_names_that_lead_elsewhere_are_refused(files: Files, name: str, kind: str) -> None:
    members = (("fine", b"1"), (name, b"2"))
    data = zip_of(*members) if kind == ZIP else packers()[kind](tar_of(*members))
    refused(unpack(files, data, kind), files)


@pytest.mark.parametrize(
    "text", ["/etc/passwd", "../../../etc", "../../..", "d/../../../..", "/", "d/..", "../secret/x"]
)
def test_links_that_lead_out_are_refused(files: Files, text: str) -> None:
    link = zipfile.ZipInfo("l")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    refused(unpack(files, tar_of(("a", b"1"), info("l", tarfile.SYMTYPE, text))), files)
    refused(unpack(files, zip_of(("a", b"1"), (link, text.encode())), ZIP), files)


def test_a_link_through_one_that_leads_out_is_refused(files: Files) -> None:
    (files.base / "t").mkdir()
    (files.base / "t/out").symlink_to("/etc")
    reply = unpack(files, tar_of(info("l", tarfile.SYMTYPE, "out/passwd")))
    assert reply.json()["code"] == "bad_archive"
    assert found(files.base) == {"t": None, "t/out": "/etc"}


@pytest.mark.parametrize(
    "members",
    [
        [info("l", tarfile.SYMTYPE, "."), ("l/x", b"1")],
        [info("l", tarfile.SYMTYPE, "d"), info("d", tarfile.DIRTYPE), ("l/x", b"1")],
        [("f", b""), ("f/x", b"1")],
        [("a", b"1"), ("a", b"2")],
        [("a", b"1"), ("./a", b"2")],
        [info("a", tarfile.SYMTYPE, "b"), ("a", b"2")],
        [info("h", tarfile.LNKTYPE, "none")],
        [info("l", tarfile.SYMTYPE, "a"), info("h", tarfile.LNKTYPE, "l")],
        [info("d", tarfile.DIRTYPE), info("h", tarfile.LNKTYPE, "d")],
        [info("h", tarfile.LNKTYPE, "/etc/passwd")],
        [info("h", tarfile.LNKTYPE, "../x")],
        [info("p", tarfile.FIFOTYPE)],
        [info("c", tarfile.CHRTYPE)],
        [info("b", tarfile.BLKTYPE)],
        [info("?", b"Z")],
    ],
    ids=range(15),
)
def test_tricks_with_members_are_refused(files: Files, members: list[Member]) -> None:
    refused(unpack(files, tar_of(("first", b"1"), *members)), files)


def test_members_that_the_rule_denies_refuse_the_archive(files: Files) -> None:
    for name in ("secret/x", "d/k.pem", "secret", ".nsb-0123456789abcdef.part"):
        refused(unpack(files, tar_of(("a", b"1"), (name, b"2"))), files, "path_denied")
        refused(unpack(files, zip_of(("a", b"1"), (name, b"2")), ZIP), files, "path_denied")


def test_a_link_is_never_written_through(files: Files) -> None:
    outside = files.base.parent / "elsewhere"
    outside.mkdir(exist_ok=True)
    (outside / "x").write_text("kept")
    (files.base / "t").mkdir()
    (files.base / "t/d").symlink_to(outside)
    (files.base / "t/x").symlink_to(outside / "x")
    assert unpack(files, tar_of(("d/x", b"new"))).json()["code"] == "file_exists"
    assert unpack(files, tar_of(("x", b"new"))).status == 200
    assert (outside / "x").read_text() == "kept"
    assert (files.base / "t/x").read_text() == "new" and not (files.base / "t/x").is_symlink()


def test_what_is_there_is_merged_replaced_or_in_the_way(files: Files) -> None:
    assert unpack(files, tar_of(("d/a", b"old"), ("d/b", b"old"))).status == 200
    assert unpack(files, tar_of(("d/b", b"new"), ("d/e/c", b"new"))).status == 200
    tree = {"d": None, "d/a": b"old", "d/b": b"new", "d/e": None, "d/e/c": b"new"}
    assert found(files.base / "t") == tree
    for data in (tar_of(("z", b"1"), ("d/b", b"3")), tar_of(("z", b"1"), info("d", tarfile.SYMTYPE, "z"))):
        assert unpack(files, data, overwrite="false").json()["code"] == "file_exists"
        assert found(files.base / "t") == tree
    assert unpack(files, tar_of(("z", b"1"), ("d", b"file"))).json()["code"] == "file_exists"
    assert unpack(files, tar_of(("z", b"1"), ("d/a/x", b"file"))).json()["code"] == "file_exists"
    assert found(files.base / "t") == tree
    assert unpack(files, tar_of(("d/new", b"1")), overwrite="false").status == 200
    assert (files.base / "t/d/new").read_bytes() == b"1"


def damaged_tars() -> dict[str, bytes]:
    whole = tar_of(("a", b"alpha" * 500))
    return {
        "empty": b"",
        "cut in the header": whole[:100],
        "cut in the content": whole[:1500],
        "cut before the end": whole[: 512 + 2560],
        "followed by something": whole + b"x",
        "no tar": b"x" * 10_000,
        "bad checksum": b"b" + whole[1:],
        "pax record without length": _pax(b"path=x\n"),
        "pax record too long": _pax(b"99 path=x\n"),
        "pax size that is no number": _pax(b"12 size=-1x\n"),
        "huge pax header": _header(b"x", size=1 << 33),
        "huge long name": _header(b"L", size=1 << 33),
        "negative size": _header(b"0", raw_size=b"\xff" * 12),
        "sparse": _pax(b"22 GNU.sparse.major=1\n"),
    }


def _header(kind: bytes, size: int = 0, raw_size: bytes = b"") -> bytes:
    field = raw_size or b"%011o\0" % size
    block = b"a".ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + field + b"0" * 11 + b"\0" + b" " * 8 + kind
    block = block.ljust(257, b"\0") + b"ustar\x0000" + bytes(512 - 265)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def _pax(records: bytes) -> bytes:
    return _header(b"x", len(records)) + records.ljust(512, b"\0") + _header(b"0") + bytes(1024)


@pytest.mark.parametrize("what", damaged_tars())
def test_damaged_tars_are_refused(files: Files, what: str) -> None:
    data = damaged_tars()[what]
    refused(unpack(files, data), files)
    refused(unpack(files, gzip.compress(data), GZ), files)


NO_TAR = "this is neither a tar, a tar.gz nor a zip, or was not sent as what it is"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", NO_TAR),
        (b"a,b\n1,2\n", NO_TAR),
        (b"a,b\n1,2\n" * 1000, NO_TAR),
        (zip_of(("a", b"alpha" * 500)), NO_TAR),
        (tar_of(("a", b"alpha" * 500))[:700], "the archive ends too early; send all of it"),
        (b"b" + tar_of(("a", b"alpha"))[1:], "a header's checksum is wrong: the archive is damaged, or is no tar"),
    ],
    ids=["nothing", "short text", "long text", "zip", "cut", "damaged"],
)
def test_what_is_no_archive_is_not_called_a_damaged_one(files: Files, data: bytes, message: str) -> None:
    for sent, kind in ((data, TAR), (gzip.compress(data), GZ)):
        reply = unpack(files, sent, kind)
        refused(reply, files)
        assert reply.json()["error"] == message


def damaged_gzips() -> dict[str, bytes]:
    whole = gzip.compress(tar_of(("a", b"alpha" * 500)))
    return {
        "empty": b"", "no gzip": b"x" * 100, "cut": whole[:-10], "without checksum": whole[:-8],
        "followed by something": whole + b"garbage", "damaged": whole[:40] + b"\xff\xff\xff" + whole[43:],
    }  # fmt: skip


@pytest.mark.parametrize("what", damaged_gzips())
def test_damaged_gzips_are_refused(files: Files, what: str) -> None:
    refused(unpack(files, damaged_gzips()[what], GZ), files)


def test_a_gzip_of_several_members_is_one_stream(files: Files) -> None:
    data = tar_of(("a", b"alpha" * 5000))
    assert unpack(files, gzip.compress(data[:700]) + gzip.compress(data[700:]), GZ).status == 200
    assert found(files.base / "t") == {"a": b"alpha" * 5000}


def _patched(data: bytes, mark: bytes, offset: int, form: str, value: int, occurrence: int = 0) -> bytes:
    place = -1
    for _ in range(occurrence + 1):
        place = data.index(mark, place + 1)
    changed = bytearray(data)
    struct.pack_into(form, changed, place + offset, value)
    return bytes(changed)


def damaged_zips() -> dict[str, bytes]:
    whole = zip_of(("a", b"alpha" * 500), ("b", b"beta" * 500))
    central, local, end = b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06"
    method = _patched(_patched(whole, central, 10, "<H", 14), local, 8, "<H", 14)
    return {
        "empty": b"",
        "no zip": b"x" * 1000,
        "cut": whole[:-30],
        "followed by something": whole + b"x",
        "after something": b"#!/bin/sh\n" + whole,
        "encrypted": _patched(_patched(whole, central, 8, "<H", 1), local, 6, "<H", 1),
        "another method": method,
        "size that lies low": _patched(_patched(whole, central, 24, "<L", 5), local, 22, "<L", 5),
        "size that lies high": _patched(_patched(whole, central, 24, "<L", 9999), local, 22, "<L", 9999),
        "size in one place": _patched(whole, central, 24, "<L", 5),
        "checksum": _patched(_patched(whole, central, 16, "<L", 5), local, 14, "<L", 5),
        "overlap": _patched(whole, central, 42, "<L", 0, occurrence=1),
        "offset beyond the end": _patched(whole, central, 42, "<L", 99_999, occurrence=1),
        "other name inside": whole.replace(b"b", b"c", 1) if whole.index(b"b") < whole.index(central) else whole[1:],
        "more members than there are": _patched(_patched(whole, end, 10, "<H", 3), end, 8, "<H", 3),
        "fewer members than there are": _patched(_patched(whole, end, 10, "<H", 1), end, 8, "<H", 1),
        "second disk": _patched(whole, end, 4, "<H", 1),
        "directory elsewhere": _patched(whole, end, 16, "<L", 4),
        "zip64 without ending": _patched(whole, end, 16, "<L", 0xFFFFFFFF),
        "twice": zip_twice(),
        "backslash": zip_of(("a\\b", b"1")),
    }


def zip_twice() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate name"):
        return zip_of(("a", b"1"), ("a", b"2"))


@pytest.mark.parametrize("what", damaged_zips())
def test_damaged_zips_are_refused(files: Files, what: str) -> None:
    refused(unpack(files, damaged_zips()[what], ZIP), files)


@pytest.mark.parametrize("kind", [stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK, stat.S_IFDIR])
def test_zip_members_that_are_no_files_are_refused(files: Files, kind: int) -> None:
    odd = zipfile.ZipInfo("odd")
    odd.external_attr = (kind | 0o644) << 16
    refused(unpack(files, zip_of((odd, b"")), ZIP), files)


def test_bombs_are_refused(files: Files) -> None:
    half = zlib.compressobj(9, wbits=31)
    size = 300 << 20
    bomb = half.compress(tar_header(size)) + b"".join(half.compress(bytes(1 << 20)) for _ in range(300)) + half.flush()
    refused(unpack(files, bomb, GZ), files, "payload_too_large")
    refused(unpack(files, zip_of(("a", bytes(200 << 20))), ZIP), files, "payload_too_large")


def tar_header(size: int) -> bytes:
    about = tarfile.TarInfo("a")
    about.size = size
    return about.tobuf()


def test_limits_of_the_policy_and_the_disk_hold(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_unpack": {
        "limits": {"max_files": 2, "max_bytes": 1000}, "params": {"deny_extensions": [".exe"]},
    }}}  # fmt: skip
    with running_server(tmp_path, policy=policy) as server:
        files = Files(server, tmp_path / "base")
        members = [("a", b"1" * 400), ("b", b"2" * 400), ("c", b"3")]
        for kind, make in ((TAR, tar_of), (ZIP, zip_of)):
            refused(unpack(files, make(*members), kind), files, "payload_too_large")
            refused(unpack(files, make(("a", b"1" * 1001)), kind), files, "payload_too_large")
            refused(unpack(files, make(("a.EXE", b"1")), kind), files, "extension_not_allowed")
        refused(unpack(files, tar_header(1 << 60) + bytes(1000)), files, "payload_too_large")
        assert unpack(files, tar_of(*members[:2])).status == 200


def test_a_size_that_no_disk_holds_is_refused_at_once(files: Files) -> None:
    refused(unpack(files, tar_header(1 << 59) + bytes(100_000)), files, "no_space")


def test_links_and_second_names_are_refused_where_the_rule_forbids_them(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_*": {"paths": {"symlinks": "never", "hardlinks": "deny"}}}}
    with running_server(tmp_path, policy=policy) as server:
        files = Files(server, tmp_path / "base")
        refused(unpack(files, tar_of(("a", b""), info("l", tarfile.SYMTYPE, "a"))), files, "symlink_denied")
        refused(unpack(files, tar_of(("a", b""), info("h", tarfile.LNKTYPE, "a"))), files, "hardlink_denied")


def test_a_read_only_rule_another_type_and_a_file_as_target_are_refused(files: Files) -> None:
    assert unpack(files, b"{}", "application/json").status == 415
    assert unpack(files, b"x", "application/zstd").status == 415
    (files.base / "t").write_text("file")
    assert unpack(files, tar_of(("a", b"1"))).json()["code"] == "file_exists"
    assert unpack(files, tar_of(("a", b"1")), path="../..").json()["code"] == "path_not_allowed"
    assert (files.base / "t").read_text() == "file"


def test_a_caller_that_leaves_in_the_middle_leaves_nothing_behind(files: Files) -> None:
    data = tar_of(("a", os.urandom(3 << 20)))
    with socket.create_connection(("127.0.0.1", files.server.port)) as connection:
        head = f"POST /files/unpack?path=t HTTP/1.1\r\nHost: localhost\r\nContent-Type: {TAR}\r\n"
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data[: 2 << 20])
        eventually(lambda: (files.base / "t").exists())
    eventually(lambda: not (files.base / "t").exists())
    assert found(files.base) == {}


def test_nothing_of_an_unfinished_archive_can_be_seen(files: Files) -> None:
    data = tar_of(("a", b"1"), ("b", os.urandom(1 << 20)))
    with socket.create_connection(("127.0.0.1", files.server.port)) as connection:
        head = f"POST /files/unpack?path=t HTTP/1.1\r\nHost: localhost\r\nContent-Type: {TAR}\r\n"
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data[:600_000])
        eventually(lambda: len(found(files.base)) > 2)
        assert files.list("t", recursive="true").json()["entries"] == []
        connection.sendall(data[600_000:])
        assert b" 200 " in connection.recv(100)
    assert sorted(found(files.base / "t")) == ["a", "b"]


def test_links_count_against_the_limit_of_files(tmp_path: Path) -> None:
    with running_server(tmp_path, policy={"endpoints": {"files_unpack": {"limits": {"max_files": 2}}}}) as server:
        files = Files(server, tmp_path / "base")
        links = [info(str(number), tarfile.SYMTYPE, "x") for number in range(3)]
        assert unpack(files, tar_of(*links[:2])).status == 200
        assert unpack(files, tar_of(*links), path="u").json()["code"] == "payload_too_large"
        assert not (files.base / "u").exists()


def test_only_the_pax_records_that_mean_something_here_are_kept() -> None:
    from sandbox_server.archives.tar_reader import _records

    told = b"".join(b"%d %b=v\n" % (len(key) + 6, key) for key in (b"other", b"path", b"GNU.sparse.x", b"GNU.sparse.y"))
    assert set(_records(told)) == {b"path", b"GNU.sparse."}


def test_members_that_do_not_fit_tell_the_room_that_there_was(small_disk: Path, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        files = Files(server, small_disk)
        reply = unpack(files, tar_of(*((f"m{number}", bytes(20_000)) for number in range(400))))
        told = reply.json()
        assert (reply.status, told["code"]) == (507, "no_space")
        assert 0 < told["free"] <= 5 << 20 and told["needed"] > 0
        assert list(small_disk.iterdir()) == []
