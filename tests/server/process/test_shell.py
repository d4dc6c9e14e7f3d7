"""A command run to its end."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from sandbox_server.messages import Aborted, Refusal
from tests.support.waiting import eventually

from .harness import Bench, Directory, alive


def refusal_of(bench: Bench, fields: dict[str, object], **how: object) -> Refusal:
    with pytest.raises(Refusal) as caught:
        bench.ask("shell", fields, **how)
    return caught.value


def test_output_and_exit_code_come_back(bench: Bench) -> None:
    assert bench.json("shell", {"command": "sh -c 'echo out; echo err >&2; exit 3'"}) == {
        "stdout": "out\n",
        "stderr": "err\n",
        "exit_code": 3,
        "signal": None,
    }


def test_no_shell_expands_the_words(bench: Bench) -> None:
    assert bench.json("shell", {"command": "echo $HOME ; ls '*'"})["stdout"] == "$HOME ; ls *\n"


def test_the_program_sees_its_name_as_given(bench: Bench) -> None:
    assert bench.json("shell", {"command": "sh -c 'cat /proc/$$/cmdline'"})["stdout"].startswith("sh\0-c\0")


@pytest.mark.field(82)
@pytest.mark.parametrize("number", [2, 9, 15])
def test_field_082_a_signal_is_told_as_number_and_as_negative_exit_code(bench: Bench, number: int) -> None:
    answer = bench.json("shell", {"command": f"sh -c 'kill -{number} $$'"})
    assert (answer["exit_code"], answer["signal"]) == (-number, number)


@pytest.mark.field(88)
@pytest.mark.parametrize("command", ["cat", "grep x", "sh", "sort"])
def test_field_088_standard_input_is_empty_unless_given(bench: Bench, command: str) -> None:
    assert bench.json("shell", {"command": command})["stdout"] == ""


@pytest.mark.field(89)
def test_field_089_given_standard_input_arrives_whole_and_ends(bench: Bench) -> None:
    text = "é\n" * 300_000
    answer = bench.json("shell", {"command": "wc -c", "stdin": text})
    assert int(answer["stdout"]) == len(text.encode())
    assert bench.json("shell", {"command": "true", "stdin": text})["exit_code"] == 0
    assert bench.json("shell", {"command": "cat", "stdin": ""})["stdout"] == ""


def test_standard_input_needs_no_memfd(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.memfd_create")
    assert bench.json("shell", {"command": "cat", "stdin": "abc"})["stdout"] == "abc"


@pytest.mark.field(91)
@pytest.mark.parametrize("script", ["cat <<EOF\nx", "echo 'open", "read line"])
def test_field_091_an_unfinished_script_ends_and_the_next_command_works(bench: Bench, script: str) -> None:
    bench.json("shell", {"command": f"sh -c {_quoted(script)}"})
    assert bench.json("shell", {"command": "echo next"})["stdout"] == "next\n"


@pytest.mark.field(98)
def test_field_098_the_working_directory_is_honoured_or_named(bench: Bench, tmp_path: Path) -> None:
    inside = tmp_path / "in side"
    inside.mkdir()
    answer = bench.json("shell", {"command": "sh -c 'pwd; echo $PWD'", "cwd": Directory(str(inside))})
    assert answer["stdout"] == f"{inside}\n{inside}\n"
    assert bench.json("shell", {"command": "pwd"})["stdout"] == f"{tmp_path}\n"
    location = NotADirectory(str(tmp_path / "file"))
    refusal = refusal_of(bench, {"command": "pwd", "cwd": location})
    assert (refusal.status, refusal.code, refusal.facts) == (400, "invalid_argument", {"field": "cwd"})
    assert str(tmp_path / "file") in refusal.message


def test_other_refusals_of_the_working_directory_stay(bench: Bench, tmp_path: Path) -> None:
    location = NotADirectory(str(tmp_path), code="path_denied")
    assert refusal_of(bench, {"command": "pwd", "cwd": location}).code == "path_denied"


def test_a_directory_that_may_not_be_entered_is_named(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    answer = refusal_of(bench, {"command": "pwd", "cwd": Unenterable(str(tmp_path / "file"))})
    assert (answer.code, answer.facts) == ("invalid_argument", {"field": "cwd"})


def test_the_directory_is_entered_by_path_where_there_is_no_proc(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandbox_server.process.spawn._DESCRIPTORS", str(tmp_path / "no-such"))
    assert bench.json("shell", {"command": "pwd"})["stdout"] == f"{tmp_path}\n"


def test_the_environment_is_the_base_and_the_callers_on_top(bench: Bench) -> None:
    answer = bench.json("shell", {"command": "sh -c 'echo $BASE $X'", "env": {"X": "1", "BASE": "no"}})
    assert answer["stdout"] == "no 1\n"
    assert "HOME=" not in bench.json("shell", {"command": "env"})["stdout"]


def test_the_marker_of_a_command_cannot_be_replaced_by_the_caller(bench: Bench) -> None:
    answer = bench.json("shell", {"command": "printenv NSB_PROCESS", "env": {"NSB_PROCESS": "mine"}})
    assert "mine" not in answer["stdout"] and len(answer["stdout"]) > 40


@pytest.mark.field(104)
def test_field_104_a_child_is_neutral(bench: Bench) -> None:
    assert bench.json("shell", {"command": "id -G"})["stdout"].split() == _groups()
    assert int(bench.json("shell", {"command": "nice"})["stdout"]) == os.nice(0)
    score = Path("/proc/self/oom_score_adj").read_text()
    assert bench.json("shell", {"command": "cat /proc/self/oom_score_adj"})["stdout"] == score
    status = bench.json("shell", {"command": "cat /proc/self/status"})["stdout"]
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    assert int(masks["SigBlk"], 16) == 0


def test_a_child_inherits_no_descriptor_and_leads_its_own_session(bench: Bench) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        listed = bench.json("shell", {"command": "ls /proc/self/fd"})["stdout"].split()
    finally:
        os.close(reading)
        os.close(writing)
    assert [name for name in listed if int(name) > 3] == []  # 3 is what ls itself opened
    stat = bench.json("shell", {"command": "cat /proc/self/stat"})["stdout"].rpartition(")")[2].split()
    assert stat[2] == stat[3] != str(os.getsid(0))


@pytest.mark.field(55)
def test_field_055_output_that_is_no_text_is_no_error(bench: Bench) -> None:
    answer = bench.json("shell", {"command": r"printf '\377\376\n'"})
    assert (answer["stdout"], answer["exit_code"], answer["encoding_errors"]) == ("\ufffd\ufffd\n", 0, True)
    assert bench.json("shell", {"command": "cat /bin/ls"})["encoding_errors"] is True


def test_line_ends_become_line_feeds(bench: Bench) -> None:
    assert bench.json("shell", {"command": r"printf 'a\r\nb\rc'"})["stdout"] == "a\nb\nc"


@pytest.mark.field(100)
def test_field_100_long_and_multi_line_arguments_arrive(bench: Bench) -> None:
    script = "echo start\n" + "# " + "x" * 100_000 + "\necho 'a\nb'"
    assert bench.json("shell", {"command": f"sh -c {_quoted(script)}"})["stdout"] == "start\na\nb\n"


def test_output_over_the_limit_is_cut_per_stream_and_the_command_goes_on(bench: Bench, tmp_path: Path) -> None:
    answer = bench.json(
        "shell", {"command": "sh -c 'yes a | head -c 500; echo err >&2; touch done; exit 4'"},
        limits={"max_output_bytes": 10},
    )  # fmt: skip
    assert answer["stdout"] == "a\na\na\na\na\n"
    assert (answer["stderr"], answer["exit_code"], answer["truncated"]) == ("err\n", 4, True)
    assert (tmp_path / "done").exists()
    exact = bench.json("shell", {"command": "echo hi"}, limits={"max_output_bytes": 3})
    assert "truncated" not in exact and exact["stdout"] == "hi\n"


def test_a_flood_is_bounded_by_the_default_limit(bench: Bench) -> None:
    answer = bench.json("shell", {"command": "head -c 60000000 /dev/zero"})
    assert answer["truncated"] is True
    assert len(answer["stdout"]) == 16 << 20


@pytest.mark.field(94)
def test_field_094_a_timeout_tells_what_was_said_so_far(bench: Bench) -> None:
    refusal = bench.cut("sh -c 'echo so far; echo err >&2; sleep 60'", lambda refusal: refusal.facts["stderr"])
    assert refusal.facts == {"stdout": "so far\n", "stderr": "err\n", "truncated": False}


def test_a_flood_until_the_timeout_is_bounded(bench: Bench) -> None:
    refusal = bench.cut("yes", lambda refusal: refusal.facts["truncated"], limits={"max_output_bytes": 1000})
    assert refusal.facts["stdout"] == "y\n" * 500
    assert refusal.facts["truncated"] is True


@pytest.mark.field(97)
@pytest.mark.parametrize("timeout", [0, -1, None, float("inf"), float("nan"), 1e300])
def test_field_097_a_timeout_that_is_not_positive_means_the_default(bench: Bench, timeout: float | None) -> None:
    assert bench.json("shell", {"command": "sh -c 'sleep 0.05; echo ok'", "timeout": timeout})["stdout"] == "ok\n"


def test_the_policy_bounds_the_callers_timeout(bench: Bench) -> None:
    refusal = refusal_of(bench, {"command": "sleep 60", "timeout": 60}, limits={"timeout_seconds": 0.2})
    assert (refusal.code, refusal.message) == (
        "timeout",
        "the command was killed because it took longer than 0.2 s; no more is allowed, so start it in the background",
    )
    refusal = refusal_of(bench, {"command": "sleep 60", "timeout": 0.1}, limits={"timeout_seconds": 60})
    assert refusal.message == 'the command was killed because it took longer than 0.1 s; pass a larger "timeout"'


@pytest.mark.field(76)
def test_field_076_a_background_child_that_holds_the_output_does_not_hold_the_answer(
    bench: Bench, tmp_path: Path
) -> None:
    script = "(until [ -e go ]; do sleep 0.02; done; echo later; echo later; touch survived) & echo hi; exit 5"
    answer = bench.json("shell", {"command": f"sh -c {_quoted(script)}"})
    assert (answer["held"], answer["exit_code"], answer["stdout"]) == (True, 5, "hi\n")
    # What it writes afterwards goes nowhere, but it can still write.
    (tmp_path / "go").touch()
    eventually((tmp_path / "survived").exists)


def test_a_holder_that_floods_does_not_hold_the_answer_either(bench: Bench) -> None:
    answer = bench.json("shell", {"command": "sh -c 'yes & echo $! >pid'"}, limits={"max_output_bytes": 10})
    assert answer["held"] is True
    os.kill(int((bench.root / "pid").read_text()), 9)


@pytest.mark.field(73)
def test_field_073_the_last_output_is_never_lost_before_the_exit(bench: Bench) -> None:
    expected = "".join(f"{number}\n" for number in range(1, 100_001))
    for _ in range(15):
        answer = bench.json("shell", {"command": "sh -c 'seq 1 100000; exit 3'"})
        assert answer["exit_code"] == 3
        assert answer["stdout"] == expected


@pytest.mark.field(95)
def test_field_095_a_client_that_goes_away_ends_the_command(bench: Bench, tmp_path: Path) -> None:
    peer = bench.peer()
    caught: list[BaseException] = []

    def call() -> None:
        try:
            bench.ask("shell", {"command": "sh -c 'echo $$ >pid; sleep 60 & wait'"}, peer=peer)
        except Aborted as error:
            caught.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    peer.vanish()
    thread.join()
    assert len(caught) == 1
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: not alive(pid))


def test_a_missing_program_is_not_found(bench: Bench) -> None:
    refusal = refusal_of(bench, {"command": "definitely-not-a-binary-x"})
    assert (refusal.status, refusal.code, refusal.reason.type) == (404, "not_found", "FileNotFoundError")
    assert '"definitely-not-a-binary-x"' in refusal.message


@pytest.mark.parametrize(
    ("content", "mode", "code"),
    [
        ("#!/no/such/interpreter\n", 0o755, "not_found"),
        ("just text", 0o755, "command_invalid"),
        ("#!/bin/sh\n", 0o644, "forbidden"),
    ],
)
def test_what_cannot_be_executed_is_refused_without_a_server_error(
    bench: Bench, tmp_path: Path, content: str, mode: int, code: str
) -> None:
    script = tmp_path / "script"
    script.write_text(content)
    script.chmod(mode)
    refusal = refusal_of(bench, {"command": _Command(str(script))})
    assert refusal.code == code and refusal.status < 500


def test_more_variables_than_the_system_takes_are_refused(bench: Bench) -> None:
    refusal = refusal_of(bench, {"command": "true", "env": {"BIG": "x" * 3_000_000}})
    assert (refusal.code, refusal.status) == ("command_invalid", 400)


def _groups() -> list[str]:
    import subprocess

    return subprocess.run(["id", "-G"], capture_output=True, text=True, check=True).stdout.split()


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


class _Command:
    """A command whose program is what the test says, found or not."""

    def __init__(self, program: str) -> None:
        self.argv: tuple[str, ...] = (program,)
        self.program = program
        self.text = program


class NotADirectory(Directory):
    def __init__(self, path: str, code: str = "not_found") -> None:
        super().__init__(path)
        self._code = code

    def open_directory(self) -> int:
        raise Refusal(self._code, "no directory")


class Unenterable(Directory):
    """Was a directory when it was judged."""

    def open_directory(self) -> int:
        return os.open(self.path, os.O_RDONLY)
