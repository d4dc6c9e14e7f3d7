"""Code that runs once."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.messages import FRAMES_TYPE
from tests.server.process.harness import alive, frames, output, records
from tests.support.server import SYSTEM_PATH, ServerProcess, running_server
from tests.support.waiting import eventually, in_time

from .harness import POLICY, Stream

ECHO = {
    "python": "import os, sys; print(os.getcwd(), os.environ['WORD'], sys.stdin.read())",
    "bash": 'echo "$PWD" "$WORD" "$(cat)"',
    "node": "console.log(process.cwd(), process.env.WORD, require('fs').readFileSync(0, 'utf8'))",
}
LONG = {
    "python": "#{}\nprint(__name__)",
    "bash": "#{}\necho __main__",
    "node": "//{}\nconst fs = 1; console.log('__main__')",
}
#: Node is on the machine, or it is not; the other two always are.
_needs_node = pytest.mark.skipif(shutil.which("node", path=SYSTEM_PATH) is None, reason="no way here: no Node.js")
LANGUAGES = ["python", "bash", pytest.param("node", marks=_needs_node)]


@pytest.mark.field(106)
@pytest.mark.parametrize("language", LANGUAGES)
def test_field_106_directory_variables_and_input_reach_every_language(
    server: ServerProcess, base: Path, language: str
) -> None:
    (base / "inside").mkdir(exist_ok=True)
    fields = {"code": ECHO[language], "language": language, "cwd": "inside", "env": {"WORD": "é"}, "stdin": "fed"}
    answer = server.request("POST", "/code/run", fields).json()
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == (f"{base}/inside é fed\n", "", 0)


@pytest.mark.field(88)
@pytest.mark.parametrize("language", LANGUAGES)
def test_field_088_without_input_there_is_an_end_of_file(server: ServerProcess, language: str) -> None:
    fields = {"code": ECHO[language], "language": language, "env": {"WORD": "x"}}
    assert server.request("POST", "/code/run", fields).json()["stdout"].endswith(" x \n")


@pytest.mark.field(100)
@pytest.mark.parametrize("language", LANGUAGES)
def test_field_100_code_longer_than_a_word_of_a_command_may_be(server: ServerProcess, language: str) -> None:
    fields = {"code": LONG[language].format("é" * 150_000), "language": language}
    answer = server.request("POST", "/code/run", fields).json()
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("__main__\n", "", 0)


def test_long_code_leaves_no_descriptor_behind_and_ends_with_its_own_exit_code(server: ServerProcess) -> None:
    code = "ls /proc/self/fd | wc -l; exit 7"
    short = server.request("POST", "/code/run", {"code": code, "language": "bash"}).json()
    long = server.request("POST", "/code/run", {"code": f"{code}\n#{'x' * 200_000}", "language": "bash"}).json()
    assert (long["stdout"], long["exit_code"]) == (short["stdout"], 7)


@pytest.mark.parametrize("code", ["", "a\0b", 5, None])
def test_what_cannot_be_code_is_refused(server: ServerProcess, code: object) -> None:
    reply = server.request("POST", "/code/run", {"code": code})
    assert (reply.status, reply.json()["code"]) == (400, "invalid_argument")


@pytest.mark.field(94)
def test_field_094_a_timeout_carries_the_output_so_far(server: ServerProcess) -> None:
    code = "import time; print('so far', flush=True); time.sleep(60)"

    def run(seconds: float) -> dict[str, Any]:
        reply = server.request("POST", "/code/run", {"code": code, "timeout": seconds}, timeout=120)
        assert reply.status == 408
        return {**reply.json(), "seconds": seconds}

    facts = in_time(run, lambda facts: facts["stdout"])
    assert (facts["code"], facts["stdout"], facts["stderr"], facts["truncated"]) == ("timeout", "so far\n", "", False)
    assert facts["error"] == (
        f'the code was stopped because it took longer than {facts["seconds"]} s; pass a larger "timeout"'
    )


@pytest.mark.field(55)
def test_field_055_output_that_is_not_text_is_told_with_a_flag_and_framed_exactly(server: ServerProcess) -> None:
    fields = {"code": r"printf '\377\n'; printf '\376' >&2", "language": "bash"}
    answer = server.request("POST", "/code/run", fields).json()
    assert (answer["stdout"], answer["stderr"], answer["encoding_errors"]) == ("\ufffd\n", "\ufffd", True)
    found = frames(server.request("POST", "/code/run", fields, {"Accept": FRAMES_TYPE}).body)
    assert (output(found, 1), output(found, 2)) == (b"\xff\n", b"\xfe")
    [end] = records(found, "end")
    assert (end["exit_code"], end["stdout"], end["stderr"]) == (0, 2, 1)


@pytest.mark.finding("R-A3")
def test_a_reader_who_leaves_stops_the_code(server: ServerProcess, base: Path) -> None:
    code = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    with Stream(server, "/code/run", {"code": code}) as stream:
        pid = next(int(data) for number, data in stream.frames() if number == 1)
    eventually(lambda: not alive(pid))


def test_output_that_was_cut_says_so(tmp_path: Path) -> None:
    policy = {**POLICY, "endpoints": {"code_run": {"limits": {"max_output_bytes": 5}}}}
    with running_server(tmp_path, policy=policy) as server:
        answer = server.request("POST", "/code/run", {"code": "print('x' * 100)"}).json()
        assert (answer["stdout"], answer["truncated"]) == ("xxxxx", True)


def test_output_is_bounded_where_it_is_held_and_whole_where_it_is_passed_on(server: ServerProcess) -> None:
    code = "import sys\nsys.stdout.write('x' * (17 << 20))"
    answer = server.request("POST", "/code/run", {"code": code}).json()
    assert (len(answer["stdout"]), answer["truncated"], answer["exit_code"]) == (16 << 20, True, 0)
    with Stream(server, "/code/run", {"code": code}) as stream:
        assert sum(len(data) for number, data in stream.frames() if number == 1) == 17 << 20


def test_a_missing_interpreter_is_a_clear_refusal_but_python_is_always_there(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with running_server(tmp_path, policy=POLICY, arguments=["--program-path", str(empty)]) as server:
        reply = server.request("POST", "/code/run", {"code": "1", "language": "node"})
        assert (reply.status, reply.json()["code"], reply.json()["program"]) == (404, "not_found", "node")
        assert server.request("POST", "/code/run", {"code": "print(1)"}).json()["stdout"] == "1\n"
