"""How facts about a file are put into text."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from email.utils import formatdate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server.handlers.metadata import etag_of, http_date, iso_time, kind_of, octal, type_of

SECOND = 1_000_000_000


@pytest.mark.field(50)
@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_field_050_times_are_aware_utc_text_whatever_the_file_system_holds(nanoseconds: int) -> None:
    moment = datetime.fromisoformat(iso_time(nanoseconds))
    assert moment.utcoffset().total_seconds() == 0
    expected = datetime.fromtimestamp(nanoseconds // SECOND, timezone.utc)
    assert moment == expected.replace(microsecond=nanoseconds % SECOND // 1000)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        (1_500_000_000 * SECOND + 250_000_000, "2017-07-14T02:40:00.250000+00:00"),
        (1_500_000_000 * SECOND + 999, "2017-07-14T02:40:00+00:00"),
        (-SECOND, "1969-12-31T23:59:59+00:00"),
        (10**15 * SECOND, "9999-12-31T23:59:59+00:00"),
        (-(10**15) * SECOND, "0001-01-01T00:00:00+00:00"),
    ],
)
def test_the_fraction_is_absent_when_zero_and_years_stay_within_the_calendar(nanoseconds: int, text: str) -> None:
    assert iso_time(nanoseconds) == text


@given(st.integers(0, 253402300799))
def test_http_dates_are_those_of_rfc_9110(seconds: int) -> None:
    assert http_date(seconds * SECOND) == formatdate(seconds, usegmt=True)


def test_http_dates_beyond_the_calendar_do_not_fail() -> None:
    assert http_date(10**15 * SECOND) == "Fri, 31 Dec 9999 23:59:59 GMT"
    assert http_date(-(10**15) * SECOND) == "Mon, 01 Jan 0001 00:00:00 GMT"


def test_kinds_are_true_and_types_are_those_of_the_contract(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    modes = {path.name: path.lstat().st_mode for path in [*tmp_path.iterdir(), tmp_path, Path("/dev/null")]}
    assert {name: (kind_of(mode), type_of(mode)) for name, mode in modes.items()} == {
        "file": ("file", "file"),
        "link": ("symlink", "file"),
        "fifo": ("fifo", "file"),
        "null": ("device", "file"),
        tmp_path.name: ("directory", "directory"),
    }


def test_a_version_changes_with_content_and_cannot_be_set_back(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("one")
    before = file.stat()
    file.write_text("two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # the kernel's clock ticks in milliseconds
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = file.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    assert etag_of(after) != etag_of(before)
    assert etag_of(after).startswith('"') and etag_of(after).endswith('"')


def test_permission_bits_are_four_octal_digits() -> None:
    assert [octal(mode) for mode in (0o100644, 0o104755, 0o40001)] == ["0644", "4755", "0001"]
