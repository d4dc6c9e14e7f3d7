"""Validators, ranges and digests as the header fields say them."""

from __future__ import annotations

import base64
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server.handlers.conditions import (
    byte_range,
    demand_match,
    demands_absence,
    matches_none,
    repr_digest,
    wants_sha256,
)
from sandbox_server.messages import Headers, Refusal

ETAG = '"1-2-3-4"'


def headers(**fields: str) -> Headers:
    return Headers((name.replace("_", "-"), value) for name, value in fields.items())


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=0-4", (0, 5)),
        ("bytes=3-", (3, 7)),
        ("bytes=-4", (6, 4)),
        ("bytes=-99", (0, 10)),
        ("bytes=0-99", (0, 10)),
        ("bytes=9-9", (9, 1)),
        ("bytes=0-99999999999999999999999999", (0, 10)),
        (" bytes=1-2 ", (1, 2)),
    ],
)
def test_one_range_is_cut_to_the_file(asked: str, expected: tuple[int, int]) -> None:
    assert byte_range(headers(range=asked), ETAG, 10) == expected


@pytest.mark.parametrize(
    "asked",
    ["", "bytes=", "bytes=-", "bytes=a-b", "bytes=1", "bytes=5-3", "bytes=0-1,4-5", "lines=0-1", "bytes=0--1",
     "bytes=+1-2", "bytes=１-2", "bytes=0-1\n"],
)  # fmt: skip
def test_other_ranges_mean_the_whole_file(asked: str) -> None:
    assert byte_range(headers(range=asked.replace("\n", " x")), ETAG, 10) is None


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=10-20", "bytes=-0", "bytes=99999999999999999999-"])
def test_a_range_outside_the_file_is_refused_with_its_size(asked: str) -> None:
    with pytest.raises(Refusal) as refused:
        byte_range(headers(range=asked), ETAG, 10)
    assert refused.value.code == "range_not_satisfiable"
    assert refused.value.headers == [("Content-Range", "bytes */10")]


@pytest.mark.field(19)
def test_field_019_any_range_of_an_empty_file_is_the_empty_file() -> None:
    for asked in ("bytes=0-0", "bytes=-1", "bytes=5-"):
        assert byte_range(headers(range=asked), ETAG, 0) is None


@given(size=st.integers(1, 1 << 40), first=st.integers(0, 1 << 41), length=st.integers(0, 1 << 41))
def test_a_range_never_leaves_the_file(size: int, first: int, length: int) -> None:
    try:
        part = byte_range(headers(range=f"bytes={first}-{first + length}"), ETAG, size)
    except Refusal:
        assert first >= size
    else:
        assert part == (first, min(length + 1, size - first))


def test_a_range_of_another_version_means_the_whole_file() -> None:
    assert byte_range(headers(range="bytes=0-1", if_range=ETAG), ETAG, 10) == (0, 2)
    for other in ('"other"', f"W/{ETAG}", "Sat, 01 Jan 2022 00:00:00 GMT"):
        assert byte_range(headers(range="bytes=0-1", if_range=other), ETAG, 10) is None


@pytest.mark.parametrize("wanted", ["*", ETAG, f'"x", {ETAG}'])
def test_if_match_admits_the_named_version(wanted: str) -> None:
    demand_match(headers(if_match=wanted), ETAG)


@pytest.mark.parametrize(
    ("wanted", "etag"), [('"x"', ETAG), (f"W/{ETAG}", ETAG), ("*", None), (ETAG, None), ("", ETAG)]
)
def test_if_match_refuses_everything_else(wanted: str, etag: str | None) -> None:
    with pytest.raises(Refusal) as refused:
        demand_match(headers(if_match=wanted), etag)
    assert (refused.value.status, refused.value.code) == (412, "precondition_failed")


@pytest.mark.parametrize(
    ("wanted", "etag", "passes"),
    [("*", None, True), ("*", ETAG, False), (ETAG, ETAG, False), (f"W/{ETAG}", ETAG, False), ('"x"', ETAG, True),
     (f'"x", {ETAG}', ETAG, False), ("", ETAG, True)],
)  # fmt: skip
def test_if_none_match_compares_weakly(wanted: str, etag: str | None, passes: bool) -> None:
    assert matches_none(headers(if_none_match=wanted), etag) is passes


def test_only_a_bare_star_demands_absence() -> None:
    assert demands_absence(headers(if_none_match="*"))
    for tag in ('"a*b"', '"a, *, b"', 'W/"*"'):
        assert not demands_absence(headers(if_none_match=tag))
    assert not demands_absence(headers())


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("sha-256", True), ("sha-256=10", True), ("SHA-256=1, sha-512=3", True), ("sha-512=3,sha-256", True),
     ("sha-256=0", False), ("sha-512", False), ("", False), ("sha-2560", False), ("sha-256;x=1", True)],
)  # fmt: skip
def test_a_digest_is_computed_only_when_wanted(value: str, wanted: bool) -> None:
    assert wants_sha256(headers(want_repr_digest=value)) is wanted


def test_a_digest_travels_as_a_structured_byte_sequence() -> None:
    digest = hashlib.sha256(b"alpha").digest()
    assert repr_digest(digest) == ("Repr-Digest", f"sha-256=:{base64.b64encode(digest).decode()}:")
