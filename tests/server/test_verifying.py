"""`audit verify`: an edit, a removal, a reordering and a missing end show; what the server itself writes passes."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_server.audit import GENESIS, AuditLog
from sandbox_server.cli import main
from sandbox_server.verifying import Broken, Head, verify
from tests.support.server import running_server

pytestmark = pytest.mark.finding("R2-S18")


def chain(count: int, first: int = 1, previous: str = GENESIS) -> list[bytes]:
    lines = []
    for number in range(first, first + count):
        line = json.dumps({"endpoint": "shell", "paths": [f"/p{number}"], "seq": number, "prev": previous}).encode()
        previous = hashlib.sha256(line).hexdigest()
        lines.append(line)
    return lines


def check(*files: list[bytes], kept: Head | None = None):
    return verify([(f"file{number}", lines) for number, lines in enumerate(files, 1)], kept)


def head(line: bytes) -> Head:
    return Head(json.loads(line)["seq"], hashlib.sha256(line).hexdigest())


def test_a_whole_chain_holds_and_its_head_is_told() -> None:
    lines = chain(5)
    assert check(lines) == (5, 1, head(lines[-1]), 1, 0, 0)
    assert check([]) == (0, 0, None, 0, 0, 0)


@given(st.integers(3, 12), st.data())
def test_any_edit_removal_repetition_or_exchange_in_the_middle_is_found(count: int, data: st.DataObject) -> None:
    lines = chain(count)
    at = data.draw(st.integers(1, count - 2))
    match data.draw(st.sampled_from(["edit", "remove", "repeat", "exchange", "put in"])):
        case "edit":
            lines[at] = lines[at].replace(b"/p", b"/q")
        case "remove":
            del lines[at]
        case "repeat":
            lines.insert(at, lines[at])
        case "exchange":
            lines[at], lines[at - 1] = lines[at - 1], lines[at]
        case _:
            lines.insert(at, chain(1, at + 1, hashlib.sha256(lines[at - 1]).hexdigest())[0].replace(b"/p", b"/x"))
    with pytest.raises(Broken, match=r"file1:"):
        check(lines)


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        (lambda lines: [lines[0], lines[1].replace(b"/p2", b"/p9"), *lines[2:]], "file1:3", "does not follow line 2"),
        (lambda lines: [*lines[:2], *lines[4:]], "file1:3", "2 lines missing before it, after number 2"),
        (lambda lines: [*lines[:2], lines[1], *lines[2:]], "file1:3", "number 2 after number 2"),
    ],
)
def test_the_first_bad_line_is_told_with_its_place_its_text_and_what_is_wrong(change, place, words) -> None:
    with pytest.raises(Broken) as broken:
        check(change(chain(6)))
    assert str(broken.value).startswith(f"{place}: ")
    assert words in str(broken.value)
    assert '"endpoint": "shell"' in str(broken.value)


def test_the_first_and_the_last_line_are_kept_by_a_head_from_elsewhere() -> None:
    lines = chain(6)
    kept = head(lines[-1])
    assert check(lines, kept=kept).head == kept
    assert check([*lines, *chain(2, 7, kept.digest)], kept=kept).lines == 8
    assert check(lines[:-1]).lines == 5  # the chain alone cannot know
    with pytest.raises(Broken, match="line 6, whose hash was kept, is not there"):
        check(lines[:-1], kept=kept)
    with pytest.raises(Broken, match="whose hash was kept"):
        check(chain(6, 1, "a" * 64), kept=kept)  # all of it written anew
    assert check([], kept=Head(0, GENESIS)).lines == 0


def test_rotated_files_are_one_chain_and_a_missing_one_shows() -> None:
    lines = chain(9)
    assert check(lines[:3], lines[3:6], lines[6:]).lines == 9
    assert check(lines[3:]).first == 4  # the oldest are kept elsewhere
    with pytest.raises(Broken, match="file2:1: 3 lines missing"):
        check(lines[:3], lines[6:])
    with pytest.raises(Broken, match="reordered"):
        check(lines[6:], lines[3:6])


def test_several_runs_in_one_file_and_text_between_them_are_told() -> None:
    lines = [*chain(2), b"WARNING sandbox_server: L1", b'{"torn": "by a cra', *chain(3)]
    assert check(lines)[:2] == (5, 2)
    assert check(lines).other == 2


@given(st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"{}", b"[]", b"1", b'{"seq":1,"prev":1}',
       b'{"seq":true,"prev":"' + b"0" * 64 + b'"}', b"[" * 5000])), max_size=6))  # fmt: skip
def test_whatever_is_in_a_file_there_is_a_verdict(lines: list[bytes]) -> None:
    assert check(lines).lines == 0


def test_what_a_server_writes_over_two_runs_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with running_server(tmp_path, policy={"defaults": {"audit": "all"}}) as server:
            for number in range(5):
                assert server.request("GET", f"/nothing-{number}").status == 404
    assert main(["audit", "verify", str(server.audit)]) == 0
    told = capsys.readouterr().out
    assert "the chain holds: 10 lines in 1 run\n" in told
    kept = told.rpartition("head ")[2].strip()
    assert main(["audit", "verify", str(server.audit), "--head", kept]) == 0

    whole = server.audit.read_bytes().splitlines(keepends=True)
    server.audit.write_bytes(b"".join(whole[:-1]))
    assert main(["audit", "verify", str(server.audit)]) == 0
    assert main(["audit", "verify", str(server.audit), "--head", kept]) == 1
    server.audit.write_bytes(b"".join([*whole[:3], whole[3].replace(b"nothing", b"harmless"), *whole[4:]]))
    assert main(["audit", "verify", str(server.audit)]) == 1
    assert f"{server.audit}:5: it does not follow line 4" in capsys.readouterr().err


def test_a_log_that_was_cut_at_its_beginning_verifies_from_there(tmp_path: Path, capsys) -> None:
    file = tmp_path / "audit.jsonl"
    log = AuditLog(str(file), most_bytes=2000)
    for number in range(40):
        log.write({"endpoint": "shell", "paths": [f"/p{number}"]})
    log.close()
    assert main(["audit", "verify", str(file)]) == 0
    assert "note: it begins with line" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["missing"], [".", "--head", "x"], ["."]])
def test_what_cannot_be_read_is_said_and_exits_2(tmp_path: Path, monkeypatch, capsys, arguments: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["audit", "verify", *arguments]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_lines_that_the_server_lost_are_told(tmp_path: Path, capsys) -> None:
    line = json.dumps({"event": "lost", "count": 3, "seq": 1, "prev": GENESIS})
    (tmp_path / "log").write_text(line + "\n")
    assert main(["audit", "verify", str(tmp_path / "log")]) == 0
    assert "the server says that 3 lines could not be written" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "lines"), [(1, "1 line"), (2, "2 lines")])
def test_one_line_is_counted_as_one(tmp_path: Path, capsys, number: int, lines: str) -> None:
    (tmp_path / "log").write_bytes(b"torn\n" * number)
    log = AuditLog(str(tmp_path / "log"))
    log.write({"event": "lost", "count": number})
    for _ in range(number - 1):
        log.write({"endpoint": "shell"})
    log.close()
    assert main(["audit", "verify", str(tmp_path / "log")]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        f"the chain holds: {lines} in 1 run",
        f"note: the server says that {lines} could not be written",
        f"note: passed over {lines} of other text, such as one torn by a crash",
    ]


@pytest.mark.finding("R1-U5")
def test_explain_is_check_config_explain(tmp_path: Path, capsys) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"endpoints": {"files_*": {"paths": {"deny": ["*.pem"]}}}}))
    common = ["--policy", str(policy), "--base-dir", str(tmp_path), "--path", "key.pem", "--op", "read"]
    codes = [main(["explain", "files_stat", *common])]
    told = capsys.readouterr().out
    codes.append(main(["check-config", "--explain", "files_stat", *common]))
    assert codes == [3, 3]
    assert capsys.readouterr().out == told
    assert json.loads(told)["code"] == "path_denied"
