"""Archives that somebody has tampered with: refused or unpacked, but never a fault, and never anything outside."""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import zipfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.files.conftest import Files, empty
from tests.server.files.test_unpack import GZ, TAR, ZIP, found, info, tar_of, unpack, zip_of

NAMES = ["a", "d/b", "d", "../x", "/tmp/x", "d/../../x", "l", "l/x", "", ".", "d//b", "secret", "ü", "x" * 101, "a\0b"]
TARGETS = ["a", "d", "..", "../..", "/etc/passwd", "l", ".", "d/..", "", "../a", "x" * 101]
KINDS = [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
MEMBERS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(NAMES), st.binary(max_size=700)),
        st.builds(info, st.sampled_from(NAMES), st.sampled_from(KINDS), st.sampled_from(TARGETS)),
    ),
    max_size=6,
)
ZIP_KINDS = [stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO]
CHANGES = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=4)
FORMATS = st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
SETTINGS = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def changed(data: bytes, changes: list[tuple[int, int]]) -> bytes:
    mutable = bytearray(data)
    for place, value in changes:
        if mutable:
            mutable[place % len(mutable)] = value
    return bytes(mutable)


def with_checksums(data: bytes) -> bytes:
    """Every block that looks like a header says the sum that it has, so that a change gets past the first look."""
    mutable = bytearray(data)
    for start in range(0, len(mutable) - 511, 512):
        block = mutable[start : start + 512]
        if block[257:262] == b"ustar":
            mutable[start + 148 : start + 156] = b"%06o\0 " % (sum(block) - sum(block[148:156]) + 8 * 32)
    return bytes(mutable)


def stays_inside(files: Files, data: bytes, kind: str) -> None:
    outside = files.base.parent
    before = {place.name for place in outside.iterdir()}
    reply = unpack(files, data, kind)
    assert reply.status in (200, 400, 403, 409, 413, 507), reply.body
    assert {place.name for place in outside.iterdir()} == before
    assert {place.name for place in files.base.iterdir()} <= {"t"}
    assert reply.status == 200 or found(files.base) == {}
    for name, content in found(files.base).items():
        assert "secret" not in name.split("/") and ".part" not in name
        place = files.base / name
        if isinstance(content, str):
            target = Path(os.path.normpath(place.parent / content))
            assert target == files.base or files.base in target.parents
        assert not place.lstat().st_mode & 0o7000
    empty(files.base)


@SETTINGS
@given(members=MEMBERS, changes=CHANGES, format=FORMATS, cut=st.integers(0, 1 << 14), fix=st.booleans())
def test_tars(
    files: Files, members: list[tuple[str, bytes] | tarfile.TarInfo], changes: list[tuple[int, int]], format: int,
    cut: int, fix: bool,
) -> None:  # fmt: skip
    data = changed(tar_of(*members, format=format), changes)
    data = with_checksums(data) if fix else data
    stays_inside(files, data, TAR)
    stays_inside(files, data[: cut % (len(data) + 1)], TAR)
    stays_inside(files, changed(gzip.compress(data), changes if not fix else []), GZ)


@SETTINGS
@given(
    members=st.lists(
        st.tuples(st.sampled_from(NAMES), st.binary(max_size=300), st.sampled_from(ZIP_KINDS)), max_size=5,
        unique_by=lambda member: member[0],
    ),
    changes=CHANGES,
    cut=st.integers(0, 1 << 14),
    method=st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
)  # fmt: skip
def test_zips(
    files: Files, members: list[tuple[str, bytes, int]], changes: list[tuple[int, int]], cut: int, method: int
) -> None:
    packed = []
    for name, content, kind in members:
        if name.startswith("a\0"):
            continue  # the writer cuts it off, and then it is there twice
        about = zipfile.ZipInfo(name)
        about.external_attr = (kind | 0o6755) << 16
        packed.append((about, b"a" if kind == stat.S_IFLNK else content))
    data = zip_of(*packed, method=method)
    stays_inside(files, data, ZIP)
    stays_inside(files, changed(data, changes), ZIP)
    stays_inside(files, data[: cut % (len(data) + 1)], ZIP)


@SETTINGS
@given(data=st.binary(max_size=3000), kind=st.sampled_from([TAR, GZ, ZIP]))
def test_noise(files: Files, data: bytes, kind: str) -> None:
    stays_inside(files, data, kind)
