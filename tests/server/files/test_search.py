"""Searching: by name, by text, by expression; nothing that policy hides, and nothing that can stall the server."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.server.files.conftest import Files, empty
from tests.support.landlock import abi
from tests.support.server import Reply, ServerProcess, running_server
from tests.support.waiting import eventually

NDJSON = {"Accept": "application/x-ndjson"}
HOSTILE = {"contents": "(a|aa)+$", "regex": True}
TRAP = "a" * 60 + "!"  # takes it longer than anybody waits


@pytest.fixture(scope="module")
def patient_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    """One that lets a search go on for longer than any test does."""
    directory = tmp_path_factory.mktemp("search")
    policy = {"endpoints": {"files_search": {"limits": {"timeout_seconds": 3600}}}}
    with running_server(directory, policy=policy) as server:
        yield Files(server, directory / "base")


@pytest.fixture
def patient(patient_server: Files) -> Files:
    empty(patient_server.base)
    return patient_server


def begin(files: Files, headers: dict[str, str] | None = None, **body: Any) -> http.client.HTTPConnection:
    """Ask, and leave the answer to be read."""
    connection = http.client.HTTPConnection("127.0.0.1", files.server.port, timeout=60)
    sent = json.dumps({"path": ".", **body})
    connection.request("POST", "/files/search", sent, {"Content-Type": "application/json", **(headers or {})})
    return connection


def search(files: Files, headers: dict[str, str] | None = None, **body: Any) -> Reply:
    return files.server.request("POST", "/files/search", {"path": ".", **body}, headers)


def found(files: Files, **body: Any) -> list[str]:
    """The paths of all hits, relative to the base directory."""
    reply = search(files, **body)
    assert reply.status == 200, reply.body
    assert [os.path.basename(hit["path"]) for hit in reply.json()["results"]] == [
        hit["name"] for hit in reply.json()["results"]
    ]
    return sorted(os.path.relpath(hit["path"], files.base) for hit in reply.json()["results"])


def lines(files: Files, **body: Any) -> list[tuple[str, int, int, str]]:
    reply = search(files, **body)
    assert reply.status == 200, reply.body
    return sorted((hit["name"], hit["line"], hit["column"], hit["text"]) for hit in reply.json()["results"])


def test_names_are_matched_by_glob_and_only_files_count(files: Files) -> None:
    for name in ("a.txt", "b.md", "A.TXT", "x/a.txt", "x/y/[z].txt", "x/new\nline.txt"):
        (files.base / name).parent.mkdir(parents=True, exist_ok=True)
        (files.base / name).touch()
    (files.base / "d.txt").mkdir()
    assert found(files, pattern="*.txt") == ["a.txt", "x/a.txt", "x/new\nline.txt", "x/y/[z].txt"]
    assert found(files, pattern="[[]z].txt") == ["x/y/[z].txt"]
    assert found(files, pattern="?.md") == ["b.md"]
    assert found(files, pattern="a/b") == []
    assert found(files, pattern="*", max_depth=1) == ["A.TXT", "a.txt", "b.md"]
    assert found(files, pattern="*", max_depth=0) == []
    assert found(files, pattern="*", max_depth=-3) == []


def test_the_answer_says_how_complete_it_is_and_which_limits_held(files: Files) -> None:
    for number in range(5):
        (files.base / f"f{number}").touch()
    answer = search(files, pattern="*", max_results=5).json()
    assert (len(answer["results"]), answer["truncated"], answer["timed_out"]) == (5, False, False)
    assert answer["skipped"] == {"binary": 0, "large": 0, "unreadable": 0}
    assert answer["limits"]["max_results"] == 5 and answer["limits"]["max_depth"] == 5
    assert answer["limits"]["timeout_seconds"] == 10
    answer = search(files, pattern="*", max_results=4).json()
    assert (len(answer["results"]), answer["truncated"]) == (4, True)
    assert len(search(files, pattern="*", max_results=-1).json()["results"]) == 1


def test_text_is_found_with_line_column_and_context(files: Files) -> None:
    (files.base / "a").write_bytes("one\nzwei Ü needle needle\r\nthree\n\nneedle".encode())
    (files.base / "b").write_text("Needle")
    assert lines(files, contents="needle") == [("a", 2, 8, "zwei Ü needle needle"), ("a", 5, 1, "needle")]
    assert lines(files, contents="NEEDLE", ignore_case=True) == [
        ("a", 2, 8, "zwei Ü needle needle"), ("a", 5, 1, "needle"), ("b", 1, 1, "Needle"),
    ]  # fmt: skip
    assert lines(files, contents="needle", pattern="b") == []
    assert lines(files, contents="^n.*e$", regex=True, pattern="a") == [("a", 5, 1, "needle")]
    assert lines(files, contents="n.*e") == []
    assert lines(files, contents="(?i)ü n", regex=True) == [("a", 2, 6, "zwei Ü needle needle")]
    hit = search(files, contents="Ü", context=1).json()["results"][0]
    assert (hit["before"], hit["after"]) == (["one"], ["three"])
    hit = search(files, contents="Ü", context=1, regex=True).json()["results"][0]
    assert (hit["before"], hit["after"]) == (["one"], ["three"])
    assert len(search(files, contents="Ü", context=99).json()["results"][0]["after"]) == 3


def test_many_small_files_and_one_large_are_all_looked_through_by_an_expression(files: Files) -> None:
    for number in range(450):
        (files.base / f"f{number}").write_text(f"x{number}\n")
    (files.base / "large").write_bytes(b"filler\n" * 200_000 + b"x1000\n")
    assert len(lines(files, contents=r"^x\d+$", regex=True, max_results=1000)) == 451
    assert lines(files, contents="x1000") == [("large", 200_001, 1, "x1000")]


@pytest.mark.field(22)
def test_field_022_a_character_across_the_first_block_does_not_make_a_file_binary(files: Files) -> None:
    (files.base / "text").write_text("a" * 8190 + "€€€ needle", encoding="utf-8")
    (files.base / "binary").write_bytes(b"\0needle")
    (files.base / "empty").touch()
    answer = search(files, contents="needle").json()
    assert [(hit["name"], hit["column"]) for hit in answer["results"]] == [("text", 8195)]
    assert answer["skipped"] == {"binary": 1, "large": 0, "unreadable": 0}


def test_large_and_unreadable_files_are_counted_and_damaged_text_is_flagged(files: Files) -> None:
    with (files.base / "large").open("wb") as file:
        file.write(b"needle\n" * 2000)
        file.truncate(33 << 20)
    (files.base / "latin").write_bytes(b"caf\xe9 needle")
    answer = search(files, contents="needle").json()
    assert answer["skipped"] == {"binary": 0, "large": 1, "unreadable": 0}
    assert [(hit["text"], hit["encoding_errors"], hit["column"]) for hit in answer["results"]] == [
        ("caf\ufffd needle", True, 6)
    ]


@pytest.mark.finding("R2-S2", "R1-F2")
@pytest.mark.field(145)
def test_field_145_what_is_denied_is_never_named_nor_looked_into(files: Files, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("needle")
    for name in ("secret/a", "d/secret/b", "d/k.pem", "d/open", ".nsb-0123456789abcdef.part"):
        (files.base / name).parent.mkdir(parents=True, exist_ok=True)
        (files.base / name).write_text("needle")
    (files.base / "to-outside").symlink_to(tmp_path / "outside")
    (files.base / "to-secret").symlink_to("secret/a")
    (files.base / "to-dir").symlink_to("d")
    (files.base / "to-open").symlink_to("d/open")
    (files.base / "to-nothing").symlink_to("nowhere")
    assert found(files, pattern="*") == ["d/open", "to-nothing", "to-open"]
    for more in ({}, {"regex": True}):
        assert found(files, contents="needle", **more) == ["d/open"]  # links are not followed


def test_pipes_and_sockets_are_never_opened(files: Files) -> None:
    os.mkfifo(files.base / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(files.base / "socket"))
        (files.base / "file").write_text("needle")
        for more in ({}, {"regex": True}):
            assert found(files, contents="needle", **more) == ["file"]
        assert found(files, pattern="*") == ["file", "pipe", "socket"]


def test_deep_and_odd_trees_are_searched_to_the_end(files: Files) -> None:
    deep = files.base
    for _ in range(100):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "needle").write_text("x")
    os.close(os.open(os.fsencode(files.base) + b"/caf\xe9 needle", os.O_CREAT))
    paths = [hit["path"] for hit in search(files, pattern="*needle", max_depth=1000).json()["results"]]
    assert sorted(paths) == sorted([str(deep / "needle"), str(files.base / "caf\udce9 needle")])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "pattern"),
        ({"pattern": ""}, "pattern"),
        ({"pattern": "*" * 2000}, "pattern"),
        ({"contents": ""}, "contents"),
        ({"contents": "a\nb"}, "contents"),
        ({"contents": "a" * 5000}, "contents"),
        ({"contents": "(", "regex": True}, "contents"),
        ({"contents": "(?P<a>", "regex": True}, "contents"),
        ({"contents": "a{1,99999999999999999999}", "regex": True}, "contents"),
        ({"contents": "(" * 2000 + ")" * 2000, "regex": True}, "contents"),
        ({"contents": "x", "context": "many"}, "context"),
    ],
)
def test_what_cannot_be_searched_for_is_refused(files: Files, body: dict[str, Any], field: str) -> None:
    reply = search(files, **body)
    assert (reply.status, reply.json()["code"], reply.json()["field"]) == (400, "invalid_argument", field)
    assert "Error" not in reply.json()["error"]


def test_an_expression_that_is_none_is_named_with_the_place_of_its_fault(files: Files) -> None:
    for expression, told in (("(", "see character 1"), ("ab(", "see character 3"), ("(" * 2000, "or too large")):
        error = search(files, contents=expression, regex=True).json()["error"]
        assert error.endswith(f" is not a regular expression ({told})")
        assert error.startswith(json.dumps(expression)[:60])


def test_lines_come_one_by_one_and_the_last_tells_the_totals(files: Files) -> None:
    for number in range(3):
        (files.base / f"f{number}").write_text("needle\n" * 2)
    for more in ({}, {"regex": True}):
        reply = search(files, NDJSON, contents="needle", max_results=5, **more)
        assert reply.headers["content-type"] == "application/x-ndjson"
        *hits, end = map(json.loads, reply.body.splitlines())
        assert all(hit["text"] == "needle" for hit in hits) and len(hits) == 5
        assert (end["done"], end["hits"], end["truncated"], end["timed_out"]) == (True, 5, True, False)
        assert end["skipped"] == {"binary": 0, "large": 0, "unreadable": 0}
    assert [json.loads(line)["name"] for line in search(files, NDJSON, pattern="f1").body.splitlines()[:-1]] == ["f1"]


def test_the_first_hit_is_sent_before_the_search_is_over(patient: Files) -> None:
    """The second file is a trap for the expression, so that the search is certainly not over."""
    (patient.base / "1").mkdir()
    (patient.base / "1" / "trap").write_text(TRAP)
    (patient.base / "first").write_bytes(b"filler\n" * 50_000 + b"aaa\n")  # fills a message to the helper by itself
    connection = begin(patient, NDJSON, **HOSTILE)
    reply = connection.getresponse()
    assert json.loads(reply.readline())["name"] == "first"
    assert helpers(patient.server)
    reply.close()
    connection.close()
    eventually(lambda: not helpers(patient.server))


def helpers(server: ServerProcess) -> list[int]:
    """The children of the server, all of them helpers here."""
    children = Path(f"/proc/{server.pid}/task")
    found: list[int] = []
    for task in children.iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except FileNotFoundError:
            continue  # a thread that has just ended
    return found


def test_a_hostile_expression_ends_when_time_is_up(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_search": {"limits": {"timeout_seconds": 0.5}}}}
    with running_server(tmp_path, policy=policy) as server:
        (tmp_path / "base" / "trap").write_text(TRAP)
        reply = search(Files(server, tmp_path / "base"), **HOSTILE).json()
        assert (reply["results"], reply["timed_out"]) == ([], True)
        body_lines = search(Files(server, tmp_path / "base"), NDJSON, **HOSTILE).body.splitlines()
        assert [json.loads(line)["timed_out"] for line in body_lines] == [True]
        eventually(lambda: not helpers(server))


def test_nobody_else_waits_for_a_hostile_expression(patient: Files) -> None:
    (patient.base / "trap").write_text(TRAP)
    connection = begin(patient, **HOSTILE)
    eventually(lambda: helpers(patient.server))
    assert [patient.stat("trap").status for _ in range(50)] == [200] * 50
    assert helpers(patient.server)
    connection.close()
    eventually(lambda: not helpers(patient.server))


def test_an_expression_that_is_hostile_to_compile_costs_the_server_nothing(tmp_path: Path) -> None:
    policy = {"endpoints": {"files_search": {"limits": {"timeout_seconds": 2}}}}
    with running_server(tmp_path, policy=policy) as server:
        (tmp_path / "base" / "f").write_text("a")
        expression = "(?:" * 6 + "a" + "{0,60000})" * 6
        reply = server.request("POST", "/files/search", {"path": ".", "contents": expression, "regex": True})
        assert reply.status in (200, 400, 503)  # whichever bound it meets
        assert server.request("GET", "/health").status == 200
        eventually(lambda: not helpers(server))


@pytest.mark.parametrize("headers", [{}, NDJSON])
def test_a_caller_who_leaves_ends_the_search(patient: Files, headers: dict[str, str]) -> None:
    (patient.base / "trap").write_text(TRAP)
    connection = begin(patient, headers, **HOSTILE)
    eventually(lambda: helpers(patient.server))
    connection.close()
    eventually(lambda: not helpers(patient.server))


def _kinds_of_descriptors(pid: int) -> set[str]:
    kinds = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            kinds.add(os.readlink(link).partition(":")[0])
    return kinds


def test_the_helper_sees_nothing_of_the_servers_environment_and_descriptors(patient: Files) -> None:
    (patient.base / "trap").write_text(TRAP)
    connection = begin(patient, **HOSTILE)
    eventually(lambda: helpers(patient.server))
    (pid,) = helpers(patient.server)
    eventually(lambda: b"searching.program" in Path(f"/proc/{pid}/cmdline").read_bytes())
    environ = {line.partition(b"=")[0] for line in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if line}
    assert environ <= {b"NSB_PROCESS", b"PWD", b"LC_CTYPE"}
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    eventually(lambda: _kinds_of_descriptors(pid) == {"pipe"})  # once those are closed that Python itself starts with
    connection.close()
    eventually(lambda: not helpers(patient.server))


@pytest.mark.skipif(abi() == 0, reason="no way here: this kernel has no Landlock")
def test_a_confined_server_matches_expressions_too(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "f").write_text("needle")
    with running_server(tmp_path, arguments=("--confine", "landlock")) as server:
        assert found(Files(server, tmp_path / "base"), contents="^n.*e$", regex=True) == ["f"]


def test_searches_leave_no_descriptor_open(files: Files) -> None:
    (files.base / "d").mkdir()
    (files.base / "d" / "f").write_text("needle")

    def count() -> int:
        return len(os.listdir(f"/proc/{files.server.pid}/fd"))

    for body in ({"pattern": "*"}, {"contents": "needle"}, {"contents": "needle", "regex": True}, {"path": "nowhere"}):
        search(files, **body)
    before = count()
    for _ in range(10):
        for body in ({"pattern": "*"}, {"contents": "e", "max_results": 1}, {"contents": "e", "regex": True}):
            search(files, **body)
            search(files, NDJSON, **body)
    eventually(lambda: count() <= before)
