"""Listing: order, pages, depth, true kinds, and nothing that policy hides."""

from __future__ import annotations

import base64
import http.client
import json
import os
import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.server.files.conftest import Files, empty
from tests.support.server import running_server

NAMES = ["a", "a.b", "a-b", "B", "ü", "z z"]


def paths(reply: Any) -> list[str]:
    return [entry["path"] for entry in reply.json()["entries"]]


def pages(files: Files, **query: Any) -> list[list[str]]:
    """All pages, following ``next``."""
    found, cursor = [], None
    while True:
        answer = files.list(".", **query, **({"cursor": cursor} if cursor else {})).json()
        found.append([entry["path"] for entry in answer["entries"]])
        cursor = answer["next"]
        assert answer["truncated"] is (cursor is not None)
        if cursor is None:
            return found


def test_entries_are_sorted_by_name_and_say_what_they_are(files: Files) -> None:
    base = files.base
    (base / "d").mkdir(mode=0o750)
    (base / "b.txt").write_text("beta")
    (base / "b.txt").chmod(0o640)
    os.utime(base / "b.txt", ns=(0, 1_500_000_000_250_000_000))
    (base / "a").symlink_to("b.txt")
    (base / "e").symlink_to("nowhere")
    os.mkfifo(base / "f")
    entries = files.list().json()["entries"]
    assert [(e["name"], e["type"], e["kind"], e.get("target")) for e in entries] == [
        ("a", "file", "symlink", "b.txt"),
        ("b.txt", "file", "file", None),
        ("d", "directory", "directory", None),
        ("e", "file", "symlink", "nowhere"),
        ("f", "file", "fifo", None),
    ]
    owner = base.owner()
    assert entries[1] == {
        "name": "b.txt", "path": "b.txt", "type": "file", "kind": "file", "size": 4, "mode": "0640",
        "modified": "2017-07-14T02:40:00.250000+00:00", "uid": os.getuid(), "gid": os.getgid(), "owner": owner,
    }  # fmt: skip
    assert (entries[2]["mode"], entries[2]["size"]) == ("0750", (base / "d").stat().st_size)


def test_an_owner_without_a_name_is_null(files: Files) -> None:
    (files.base / "f").touch()
    try:
        os.chown(files.base / "f", 54321, 54322)
    except PermissionError:
        pytest.skip("no way here: giving a file away needs privileges")
    (entry,) = files.list().json()["entries"]
    assert (entry["uid"], entry["gid"], entry["owner"]) == (54321, 54322, None)


def test_recursive_listings_carry_relative_paths_a_directory_before_its_contents(files: Files) -> None:
    for path in ("b/x/1", "b/x.y", "a", "b-c", "b/a"):
        (files.base / path).parent.mkdir(parents=True, exist_ok=True)
        (files.base / path).touch()
    assert paths(files.list(recursive="true")) == ["a", "b", "b/a", "b/x", "b/x/1", "b/x.y", "b-c"]
    assert sorted(paths(files.list(recursive="true", order="none"))) == sorted(paths(files.list(recursive="true")))
    assert paths(files.list("b", recursive="true")) == ["a", "x", "x/1", "x.y"]


@pytest.mark.field(46)
def test_field_046_every_depth_is_exact(files: Files) -> None:
    chain = ["/".join(["d"] * level) for level in range(1, 13)]
    (files.base / chain[-1]).mkdir(parents=True)
    for depth in range(1, 11):
        assert paths(files.list(recursive="true", max_depth=depth)) == chain[:depth]
    assert paths(files.list(recursive="true")) == chain[:3]
    assert paths(files.list(max_depth=5)) == chain[:1]
    assert files.list(recursive="true", max_depth=0).json() == {"entries": [], "truncated": False, "next": None}
    assert paths(files.list(recursive="true", max_depth=-1)) == []


def test_a_policy_bounds_depth_and_entries(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_list": {"limits": {"max_depth": 2, "max_entries": 3}}}}
    with running_server(tmp_path, policy=policy) as server:
        files = Files(server, tmp_path / "base")
        (files.base / "a/b/c").mkdir(parents=True)
        assert paths(files.list(recursive="true", max_depth=9)) == ["a", "a/b"]
        for name in "vwxyz":
            (files.base / name).touch()
        answer = files.list(max_entries=50).json()
        assert (len(answer["entries"]), answer["truncated"]) == (3, True)


def test_a_bound_may_be_larger_than_any_machine_counts(tmp_path: Path) -> None:
    most = 1 << 100
    policy = {"endpoints": {"files_list": {"limits": {"max_depth": most, "max_entries": most}}}}
    with running_server(tmp_path, policy=policy) as server:
        files = Files(server, tmp_path / "base")
        (files.base / "a/b").mkdir(parents=True)
        assert paths(files.list(recursive="true", max_entries=most, max_depth=most)) == ["a", "a/b"]


def test_the_default_is_a_thousand_entries_and_a_cursor(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        files = Files(server, tmp_path / "base")
        for number in range(1001):
            (files.base / f"{number:04}").touch()
        answer = files.list(max_entries=5000).json()
        assert [entry["name"] for entry in answer["entries"]] == [f"{number:04}" for number in range(1000)]
        rest = files.list(cursor=answer["next"]).json()
        assert [entry["name"] for entry in rest["entries"]] == ["1000"]
        assert (rest["truncated"], rest["next"]) == (False, None)


@pytest.mark.parametrize("count", [0, 1, 199, 200, 201, 1199, 1200, 1201, 2500])
def test_the_answer_is_one_document_at_every_block_edge(files: Files, count: int) -> None:
    for number in range(count):
        (files.base / f"{number:05}").touch()
    names = [f"{number:05}" for number in range(count)]
    assert paths(files.list(max_entries=9999)) == names
    assert files.list(max_entries=count).json()["truncated"] is False
    if count:
        shorter = files.list(max_entries=count - 1).json()
        assert ([e["name"] for e in shorter["entries"]], shorter["truncated"]) == (names[:-1], True)


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(tree=st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), max_size=12), size=st.integers(1, 5))
def test_pages_join_to_the_whole_listing(files: Files, tree: list[list[str]], size: int) -> None:
    empty(files.base)
    for path in tree:
        (files.base / "/".join(path)).mkdir(parents=True, exist_ok=True)
    whole = paths(files.list(recursive="true", max_depth=9))
    assert whole == sorted(whole, key=lambda path: path.split("/"))
    found = pages(files, recursive="true", max_depth=9, max_entries=size)
    assert [path for page in found for path in page] == whole
    assert all(len(page) == size for page in found[:-1])


def test_a_cursor_survives_the_removal_of_what_it_stands_on(files: Files) -> None:
    for path in ("a", "b/x/1", "b/x/2", "b/y", "c"):
        (files.base / path).parent.mkdir(parents=True, exist_ok=True)
        (files.base / path).touch()
    first = files.list(recursive="true", max_entries=4).json()
    assert [e["path"] for e in first["entries"]] == ["a", "b", "b/x", "b/x/1"]
    (files.base / "b/x/1").unlink()
    assert paths(files.list(recursive="true", cursor=first["next"])) == ["b/x/2", "b/y", "c"]
    (files.base / "b/x/2").unlink()
    (files.base / "b/x").rmdir()
    assert paths(files.list(recursive="true", cursor=first["next"])) == ["b/y", "c"]
    (files.base / "b/y").unlink()
    (files.base / "b").rmdir()
    (files.base / "b").touch()
    assert paths(files.list(recursive="true", cursor=first["next"])) == ["c"]


@pytest.mark.parametrize(
    "query", [{"cursor": "%"}, {"cursor": "ä"}, {"order": "size"}, {"cursor": "YQ==", "order": "none"}]
)
def test_odd_orders_and_cursors_are_refused(files: Files, query: dict[str, str]) -> None:
    reply = files.list(**query)
    assert (reply.status, reply.json()["code"]) == (400, "invalid_argument")


def test_a_cursor_that_points_anywhere_is_only_a_place_in_the_order(files: Files) -> None:
    (files.base / "b").touch()
    for text in (b"..", b"../../etc/passwd", b"a/../..", b"/", b"//", b"a\x00b", b"\xff"):
        reply = files.list(recursive="true", cursor=base64.urlsafe_b64encode(text).decode())
        assert (reply.status, paths(reply)) == (200, [] if text == b"\xff" else ["b"])


@pytest.mark.finding("R2-S2")
@pytest.mark.finding("R1-F2")
@pytest.mark.field(145)
def test_field_145_entries_that_the_guard_refuses_are_not_named_and_not_entered(files: Files) -> None:
    outside = files.base.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "x").touch()
    for path in ("secret/x", "ok/secret/y", "ok/k.pem", "ok/f"):
        (files.base / path).parent.mkdir(parents=True, exist_ok=True)
        (files.base / path).touch()
    (files.base / "out").symlink_to(outside)
    (files.base / "up").symlink_to("..")
    (files.base / "toward").symlink_to("secret")
    (files.base / "fine").symlink_to("ok")
    for order in ("name", "none"):
        assert sorted(paths(files.list(recursive="true", max_depth=9, order=order))) == ["fine", "ok", "ok/f"]
    assert files.list("secret").status == 403


@pytest.mark.field(40)
def test_field_040_a_link_is_reported_itself_and_listed_only_where_policy_allows(files: Files) -> None:
    (files.base / "d").mkdir()
    (files.base / "d/x").touch()
    (files.base / "link").symlink_to("d")
    assert paths(files.list(recursive="true")) == ["d", "d/x", "link"]
    assert paths(files.list("link")) == ["x"]
    (files.base / "secret").mkdir()
    (files.base / "toward").symlink_to("secret")
    assert files.list("toward").status == 403
    assert files.stat("toward").status == 403


def test_temporary_data_of_uploads_is_invisible(files: Files) -> None:
    (files.base / ".nsb-0123.part").touch()
    (files.base / ".nsb-notes").touch()
    assert paths(files.list()) == [".nsb-notes"]


@pytest.mark.field(49)
def test_field_049_what_is_no_directory_is_not_found(files: Files) -> None:
    (files.base / "f").touch()
    for path in ("none", "f", "f/below"):
        reply = files.list(path)
        assert (reply.status, reply.json()["type"]) == (404, "FileNotFoundError")
        assert files.list(path, max_entries=0).status == 404


def test_names_that_are_not_utf_8_are_listed_and_can_be_asked_for(files: Files) -> None:
    name = b"caf\xe9"
    with open(os.fsencode(files.base) + b"/" + name, "wb") as file:
        file.write(b"x")
    (entry,) = files.list().json()["entries"]
    assert os.fsencode(entry["name"]) == name
    reply = files.server.request(
        "GET", "/files/download-stream?path=caf%E9", headers={"Accept": "application/octet-stream"}
    )
    assert (reply.status, reply.body) == (200, b"x")
    assert files.delete("none").status == 404


def test_a_large_listing_is_streamed_and_can_be_left_early(files: Files) -> None:
    for number in range(5000):
        (files.base / f"{number:05}").touch()
    connection = http.client.HTTPConnection("127.0.0.1", files.server.port)
    connection.request("GET", "/files/list?path=.&max_entries=5000")
    answer = connection.getresponse()
    assert answer.getheader("Transfer-Encoding") == "chunked"
    answer.read(100)
    connection.close()
    assert len(json.loads(files.list(max_entries=5000).body)["entries"]) == 5000


@pytest.mark.field(47)
def test_field_047_out_of_descriptors_is_an_error_never_a_short_list(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        files = Files(server, tmp_path / "base")
        deep = files.base / "/".join(["d"] * 90)
        deep.mkdir(parents=True)
        for number in range(300):
            (files.base / f"f{number}").touch()
        whole = paths(files.list(recursive="true", max_depth=200, max_entries=1000))
        assert len(whole) == 390
        limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (64, 64))
        assert limits
        try:
            reply = files.list(recursive="true", max_depth=200, max_entries=1000)
        except http.client.IncompleteRead:
            pass
        else:
            assert reply.status == 503 or paths(reply) == whole
        assert len(paths(files.list(max_entries=1000))) == 301
