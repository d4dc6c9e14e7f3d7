"""A command's output as it comes."""

from __future__ import annotations

import hashlib
import itertools
import os
import resource
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.messages import FRAMES_TYPE, SSE_TYPE, Aborted, Refusal
from sandbox_server.process import kernel
from sandbox_server.process.stopping import stop
from tests.support.waiting import eventually, in_time

from .harness import Bench, alive, chunks, frames, output, records, sse


def test_lines_then_the_exit(bench: Bench) -> None:
    assert bench.events("sh -c 'echo one; echo two; exit 2'") == [
        ("stdout", {"data": "one"}),
        ("stdout", {"data": "two"}),
        ("exit", {"exit_code": 2, "signal": None}),
    ]
    assert bench.events("sh -c 'echo bad >&2'")[0] == ("stderr", {"data": "bad"})


def test_carriage_returns_are_kept_by_the_line(bench: Bench) -> None:
    assert bench.events(r"printf 'a\rb\r\n'")[0] == ("stdout", {"data": "a\rb\r"})


def test_a_timeout_is_an_error_event_and_a_kill(bench: Bench) -> None:
    def run(seconds: float) -> list[tuple[str, Any]]:
        fields = {"command": "sh -c 'echo so far; sleep 60'", "timeout": seconds}
        return sse(b"".join(chunks(bench.ask("shell_stream", fields))))

    assert in_time(run, lambda events: events[0][0] == "stdout") == [
        ("stdout", {"data": "so far"}),
        ("error", {"error": "timeout"}),
        ("exit", {"exit_code": -9, "signal": 9}),
    ]


def test_the_line_that_crosses_the_limit_is_not_sent(bench: Bench) -> None:
    assert bench.events("sh -c 'echo 12345; echo 67890; sleep 60'", limits={"max_output_bytes": 8}) == [
        ("stdout", {"data": "12345"}),
        ("error", {"error": "output_limit"}),
        ("exit", {"exit_code": -9, "signal": 9}),
    ]


def test_an_unterminated_line_that_crosses_the_limit_is_told_too(bench: Bench) -> None:
    assert bench.events("printf 1234567890", limits={"max_output_bytes": 8}) == [
        ("error", {"error": "output_limit"}),
        ("exit", {"exit_code": 0, "signal": None}),
    ]


def test_what_cannot_be_started_is_one_error_event(bench: Bench) -> None:
    [(name, facts)] = bench.events("definitely-not-a-binary-x")
    assert name == "error" and facts["code"] == "not_found" and "definitely-not-a-binary-x" in facts["error"]


def test_what_cannot_be_started_is_refused_in_the_framed_form(bench: Bench) -> None:
    with pytest.raises(Refusal) as caught:
        bench.frames("definitely-not-a-binary-x")
    assert caught.value.status == 404


def test_other_refusals_come_before_any_stream(bench: Bench) -> None:
    bench.table.close(grace=0)
    with pytest.raises(Refusal) as caught:
        bench.events("true")
    assert caught.value.code == "busy"


@pytest.mark.field(70)
@pytest.mark.field(71)
@pytest.mark.parametrize(("framed", "kind"), [(True, FRAMES_TYPE), (False, SSE_TYPE)])
def test_field_070_the_first_bytes_come_at_once_and_nobody_on_the_way_stores_them(
    bench: Bench, framed: bool, kind: str
) -> None:
    response = bench.ask("shell_stream", {"command": "sleep 60"}, framed=framed)
    headers = dict(response.headers)
    assert headers["Content-Type"] == kind
    assert headers["Cache-Control"] == "no-store"
    first = next(chunks(response))
    assert first.startswith(b":") or records(frames(first), "start")


def test_silence_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_server.handlers.shell.HEARTBEAT", 0.02)
    text = "sh -c 'until [ -e {0} ]; do sleep 0.02; done; echo {0}'"
    told = b""
    for block in chunks(bench.ask("shell_stream", {"command": text.format("framed")}, framed=True)):
        told += block
        if len(records(frames(told), "heartbeat")) == 2:
            (bench.root / "framed").touch()
    assert output(frames(told)) == b"framed\n"
    told = b""
    for block in chunks(bench.ask("shell_stream", {"command": text.format("events")})):
        told += block
        if told.count(b":\n\n") >= 2:
            (bench.root / "events").touch()
    assert sse(told)[0] == ("stdout", {"data": "events"})


def test_frames_carry_exact_bytes_and_an_end_with_the_facts(bench: Bench) -> None:
    found = bench.frames(r"sh -c 'printf \\377\\r\\n; printf \\0 >&2; exit 7'", {"digest": True})
    [start] = records(found, "start")
    assert (start["stdout"], start["stderr"], len(start["id"])) == (0, 0, 32)
    assert output(found, 1) == b"\xff\r\n" and output(found, 2) == b"\0"
    assert found[-1][1] == {
        "kind": "end", "exit_code": 7, "signal": None, "reason": "exit", "truncated": False, "stdout": 3, "stderr": 1,
        "sha256": {"stdout": hashlib.sha256(b"\xff\r\n").hexdigest(), "stderr": hashlib.sha256(b"\0").hexdigest()},
    }  # fmt: skip


@pytest.mark.parametrize(("text", "code", "number"), [("sh -c 'kill $$'", -15, 15), ("sh -c 'kill -9 $$'", -9, 9)])
def test_the_end_names_the_signal(bench: Bench, text: str, code: int, number: int) -> None:
    end = bench.frames(text)[-1][1]
    assert (end["exit_code"], end["signal"], end["sha256"]) == (code, number, None)


def test_a_framed_timeout_has_its_reason(bench: Bench) -> None:
    found = in_time(lambda seconds: bench.frames("sh -c 'echo so far; sleep 60'", {"timeout": seconds}), output)
    assert output(found) == b"so far\n"
    assert (found[-1][1]["reason"], found[-1][1]["exit_code"]) == ("timeout", -9)


def test_a_framed_output_limit_is_exact(bench: Bench) -> None:
    found = bench.frames("yes", limits={"max_output_bytes": 100_001})
    assert len(output(found)) == 100_001
    assert (found[-1][1]["reason"], found[-1][1]["truncated"], found[-1][1]["stdout"]) == (
        "output_limit", True, 100_001,
    )  # fmt: skip


@pytest.mark.field(56)
def test_field_056_ten_megabytes_without_a_newline_pass(bench: Bench) -> None:
    found = bench.frames("head -c 10000000 /dev/zero")
    assert output(found) == bytes(10_000_000)
    assert max(len(payload) for stream, payload in found if stream == 1) <= 1 << 16


@pytest.mark.field(59)
def test_field_059_frames_keep_blank_lines(bench: Bench) -> None:
    assert output(bench.frames(r"printf 'a\n\nb\n\n\nc'")) == b"a\n\nb\n\n\nc"


@pytest.mark.field(65)
@pytest.mark.parametrize("size", range(1, 9))
def test_field_065_a_short_last_frame_arrives(bench: Bench, size: int) -> None:
    found = bench.frames(f"sh -c 'echo first; sleep 0.05; printf {'x' * size}'")
    assert output(found) == b"first\n" + b"x" * size


@pytest.mark.field(73)
def test_field_073_no_line_is_lost_before_the_end(bench: Bench) -> None:
    expected = b"".join(b"%d\n" % number for number in range(1, 100_001))
    for _ in range(15):
        found = bench.frames("sh -c 'seq 1 100000; exit 3'")
        assert output(found) == expected
        assert found[-1][1]["exit_code"] == 3


@pytest.mark.field(76)
def test_field_076_a_held_output_is_told_before_the_end(bench: Bench) -> None:
    found = bench.frames("sh -c 'sleep 60 & echo hi; exit 3'")
    assert output(found) == b"hi\n"
    assert [record["kind"] for stream, record in found if stream == 3] == ["start", "held", "end"]
    assert found[-1][1]["exit_code"] == 3


def test_a_slow_reader_of_an_ended_command_gets_everything_and_no_false_alarm(bench: Bench) -> None:
    text = "sh -c 'echo 1; sleep 0.1; (sleep 0.2; echo 3) & echo $! >pid; echo 2'"
    body = chunks(bench.ask("shell_stream", {"command": text}, framed=True))
    got = [next(body), next(body)]
    time.sleep(1.0)  # for longer than an output may stay open after the end
    eventually(lambda: (bench.root / "pid").exists() and (bench.root / "pid").read_text())
    background = int((bench.root / "pid").read_text())
    eventually(lambda: not alive(background) and not alive(records(frames(got[0]), "start")[0]["pid"]))
    found = frames(b"".join([*got, *body]))
    assert output(found) == b"1\n2\n3\n"
    assert not records(found, "held")


@pytest.mark.field(62)
def test_field_062_a_reader_that_stops_blocks_the_command_and_loses_nothing(bench: Bench, tmp_path: Path) -> None:
    text = "sh -c 'head -c 5000000 /dev/zero; touch done'"
    body = chunks(bench.ask("shell_stream", {"command": text}, framed=True))
    got = [next(body), next(body)]
    time.sleep(0.5)
    assert not (tmp_path / "done").exists()
    assert len(output(frames(b"".join([*got, *body])))) == 5_000_000
    assert (tmp_path / "done").exists()


def test_a_reader_that_stops_does_not_prolong_the_command(bench: Bench) -> None:
    body = chunks(bench.ask("shell_stream", {"command": "yes", "timeout": 0.3}, framed=True))
    pid = records(frames(next(body)), "start")[0]["pid"]
    eventually(lambda: not alive(pid))  # nobody reads meanwhile
    assert frames(b"".join(body))[-1][1]["reason"] == "timeout"


@pytest.mark.field(58)
def test_field_058_a_large_output_leaves_memory_alone(bench: Bench) -> None:
    body = chunks(bench.ask("shell_stream", {"command": "head -c 200000000 /dev/zero"}, framed=True))
    size = sum(map(len, itertools.islice(body, 100)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    size += sum(map(len, body))
    assert size > 200_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 << 10  # KiB


def test_many_short_lines_come_in_large_blocks(bench: Bench) -> None:
    blocks = list(chunks(bench.ask("shell_stream", {"command": "seq 1 100000"})))
    events = sse(b"".join(blocks))
    assert [facts["data"] for name, facts in events[:-1]] == [str(number) for number in range(1, 100_001)]
    assert len(blocks) < 2000


@pytest.mark.finding("R-A3")
@pytest.mark.field(130)
@pytest.mark.parametrize("framed", [True, False])
def test_field_130_closing_the_stream_ends_the_command_and_its_children(bench: Bench, framed: bool) -> None:
    response = bench.ask("shell_stream", {"command": "sh -c 'echo $$; sleep 60 & echo $!; wait'"}, framed=framed)
    body = chunks(response)
    got = b""
    while got.count(b"\n") < 2 + (0 if framed else 6):
        got += next(body)
    pids = (
        [int(word) for word in output(frames(got)).split()]
        if framed
        else [int(facts["data"]) for name, facts in sse(got)]
    )
    assert len(pids) == 2 and all(map(alive, pids))
    body.close()  # type: ignore[attr-defined]
    eventually(lambda: not any(map(alive, pids)))
    body.close()  # type: ignore[attr-defined]


@pytest.mark.finding("R-A3")
def test_a_stream_that_was_never_read_is_stopped_with_its_response(bench: Bench) -> None:
    bench.ask("shell_stream", {"command": "sh -c 'echo $$ >pid; exec sleep 60'"}, framed=True)
    eventually(lambda: (bench.root / "pid").exists() and (bench.root / "pid").read_text())
    pid = int((bench.root / "pid").read_text())
    deferred = bench.calls[-1].deferred
    while deferred:
        deferred.pop()()
    eventually(lambda: not alive(pid))


@pytest.mark.parametrize("framed", [True, False])
def test_a_vanished_peer_ends_a_silent_command(bench: Bench, framed: bool) -> None:
    def children() -> set[int]:
        return {line.pid for line in kernel.processes() if line.parent == os.getpid() and line.session == line.pid}

    before, peer = children(), bench.peer()
    body = chunks(bench.ask("shell_stream", {"command": "sleep 60"}, framed=framed, peer=peer))
    next(body)
    [child] = children() - before
    peer.vanish()
    with pytest.raises(Aborted):
        next(body)
    eventually(lambda: not alive(child))


def test_a_command_that_ignores_the_polite_signal_is_killed_after_a_grace(bench: Bench) -> None:
    text = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 0.05; done'"
    body = chunks(bench.ask("shell_stream", {"command": text}, framed=True))
    next(body)
    pid = int(output(frames(next(body))))
    body.close()  # type: ignore[attr-defined]
    eventually(lambda: not alive(pid))


def test_a_command_may_use_the_grace_to_tidy_up(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_server.process.run.stop", partial(stop, grace=60))
    text = "sh -c 'sh tidy.sh; true'"
    (tmp_path / "tidy.sh").write_text(
        "trap 'sleep 0.3; touch tidied; exit' TERM\necho $$\nwhile :; do sleep 0.05; done\n"
    )
    body = chunks(bench.ask("shell_stream", {"command": text}, framed=True))
    next(body)
    next(body)
    body.close()  # type: ignore[attr-defined]
    eventually((tmp_path / "tidied").exists)  # although the leader was gone at once
