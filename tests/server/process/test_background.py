"""Commands in the background: the table, whose they are, signals, standard input, captured output."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.messages import Aborted, Refusal
from sandbox_server.process import kernel, table
from sandbox_server.process.pipes import Inlet
from tests.support.waiting import eventually, in_time

from .harness import Bench, Peer, alive, chunks, frames, output, records


def refused(bench: Bench, endpoint: str, fields: dict[str, Any], /, **how: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        bench.ask(endpoint, fields, **how)
    return caught.value


def ended(bench: Bench, key: Any) -> Any:
    """The detail of a process, once it has ended."""
    eventually(lambda: bench.json("process_detail", {"pid": str(key)})["state"] == "exited")
    return bench.json("process_detail", {"pid": str(key)})


def captured(bench: Bench, key: Any, **fields: Any) -> Any:
    return bench.json("process_output", {"pid": str(key), **fields})


def joined(answer: Any, stream: str = "stdout") -> str:
    return "".join(event["data"] for event in answer["events"] if event["stream"] == stream)


def test_a_started_command_is_listed_and_described(bench: Bench) -> None:
    started = bench.start("sleep 60")
    assert started == {"id": started["id"], "pid": started["pid"], "command": "sleep 60"}
    [listed] = bench.json("process_list")["processes"]
    assert listed == {**started, "state": "running", "started_at": pytest.approx(time.time(), abs=60)}
    detail = bench.json("process_detail", {"pid": str(started["pid"])})
    assert detail == {**listed, "exit_code": None, "signal": None, "ended_at": None, "reason": None}
    assert bench.json("process_detail", {"pid": started["id"]}) == detail


@pytest.mark.field(83)
def test_field_083_a_running_process_has_no_exit_code(bench: Bench) -> None:
    assert bench.json("process_detail", {"pid": bench.start("sleep 60")["id"]})["exit_code"] is None


def test_the_exit_code_and_output_survive_the_end_and_any_listing(bench: Bench) -> None:
    started = bench.start("sh -c 'echo out; exit 7'")
    detail = ended(bench, started["pid"])
    assert (detail["exit_code"], detail["signal"], detail["reason"]) == (7, None, "exit")
    assert detail["started_at"] <= detail["ended_at"]
    assert bench.json("process_list") == {"processes": []}
    assert bench.json("process_list", {"all": True})["processes"] == [detail]
    assert joined(captured(bench, started["pid"])) == "out\n"


@pytest.mark.parametrize("endpoint", ["process_detail", "process_output", "process_signal", "process_stdin"])
@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("999999", "process_not_found"),
        ("-5", "process_not_found"),
        ("f" * 32, "process_not_found"),
        ("abc", "invalid_argument"),
        ("12x", "invalid_argument"),
        ("²", "invalid_argument"),
        ("9" * 5000, "invalid_argument"),
        ("--5", "invalid_argument"),
    ],
)
def test_unknown_and_malformed_ids_are_told_apart(bench: Bench, endpoint: str, key: str, code: str) -> None:
    more = {"process_signal": {"signal": 15}, "process_stdin": {"eof": True}}.get(endpoint, {})
    assert refused(bench, endpoint, {"pid": key, **more}).code == code


def test_a_process_belongs_to_who_started_it(bench: Bench) -> None:
    started = bench.start("sh -c 'echo mine; sleep 60'", owner="ann", stdin=True)
    for key in (str(started["pid"]), started["id"]):
        for endpoint, more in [
            ("process_detail", {}),
            ("process_output", {}),
            ("process_signal", {"signal": 9}),
            ("process_stdin", {"data": "x"}),
        ]:
            other = refused(bench, endpoint, {"pid": key, **more}, owner="bob")
            assert other.code == "process_not_found"
    assert bench.json("process_list", {"all": True}, owner="bob") == {"processes": []}
    assert len(bench.json("process_list", owner="ann")["processes"]) == 1
    assert alive(started["pid"])


def test_slots_are_counted_over_all_owners_and_freed_at_the_end(bench: Bench) -> None:
    first = bench.start("sleep 60", owner="ann", limits={"max_processes": 2})
    bench.start("sleep 60", owner="bob", limits={"max_processes": 2})
    refusal = refused(bench, "process_start", {"command": "true"}, limits={"max_processes": 2})
    assert (refusal.status, refusal.code, refusal.reason.type) == (429, "too_many_processes", "ResourceError")
    bench.json("process_signal", {"pid": first["id"], "signal": 9})
    ended(bench, first["id"])
    bench.start("true", limits={"max_processes": 2})


def test_no_policy_lifts_the_ceiling(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "CEILING", 2)
    for _ in range(2):
        bench.start("sleep 60", limits={"max_processes": 1000})
    assert refused(bench, "process_start", {"command": "true"}, limits={"max_processes": None}).status == 429


def test_slots_hold_when_everybody_starts_at_once(bench: Bench) -> None:
    outcomes: list[str] = []

    def start() -> None:
        try:
            bench.start("sleep 60", limits={"max_processes": 5})
            outcomes.append("started")
        except Refusal as refusal:
            outcomes.append(refusal.code)

    threads = [threading.Thread(target=start) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["started"] * 5 + ["too_many_processes"] * 15


@pytest.mark.field(80)
def test_field_080_failed_starts_leave_nothing_behind(bench: Bench) -> None:
    ended(bench, bench.start("true")["id"])
    peer = bench.peer()

    def counts() -> tuple[int, int, int]:
        known = bench.json("process_list", {"all": True}, peer=peer)["processes"]
        return len(os.listdir("/proc/self/fd")), threading.active_count(), len(known)

    script = bench.root / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    before = counts()
    for _ in range(200):
        fields = {"command": str(script), "capture_output": True, "stdin": True}
        assert refused(bench, "process_start", fields, peer=peer).code == "not_found"
        assert refused(bench, "shell", {"command": str(script), "stdin": "x"}, peer=peer).code == "not_found"
    descriptors, threads, known = counts()
    assert (descriptors, known) == (before[0], before[2])
    assert threads <= before[1]  # idle ones of an earlier test may end meanwhile
    bench.start("true", limits={"max_processes": 1})


@pytest.mark.field(79)
def test_field_079_a_thousand_short_processes_leave_no_zombie(bench: Bench) -> None:
    peer = bench.peer()
    for _ in range(1000):
        while True:
            try:
                bench.json("process_start", {"command": "true"}, peer=peer)
                break
            except Refusal as refusal:
                assert refusal.code == "too_many_processes"
                time.sleep(0.01)
    eventually(lambda: not [line for line in kernel.processes() if line.parent == os.getpid() and line.dead])
    eventually(lambda: not bench.json("process_list", peer=peer)["processes"])
    assert len(bench.json("process_list", {"all": True})["processes"]) <= table.KEEP_RECORDS


def test_finished_records_are_kept_for_a_bounded_time_number_and_size(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "KEEP_RECORDS", 3)
    monkeypatch.setattr(table, "KEEP_BYTES", 1000)
    other = bench.start("true", owner="bob")
    keys = []
    for number in range(5):
        keys.append(bench.start(f"echo {number}")["id"])
        ended(bench, keys[-1])
    known = [record["id"] for record in bench.json("process_list", {"all": True})["processes"]]
    assert known == keys[2:]
    assert bench.json("process_list", {"all": True}, owner="bob")["processes"][0]["id"] == other["id"]
    big = bench.start("head -c 997 /dev/zero")["id"]
    ended(bench, big)
    assert [record["id"] for record in bench.json("process_list", {"all": True})["processes"]] == [keys[-1], big]
    monkeypatch.setattr(table, "KEEP_SECONDS", 0.0)
    assert bench.json("process_list", {"all": True}) == {"processes": []}


def test_a_forgotten_record_lets_its_background_children_write_on(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started = bench.start("sh -c '(for i in 1 2 3 4 5 6; do sleep 0.1; echo x; done; touch survived) & true'")
    ended(bench, started["id"])
    monkeypatch.setattr(table, "KEEP_RECORDS", 0)
    assert bench.json("process_list", {"all": True}) == {"processes": []}
    eventually((tmp_path / "survived").exists)


@pytest.mark.field(92)
def test_field_092_background_commands_have_no_default_limit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_server.handlers.starting.DEFAULT_TIMEOUT", 0.05)
    started = bench.start("sh -c 'sleep 0.5; echo done'")
    assert output(bench.follow(started["id"])) == b"done\n"


def test_a_policy_may_bound_their_time(bench: Bench) -> None:
    def run(seconds: float) -> tuple[Any, list[tuple[int, Any]]]:
        started = bench.start("sh -c 'sleep 60 & echo $!; wait'", limits={"timeout_seconds": seconds})
        return started, bench.follow(started["id"])

    started, found = in_time(run, lambda result: output(result[1]))
    assert (found[-1][1]["reason"], found[-1][1]["exit_code"], found[-1][1]["signal"]) == ("timeout", -9, 9)
    assert not alive(int(output(found)))
    assert bench.json("process_detail", {"pid": started["id"]})["reason"] == "timeout"


@pytest.mark.parametrize("number", [2, 9, 15])
def test_a_signal_reaches_the_whole_group(bench: Bench, number: int) -> None:
    started = bench.start("sh -c 'sleep 60 & echo $!; wait'")
    captured(bench, started["id"], wait=20)
    child = int(joined(captured(bench, started["id"])))
    answer = bench.json("process_signal", {"pid": str(started["pid"]), "signal": number})
    assert answer == {"id": started["id"], "pid": started["pid"], "signal": number}
    detail = ended(bench, started["id"])
    assert (detail["exit_code"], detail["signal"]) == (-number, number)
    if number != 2:  # a shell lets its background children ignore the interrupt
        eventually(lambda: not alive(child))


def test_a_process_can_be_stopped_and_continued(bench: Bench) -> None:
    started = bench.start("sleep 60")
    stat = Path(f"/proc/{started['pid']}/stat")
    bench.json("process_signal", {"pid": started["id"], "signal": 20})
    eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
    bench.json("process_signal", {"pid": started["id"], "signal": 18})
    eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S")


@pytest.mark.parametrize("number", [0, 1, 19, -9, 65])
def test_other_signals_are_refused_before_the_process_is_looked_for(bench: Bench, number: int) -> None:
    assert refused(bench, "process_signal", {"pid": "999999", "signal": number}).code == "invalid_argument"


def test_the_policy_narrows_the_signals_and_cannot_widen_them(bench: Bench) -> None:
    params = {"allowed_signals": [1, 15]}
    assert refused(bench, "process_signal", {"pid": "5", "signal": 9}, params=params).code == "signal_not_allowed"
    assert refused(bench, "process_signal", {"pid": "5", "signal": 1}, params=params).code == "invalid_argument"


@pytest.mark.parametrize("pid", ["1", str(os.getpid())])
def test_the_server_and_the_first_process_are_not_signalled(bench: Bench, pid: str) -> None:
    assert refused(bench, "process_signal", {"pid": pid, "signal": 15}).code == "forbidden"


@pytest.mark.parametrize("number", [9, 15])
@pytest.mark.parametrize(
    ("command", "how"),
    [("true", "with exit code 0"), ("sh -c 'exit 3'", "with exit code 3"), ("sh -c 'kill -9 $$'", "by signal 9")],
)
def test_an_ended_process_is_not_signalled(bench: Bench, command: str, how: str, number: int) -> None:
    key = bench.start(command)["id"]
    ended(bench, key)
    refusal = refused(bench, "process_signal", {"pid": key, "signal": number})
    assert (refusal.code, refusal.message) == ("process_not_found", f'process "{key}" has ended {how}')


@pytest.mark.parametrize("number", [9, 15])
def test_what_an_ended_process_left_behind_can_still_be_signalled(bench: Bench, number: int) -> None:
    started = bench.start("sh -c 'sleep 60 & echo $!'")
    ended(bench, started["id"])
    child = int(joined(captured(bench, started["id"])))
    assert alive(child)
    bench.json("process_signal", {"pid": started["id"], "signal": number})
    eventually(lambda: not alive(child))


@pytest.mark.parametrize("number", [9, 15])
def test_a_recycled_pid_is_never_signalled(bench: Bench, number: int) -> None:
    started = bench.start("true")
    ended(bench, started["id"])
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        record = bench.table.find(started["id"], "ann")
        record.pid = record.child.pid = stranger.pid  # as if the kernel had given the number away again
        assert refused(bench, "process_signal", {"pid": started["id"], "signal": number}).code == "process_not_found"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_of_two_records_with_one_pid_the_running_one_is_meant(bench: Bench) -> None:
    old, new = bench.start("true"), bench.start("sleep 60")
    ended(bench, old["id"])
    bench.table.find(new["id"], "ann").pid = old["pid"]
    assert bench.json("process_detail", {"pid": str(old["pid"])})["id"] == new["id"]


@pytest.mark.field(89)
def test_field_089_three_writes_and_a_close_are_counted_exactly(bench: Bench) -> None:
    started = bench.start("wc -c", stdin=True)
    for data in ("abc", "é", ""):
        answer = bench.json("process_stdin", {"pid": started["id"], "data": data})
        assert answer == {
            "id": started["id"], "pid": started["pid"], "written": len(data.encode()), "closed": False,
        }  # fmt: skip
    assert bench.json("process_stdin", {"pid": started["id"], "eof": True})["closed"] is True
    assert output(bench.follow(started["id"])).strip() == b"5"


def test_bytes_win_over_text(bench: Bench) -> None:
    started = bench.start("cat", stdin=True)
    fields = {"pid": started["id"], "data": "abc", "data_base64": b"\0\xff", "eof": True}
    assert bench.json("process_stdin", fields)["written"] == 2
    assert output(bench.follow(started["id"])) == b"\0\xff"


def test_nothing_to_write_is_refused(bench: Bench) -> None:
    started = bench.start("cat", stdin=True)
    assert refused(bench, "process_stdin", {"pid": started["id"]}).code == "invalid_argument"


def test_an_input_that_was_not_asked_for_or_is_closed_is_a_conflict(bench: Bench) -> None:
    without, closed = bench.start("sleep 60"), bench.start("cat", stdin=True)
    assert refused(bench, "process_stdin", {"pid": without["id"], "data": "x"}).code == "conflict"
    bench.json("process_stdin", {"pid": closed["id"], "eof": True})
    assert refused(bench, "process_stdin", {"pid": closed["id"], "data": "x"}).code == "conflict"
    gone = bench.start("true", stdin=True)
    ended(bench, gone["id"])
    assert refused(bench, "process_stdin", {"pid": gone["id"], "data": "x"}).code == "conflict"


def test_a_reader_that_closed_its_input_is_a_conflict(bench: Bench) -> None:
    started = bench.start("sh -c 'exec <&-; echo closed; sleep 60'", stdin=True)
    captured(bench, started["id"], wait=20)
    assert refused(bench, "process_stdin", {"pid": started["id"], "data": "x"}).code == "conflict"


def test_a_process_that_does_not_read_times_out_the_writer_only(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_server.handlers.process._STDIN_PATIENCE", 0.2)
    started = bench.start("sleep 60", stdin=True)
    refusal = refused(bench, "process_stdin", {"pid": started["id"], "data": "x" * 200_000})
    assert refusal.code == "timeout" and 0 < refusal.facts["written"] < 200_000
    assert alive(started["pid"])


def test_a_writer_whose_client_goes_away_gives_up(bench: Bench) -> None:
    started = bench.start("sleep 60", stdin=True)
    peer = bench.peer()
    peer.vanish()
    with pytest.raises(Aborted):
        bench.ask("process_stdin", {"pid": started["id"], "data": "x" * 200_000}, peer=peer)


def test_a_large_input_arrives_in_order_from_one_writer_at_a_time(bench: Bench) -> None:
    started = bench.start("cat", stdin=True, limits={"max_output_bytes": 8 << 20})
    parts = [letter * 500_000 for letter in "abcd"]
    threads = [
        threading.Thread(target=bench.json, args=("process_stdin", {"pid": started["id"], "data": part}))
        for part in parts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bench.json("process_stdin", {"pid": started["id"], "eof": True})
    got = output(bench.follow(started["id"])).decode()
    assert sorted(got[at : at + 500_000] for at in range(0, 2_000_000, 500_000)) == parts


def test_the_end_of_a_process_closes_its_input_under_a_waiting_writer(bench: Bench) -> None:
    started = bench.start("sh -c 'sleep 0.3'", stdin=True)
    refusal = refused(bench, "process_stdin", {"pid": started["id"], "data": "x" * 200_000})
    assert refusal.code == "conflict"
    assert bench.table.find(started["id"], "ann").inlet._descriptor == -1  # type: ignore[union-attr]


def test_a_writer_is_told_of_the_end_also_when_it_comes_just_before_the_waiting() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    inlet = Inlet(writing)

    class Witness(Peer):
        def fileno(self) -> int:
            inlet.close()  # as the supervisor does, while the writer is about to wait for room
            return super().fileno()

    peer = Witness()
    try:
        with pytest.raises(Refusal, match="the standard input is closed") as caught:
            inlet.write(b"x" * 200_000, eof=False, peer=peer, patience=60)
    finally:
        os.close(reading)
        peer.close()
    assert (caught.value.code, caught.value.facts["written"]) == ("conflict", 65536)


@pytest.mark.finding("R-A1")
def test_output_is_read_by_sequence_number(bench: Bench) -> None:
    started = bench.start("sh -c 'echo out; read line; echo err >&2; sleep 60'", stdin=True)
    first = captured(bench, started["id"], wait=20)
    assert first == {
        "id": started["id"], "pid": started["pid"], "events": [{"seq": 0, "stream": "stdout", "data": "out\n"}],
        "next": 1, "state": "running", "exit_code": None, "signal": None, "dropped": False,
    }  # fmt: skip
    bench.json("process_stdin", {"pid": started["id"], "data": "\n"})
    second = captured(bench, started["id"], wait=20, since=1)
    assert second["events"] == [{"seq": 1, "stream": "stderr", "data": "err\n"}]
    assert captured(bench, started["id"], since=-4)["events"] == [*first["events"], *second["events"]]
    for beyond in (2, 99, 10**30):
        assert captured(bench, started["id"], since=beyond)["events"] == []
        assert captured(bench, started["id"], since=beyond)["next"] == 2


@pytest.mark.field(73)
def test_field_073_exited_means_that_all_output_is_there(bench: Bench) -> None:
    for _ in range(15):
        started = bench.start("sh -c 'seq 1 20000; exit 3'")
        text, since, answer = "", 0, {"state": "running"}
        while answer["state"] == "running":
            answer = captured(bench, started["id"], since=since, wait=20)
            text += joined(answer)
            since = answer["next"]
        assert answer["exit_code"] == 3
        assert text == "".join(f"{number}\n" for number in range(1, 20_001))


@pytest.mark.parametrize("wait", [0, -1, 20, float("nan")])
def test_waiting_ends_with_the_process(bench: Bench, wait: float) -> None:
    started = bench.start("true")
    ended(bench, started["id"])
    answer = captured(bench, started["id"], wait=wait)
    assert (answer["state"], answer["exit_code"], answer["events"]) == ("exited", 0, [])


def test_waiting_ends_when_the_time_is_up(bench: Bench) -> None:
    started = bench.start("sleep 60")
    assert captured(bench, started["id"], wait=0.05)["events"] == []


def test_waiting_ends_when_the_client_goes_away(bench: Bench) -> None:
    started, peer = bench.start("sleep 60"), bench.peer()
    peer.vanish()
    with pytest.raises(Aborted):
        bench.json("process_output", {"pid": started["id"], "wait": 30}, peer=peer)
    assert alive(started["pid"])


def test_output_that_is_not_captured_is_a_conflict(bench: Bench) -> None:
    started = bench.start("sleep 60", capture_output=False)
    assert refused(bench, "process_output", {"pid": started["id"]}).code == "conflict"


def test_an_uncaptured_command_ends_like_any_other(bench: Bench) -> None:
    assert ended(bench, bench.start("sh -c 'echo lost; exit 4'", capture_output=False)["id"])["exit_code"] == 4


@pytest.mark.field(55)
def test_field_055_captured_bytes_that_are_no_text_are_flagged(bench: Bench) -> None:
    started = bench.start(r"printf '\377\n'")
    ended(bench, started["id"])
    [event] = captured(bench, started["id"])["events"]
    assert event == {"seq": 0, "stream": "stdout", "data": "\ufffd\n", "encoding_errors": True}
    assert output(bench.follow(started["id"])) == b"\xff\n"


@pytest.mark.finding("R-A1")
@pytest.mark.field(58)
def test_field_058_a_flood_stays_within_the_ring_and_the_process_runs_on(bench: Bench) -> None:
    started = bench.start("sh -c 'head -c 30000000 /dev/zero; echo end'", limits={"max_output_bytes": 10_000})
    ended(bench, started["id"])
    answer = captured(bench, started["id"])
    assert answer["dropped"] is True
    assert joined(answer).endswith("\0end\n") and len(joined(answer)) <= 10_000


@pytest.mark.field(68)
def test_field_068_following_needs_the_framed_form(bench: Bench) -> None:
    started = bench.start("sleep 60")
    assert refused(bench, "process_output", {"pid": started["id"], "follow": True}).code == "invalid_argument"


def test_following_ends_with_the_process_and_tells_how(bench: Bench) -> None:
    started = bench.start("sh -c 'echo one; sleep 0.2; echo two >&2; exit 5'")
    found = bench.follow(started["pid"], digest=True)
    assert found[0] == (3, {"kind": "start", "id": started["id"], "pid": started["pid"], "stdout": 0, "stderr": 0})
    assert (output(found, 1), output(found, 2)) == (b"one\n", b"two\n")
    end = found[-1][1]
    assert (end["kind"], end["exit_code"], end["signal"], end["reason"]) == ("end", 5, None, "exit")
    assert (end["stdout"], end["stderr"], len(end["sha256"]["stdout"])) == (4, 4, 64)


@pytest.mark.finding("R-A1")
@pytest.mark.field(64)
def test_field_064_attaching_again_and_again_misses_nothing_and_repeats_nothing(bench: Bench) -> None:
    started = bench.start("sh -c 'seq 1 30000; sleep 0.2; seq 30001 60000'", limits={"max_output_bytes": 4 << 20})
    got = b""
    ends: list[Any] = []
    while not ends:
        fields = {"pid": started["id"], "follow": True, "stdout_from": len(got)}
        body = chunks(bench.ask("process_output", fields, framed=True))
        for block in body:
            found = frames(block)
            got += output(found)
            ends += records(found, "end")
            assert not records(found, "gap")
            if output(found) and len(got) % 3:  # hang up in the middle, at no special place
                break
        body.close()  # type: ignore[attr-defined]
    assert got == b"".join(b"%d\n" % number for number in range(1, 60_001))
    assert ends[0]["stdout"] == len(got)


def test_a_reader_that_is_too_slow_is_told_exactly_what_it_missed(bench: Bench) -> None:
    started = bench.start(
        "sh -c 'echo first; read line; seq 1 100000; read line'", stdin=True, limits={"max_output_bytes": 5000}
    )
    body = chunks(bench.ask("process_output", {"pid": started["id"], "follow": True}, framed=True))
    got = frames(next(body)) + frames(next(body))
    bench.json("process_stdin", {"pid": started["id"], "data": "\n"})
    expected = b"first\n" + b"".join(b"%d\n" % number for number in range(1, 100_001))
    record = bench.table.find(started["id"], "ann")
    eventually(lambda: record.ring.written[1] == len(expected))  # type: ignore[union-attr]
    bench.json("process_stdin", {"pid": started["id"], "eof": True})
    rest = frames(b"".join(body))
    [gap] = records(rest, "gap")
    assert (gap["stream"], gap["from"]) == ("stdout", 6)
    assert output(got + rest) == b"first\n" + expected[gap["to"] :]
    assert rest[-1][1]["stdout"] == len(expected)


@pytest.mark.field(62)
def test_field_062_a_follower_that_stops_reading_hinders_nobody(bench: Bench) -> None:
    started = bench.start("sh -c 'read line; seq 1 200000'", stdin=True, limits={"max_output_bytes": 4 << 20})
    sleeper = chunks(bench.ask("process_output", {"pid": started["id"], "follow": True}, framed=True))
    dead = chunks(bench.ask("process_output", {"pid": started["id"], "follow": True}, framed=True))
    next(sleeper)
    next(dead)
    dead.close()  # type: ignore[attr-defined]
    bench.json("process_stdin", {"pid": started["id"], "data": "\n"})
    found = bench.follow(started["id"])
    expected = b"".join(b"%d\n" % number for number in range(1, 200_001))
    assert output(found) == expected
    assert output(frames(b"".join(sleeper))) == expected


@pytest.mark.finding("R-A3")
@pytest.mark.field(86)
def test_field_086_closing_or_losing_a_follower_never_ends_the_process(bench: Bench) -> None:
    started, peer = bench.start("sh -c 'echo up; sleep 60'"), bench.peer()
    fields = {"pid": started["id"], "follow": True}
    body = chunks(bench.ask("process_output", fields, framed=True))
    next(body)
    body.close()  # type: ignore[attr-defined]
    lost = chunks(bench.ask("process_output", fields, framed=True, peer=peer))
    assert b"up\n" in next(lost) + next(lost)
    peer.vanish()
    with pytest.raises(Aborted):
        next(lost)
    assert alive(started["pid"])


@pytest.mark.field(86)
def test_field_086_a_follower_of_a_killed_process_is_told(bench: Bench) -> None:
    started = bench.start("sleep 60")
    body = chunks(bench.ask("process_output", {"pid": started["id"], "follow": True}, framed=True))
    next(body)
    bench.json("process_signal", {"pid": started["id"], "signal": 9})
    end = frames(b"".join(body))[-1][1]
    assert (end["exit_code"], end["signal"], end["reason"]) == (-9, 9, "exit")


def test_silence_of_a_followed_process_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_server.handlers.output.HEARTBEAT", 0.02)
    started = bench.start("cat", stdin=True)
    heard = 0
    for block in chunks(bench.ask("process_output", {"pid": started["id"], "follow": True}, framed=True)):
        heard += len(records(frames(block), "heartbeat"))
        if heard >= 2:
            bench.json("process_stdin", {"pid": started["id"], "eof": True})
            break
    assert records(bench.follow(started["id"]), "end")[0]["exit_code"] == 0


def test_a_held_output_ends_the_following_with_a_note(bench: Bench) -> None:
    started = bench.start("sh -c 'sleep 60 & echo hi; exit 3'")
    found = bench.follow(started["id"])
    assert output(found) == b"hi\n"
    assert [record["kind"] for stream, record in found if stream == 3] == ["start", "held", "end"]
    assert captured(bench, started["id"])["state"] == "exited"


def test_a_snapshot_says_that_the_process_still_runs(bench: Bench) -> None:
    started = bench.start("sh -c 'echo out; sleep 60'")
    response = bench.ask("process_output", {"pid": started["id"], "wait": 20}, framed=True)
    found = frames(b"".join(chunks(response)))
    assert output(found) == b"out\n"
    assert (found[-1][1]["exit_code"], found[-1][1]["reason"], found[-1][1]["stdout"]) == (None, "running", 4)
    later = bench.ask("process_output", {"pid": started["id"], "stdout_from": 4, "stderr_from": -7}, framed=True)
    found = frames(b"".join(chunks(later)))
    assert [record["kind"] for _, record in found] == ["start", "end"]
    assert (found[0][1]["stdout"], found[0][1]["stderr"]) == (4, 0)
