"""Editing text files: all edits or none, and every byte that no edit names stays as it is."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server.handlers.diffs import unified
from sandbox_server.handlers.edits import Lines, apply_edits, parse_edits
from tests.server.files.conftest import Files
from tests.support.server import Reply, running_server

BOM = b"\xef\xbb\xbf"


def edit(
    files: Files, path: str, *edits: dict[str, Any], headers: dict[str, str] | None = None, **fields: Any
) -> Reply:
    return files.server.request("POST", "/files/edit", {"path": path, "edits": list(edits), **fields}, headers)


def refusal(reply: Reply) -> tuple[int, str]:
    return reply.status, reply.json()["code"]


def unlimited(length: int) -> None:
    pass


def test_text_and_lines_are_replaced_one_edit_after_the_other(files: Files) -> None:
    (files.base / "f").write_bytes(b"one\ntwo\nthree\n")
    (files.base / "f").chmod(0o640)
    reply = edit(
        files, "f", {"old": "two", "new": "2"}, {"start_line": 2, "end_line": 2, "new": "two\nand a half"},
        {"start_line": 1, "end_line": 0, "new": "zero"}, {"old": "e", "new": "E", "all": True},
    )  # fmt: skip
    content = (files.base / "f").read_bytes()
    assert content == b"zEro\nonE\ntwo\nand a half\nthrEE\n"
    answer = reply.json()
    assert answer.pop("etag") == files.stat("f").json()["etag"]
    assert answer.pop("diff").splitlines() == [
        f"--- {files.base / 'f'}", f"+++ {files.base / 'f'}", "@@ -1,3 +1,5 @@",
        "-one", "+zEro", "+onE", " two", "-three", "+and a half", "+thrEE",
    ]  # fmt: skip
    assert answer == {
        "path": str(files.base / "f"), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(),
        "replacements": [1, 1, 1, 4], "changed": True, "dry_run": False, "diff_truncated": False,
    }  # fmt: skip
    assert stat.S_IMODE((files.base / "f").stat().st_mode) == 0o640
    assert os.listdir(files.base) == ["f"]


def test_text_that_is_not_there_exactly_once_is_refused_with_its_places(files: Files) -> None:
    (files.base / "f").write_bytes(b"a\nb a\n\na\n")
    reply = edit(files, "f", {"old": "b", "new": "c"}, {"old": "a", "new": "x"})
    assert refusal(reply) == (409, "edit_mismatch")
    assert (reply.json()["edit"], reply.json()["count"], reply.json()["lines"]) == (1, 3, [1, 2, 4])
    reply = edit(files, "f", {"old": "missing", "new": "x"})
    assert refusal(reply) == (409, "edit_mismatch")
    assert (reply.json()["edit"], reply.json()["count"], reply.json()["lines"]) == (0, 0, [])
    reply = edit(files, "f", {"start_line": 5, "end_line": 5, "new": "x"})
    assert refusal(reply) == (409, "edit_mismatch")
    assert reply.json()["total_lines"] == 4
    assert (files.base / "f").read_bytes() == b"a\nb a\n\na\n"


def test_unix_line_ends_sought_in_a_crlf_file_get_a_hint(files: Files) -> None:
    (files.base / "f").write_bytes(b"a\r\nb\r\n")
    assert "CRLF" in edit(files, "f", {"old": "a\nb", "new": "c"}).json()["error"]
    assert edit(files, "f", {"old": "a\r\nb", "new": "c"}).status == 200
    assert (files.base / "f").read_bytes() == b"c\r\n"


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([], "a list of 1 to 1000"),
        ("x", "a list of 1 to 1000"),
        ([1], "must be an object"),
        ([{}], "one of two shapes"),
        ([{"old": "", "new": "x"}], '"old" is empty'),
        ([{"old": "a"}], '"new" must be text'),
        ([{"old": "a", "new": 1}], '"new" must be text'),
        ([{"old": "a", "new": "b", "all": "yes"}], '"all" must be true or false'),
        ([{"old": "a", "new": "b", "al": True}], 'did you mean "all"?'),
        ([{"start_lin": 1, "end_line": 1, "new": "b"}], 'did you mean "start_line"?'),
        ([{"old": "a", "new": "b", "start_line": 1}], "unknown key"),
        ([{"start_line": 1, "end_line": 1, "new": "b", "all": True}], "one of two shapes"),
        ([{"start_line": True, "end_line": 1, "new": "b"}], '"start_line" must be a whole number'),
        ([{"start_line": 1, "end_line": "1", "new": "b"}], '"end_line" must be a whole number'),
        ([{"old": "a", "new": "b"}] * 1001, "a list of 1 to 1000"),
    ],
)
def test_malformed_edits_are_refused(files: Files, edits: Any, said: str) -> None:
    (files.base / "f").write_bytes(b"a")
    reply = files.server.request("POST", "/files/edit", {"path": "f", "edits": edits})
    assert refusal(reply) == (400, "invalid_argument")
    assert said in reply.json()["error"]
    assert (files.base / "f").read_bytes() == b"a"


def test_only_utf8_text_files_that_exist_are_edited(files: Files) -> None:
    (files.base / "latin").write_bytes(b"caf\xe9")
    (files.base / "d").mkdir()
    change = {"old": "a", "new": "b"}
    assert refusal(edit(files, "latin", change)) == (409, "not_text")
    assert refusal(edit(files, "d", change)) == (404, "not_found")
    reply = edit(files, "missing", change)
    assert refusal(reply) == (404, "not_found")
    assert "upload" in reply.json()["error"]
    assert refusal(edit(files, "x.pem", change)) == (403, "path_denied")


def test_an_expected_version_is_demanded(files: Files) -> None:
    (files.base / "f").write_bytes(b"a")
    digest = hashlib.sha256(b"a").hexdigest()
    reply = edit(files, "f", {"old": "a", "new": "b"}, expected_sha256="0" * 64)
    assert refusal(reply) == (412, "precondition_failed")
    assert reply.json()["sha256"] == digest
    assert refusal(edit(files, "f", {"old": "a", "new": "b"}, expected_sha256="abc")) == (400, "invalid_argument")
    assert refusal(edit(files, "f", {"old": "a", "new": "b"}, headers={"If-Match": '"x"'}))[0] == 412
    assert (files.base / "f").read_bytes() == b"a"
    assert edit(files, "f", {"old": "a", "new": "b"}, expected_sha256=digest.upper()).status == 200


def test_a_dry_run_writes_nothing(files: Files) -> None:
    (files.base / "f").write_bytes(b"a\n")
    before = files.stat("f").json()["etag"]
    answer = edit(files, "f", {"old": "a", "new": "b"}, dry_run=True).json()
    assert (answer["changed"], answer["etag"], answer["bytes"]) == (True, before, 2)
    assert "-a\n+b\n" in answer["diff"]
    assert answer["sha256"] == hashlib.sha256(b"b\n").hexdigest()
    assert (files.base / "f").read_bytes() == b"a\n"
    assert files.stat("f").json()["etag"] == before


def test_an_edit_that_changes_nothing_leaves_the_file_alone(files: Files) -> None:
    (files.base / "f").write_bytes(b"a\n")
    before = files.stat("f").json()["etag"]
    answer = edit(files, "f", {"old": "a", "new": "a"}).json()
    assert (answer["changed"], answer["diff"], answer["replacements"]) == (False, "", [1])
    assert files.stat("f").json()["etag"] == before


def test_edits_at_once_are_all_made(files: Files) -> None:
    (files.base / "f").write_text("".join(f"<{n}>\n" for n in range(16)))
    statuses: list[int] = []
    threads = [
        threading.Thread(
            target=lambda n=n: statuses.append(edit(files, "f", {"old": f"<{n}>", "new": f"[{n}]"}).status)
        )
        for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 16
    assert (files.base / "f").read_text() == "".join(f"[{n}]\n" for n in range(16))


def test_the_rules_and_limits_of_the_endpoint_hold(tmp_path: Path) -> None:
    policy = {
        "endpoints": {
            "files_edit": {
                "limits": {"max_bytes": 10}, "params": {"deny_extensions": [".lock"]}, "paths": {"hardlinks": "deny"},
            }
        }
    }  # fmt: skip
    with running_server(tmp_path, policy=policy) as server:
        files = Files(server, tmp_path / "base")
        for name, size in (("f", 5), ("large", 11), ("a.lock", 1), ("one", 1)):
            (files.base / name).write_bytes(b"a" * size)
        os.link(files.base / "one", files.base / "two")
        assert refusal(edit(files, "large", {"old": "aa", "new": "b", "all": True})) == (413, "payload_too_large")
        assert refusal(edit(files, "f", {"old": "a", "new": "bbb", "all": True})) == (413, "payload_too_large")
        assert refusal(edit(files, "f", {"start_line": 1, "end_line": 0, "new": "b" * 9})) == (413, "payload_too_large")
        assert refusal(edit(files, "a.lock", {"old": "a", "new": "b"})) == (403, "extension_not_allowed")
        assert refusal(edit(files, "two", {"old": "a", "new": "b"})) == (403, "hardlink_denied")
        assert edit(files, "f", {"old": "a", "new": "bb", "all": True}).status == 200
        assert (files.base / "f").read_bytes() == b"b" * 10


def test_growth_is_bounded_before_it_is_made(files: Files) -> None:
    (files.base / "f").write_bytes(b"a" * (1 << 20))
    reply = edit(files, "f", {"old": "a", "new": "b" * (1 << 20), "all": True})
    assert refusal(reply) == (413, "payload_too_large")


@pytest.mark.parametrize(
    ("before", "start", "end", "new", "after"),
    [
        (b"", 1, 0, "x", b"x\n"),
        (b"a\nb\n", 3, 2, "c", b"a\nb\nc\n"),
        (b"a\nb", 3, 2, "c", b"a\nb\nc"),
        (b"a\nb", 2, 2, "c\n", b"a\nc"),
        (b"a\nb", 2, 2, "", b"a"),
        (b"a\r\nb\r\n", 1, 1, "x\ny", b"x\r\ny\r\nb\r\n"),
        (b"a\r\nb", 2, 2, "x\r\ny", b"a\r\nx\r\ny"),
        (b"a\r\nb", 3, 2, "c", b"a\r\nb\r\nc"),
        (b"a\n", 1, 1, "", b""),
        (b"a\nb\nc\n", 2, 2, "\n", b"a\n\nc\n"),
        (BOM + b"a\n", 1, 1, "b", BOM + b"b\n"),
        (BOM, 1, 0, "b", BOM + b"b\n"),
        (b"a\rb\n", 1, 1, "c", b"c\n"),
    ],
)
def test_lines_keep_the_ends_of_the_file(before: bytes, start: int, end: int, new: str, after: bytes) -> None:
    assert Lines(start, end, new.encode()).apply(before, 0, unlimited) == (after, 1)


lines = st.lists(st.text("abé\x0c\u2028", max_size=3), max_size=8)


@given(lines, st.data())
def test_lines_are_replaced_as_in_a_list(before: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(1, len(before) + 1))
    end = data.draw(st.integers(start - 1, len(before)))
    new = data.draw(lines)
    text = "".join(f"{line}\n" for line in before).encode()
    expected = "".join(f"{line}\n" for line in [*before[: start - 1], *new, *before[end:]]).encode()
    changed, _ = Lines(start, end, "".join(f"{line}\n" for line in new).encode()).apply(text, 0, unlimited)
    assert changed == expected


@given(st.text("ab\n", max_size=12), st.text("ab\n", min_size=1, max_size=3), st.text("ab", max_size=3))
def test_all_places_are_replaced_as_python_would(text: str, old: str, new: str) -> None:
    if old in text:
        edits = parse_edits([{"old": old, "new": new, "all": True}])
        assert apply_edits(text.encode(), edits, unlimited) == (text.replace(old, new).encode(), [text.count(old)])


def patched(old: str, diff: str) -> str:
    """What a diff makes of a text."""
    before = old.split("\n")
    ended = before[-1] == ""
    source = [f"{line}\n" for line in before[:-1]] + ([] if ended else [before[-1]])
    result: list[str] = []
    place = 0
    steps = list(joined(diff.split("\n")[2:-1]))
    for step in steps:
        if step.startswith("@@"):
            first, _, count = step.split(" ")[1][1:].partition(",")
            begin = int(first) - (count != "0")
            result += source[place:begin]
            place = begin
        elif step[0] in " -":
            assert source[place] == step[1:]
            result += [source[place]] if step[0] == " " else []
            place += 1
        else:
            result.append(step[1:])
    return "".join(result + source[place:])


def joined(steps: list[str]) -> Iterator[str]:
    for step, following in zip(steps, [*steps[1:], ""], strict=True):
        if not step.startswith("\\"):
            yield step if following.startswith("\\") or step.startswith("@@") else f"{step}\n"


@given(st.text("abc\n", max_size=60), st.text("abc\n", max_size=60))
def test_a_diff_turns_the_old_text_into_the_new(old: str, new: str) -> None:
    diff, cut = unified(old.encode(), new.encode(), "f")
    assert cut is False
    assert (patched(old, diff) if diff else old) == new


def test_a_diff_is_bounded_in_size_and_time() -> None:
    many = "".join(f"{n}\n" for n in range(5000))
    assert unified(many.encode(), many.replace("\n", "x\n").encode(), "f") == ("", True)
    wide = "".join(f"{n}{'y' * 1000}\n" for n in range(200)).encode()
    diff, cut = unified(wide, wide.replace(b"y\n", b"z\n"), "f")
    assert cut and 60_000 < len(diff) < 70_000
    assert unified(b"x" * (2 << 20), b"y" * (2 << 20), "f") == ("", True)
    far = b"a\n" * (1 << 20)
    diff, cut = unified(far, far + b"end\n", "f")
    assert (diff.count("\n"), cut) == (7, False)


def test_an_edit_refuses_a_file_that_somebody_else_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sandbox_server.access import PathRule
    from sandbox_server.guards.paths import PathGuards
    from sandbox_server.handlers import edit as module

    (tmp_path / "f").write_bytes(b"a")
    guards = PathGuards(str(tmp_path))
    with guards.of(PathRule()).locate("f", "write") as path:
        seen = path.stat_now()
        (tmp_path / "f").write_bytes(b"changed")
        with pytest.raises(module.Refusal, match="changed meanwhile"):
            module._write(None, path, b"b", seen)  # type: ignore[arg-type]
    guards.close()
    assert (tmp_path / "f").read_bytes() == b"changed"
    assert os.listdir(tmp_path) == ["f"]


def test_json_escapes_in_edits_are_bytes_in_the_file(files: Files) -> None:
    (files.base / "f").write_bytes(BOM + "é\t\0x".encode())
    assert edit(files, "f", {"old": "\t\0", "new": "日本"}).status == 200
    assert (files.base / "f").read_bytes() == BOM + "é日本x".encode()


@pytest.mark.parametrize("size", [1, 7, 16383, 16384, 16385, 40000])
def test_lines_are_found_wherever_they_begin(size: int) -> None:
    from sandbox_server.handlers.edits import Lines

    data = b"x" * size + b"\n" + b"second\n" + b"y" * size + b"\nlast"
    for number, text in enumerate((b"x" * size, b"second", b"y" * size, b"last"), 1):
        changed, _ = Lines(number, number, b"new\n").apply(data, 0, lambda length: None)
        assert changed == data.replace(text, b"new", 1)
