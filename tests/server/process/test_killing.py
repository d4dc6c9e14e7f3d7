"""Nothing that a command started outlives its killing, and no zombie stays."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandbox_server.messages import Refusal
from sandbox_server.process import children as children_module
from sandbox_server.process import kernel
from sandbox_server.process.children import Child, Children
from sandbox_server.process.exits import Exit
from sandbox_server.process.spawn import Launch
from sandbox_server.process.supervisor import Supervisor
from tests.support.waiting import eventually

from .harness import Bench, alive, chunks, frames, output

#: Starts 2**depth sleepers, each in a session of its own.
BOMB = """
if [ $1 -gt 0 ]; then
    setsid sh bomb.sh $(($1 - 1)) >/dev/null 2>&1 &
    setsid sh bomb.sh $(($1 - 1)) >/dev/null 2>&1 &
fi
echo $$ >>pids
exec sleep 600
"""


def pids_in(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


@pytest.fixture
def adopting(bench: Bench) -> Iterator[Bench]:
    """A table that gets the orphans, as in a real server."""
    libc = ctypes.CDLL(None)
    before = signal.signal(signal.SIGCHLD, lambda *_: bench.table.reap())
    assert bench.table.adopt_orphans()
    yield bench
    bench.table.close(grace=0)
    signal.signal(signal.SIGCHLD, before)
    libc.prctl(36, 0, 0, 0, 0)


def zombies() -> list[kernel.Stat]:
    return [line for line in kernel.processes() if line.parent == os.getpid() and line.dead]


@pytest.mark.field(77)
@pytest.mark.parametrize("script", ["sleep 600 & sleep 600 & echo $$ $!; wait", "(sleep 600 & echo $$ $! & wait)"])
def test_field_077_a_timeout_leaves_no_grandchild(bench: Bench, script: str) -> None:
    refusal = bench.cut(f"sh -c '{script}'", lambda refusal: refusal.facts["stdout"])
    pids = [int(word) for word in refusal.facts["stdout"].split()]
    assert len(pids) == 2 and not any(map(alive, pids))


@pytest.mark.field(77)
@pytest.mark.parametrize("adopt", [False, True])
def test_field_077_grandchildren_in_other_sessions_are_gone_too(
    request: pytest.FixtureRequest, bench: Bench, adopt: bool
) -> None:
    if adopt:
        request.getfixturevalue("adopting")
    # Detached twice: their own session, an orphan, no output of ours, an empty environment for one of them.
    script = (
        "(setsid sh -c \"echo \\$\\$ >a; exec sleep 600\" >/dev/null 2>&1 &); "
        "(setsid sh -c \"(sh -c \\\"echo \\\\\\$\\\\\\$ >b; exec sleep 600\\\" &)\" >/dev/null 2>&1 &); "
        "setsid env -i sh -c \"echo \\$\\$ >c; exec sleep 600\" >/dev/null 2>&1 & sleep 600"
    )  # fmt: skip

    def pids() -> list[int]:
        return [pid for name in "abc" for pid in pids_in(bench.root / name)]

    bench.cut(f"sh -c 'rm -f a b c; {script}'", lambda _: len(pids()) == 3)
    assert len(pids()) == 3 and not any(map(alive, pids()))


@pytest.mark.field(77)
@pytest.mark.parametrize("way", ["timeout", "signal", "limit"])
def test_field_077_a_fork_bombs_worth_of_grandchildren_is_gone_after_a_kill(bench: Bench, way: str) -> None:
    (bench.root / "bomb.sh").write_text(BOMB)
    pids = bench.root / "pids"
    if way == "timeout":
        bench.cut("sh -c 'rm -f pids; sh bomb.sh 6'", lambda _: len(pids_in(pids)) > 10)
    elif way == "signal":
        started = bench.start("sh bomb.sh 6")
        eventually(lambda: len(pids_in(pids)) > 60)
        bench.json("process_signal", {"pid": started["id"], "signal": 9})
    else:
        enough = "[ $(wc -l <pids) -gt 20 ]"
        (bench.root / "loud.sh").write_text(f">pids\nsh bomb.sh 5 &\nuntil {enough}; do sleep 0.05; done\nexec yes\n")
        found = bench.frames("sh loud.sh", limits={"max_output_bytes": 1000})
        assert found[-1][1]["reason"] == "output_limit"
    assert len(pids_in(pids)) > 10
    assert not [pid for pid in pids_in(pids) if alive(pid)]


# Two generations away, in a session of its own, with an empty environment and no output of ours.
HIDDEN = 'setsid env -i sh -c "(sh -c \\"echo \\\\\\$\\\\\\$ >hidden; exec sleep 600\\" &)" >/dev/null 2>&1 &'


@pytest.mark.field(77)
def test_field_077_a_timeout_leaves_nobody_who_has_shed_everything(adopting: Bench) -> None:
    hidden = adopting.root / "hidden"
    adopting.cut(f"sh -c 'rm -f hidden; {HIDDEN} sleep 600'", lambda _: pids_in(hidden))
    (pid,) = pids_in(hidden)
    assert not alive(pid)


@pytest.mark.field(77)
def test_field_077_such_a_one_is_killed_after_the_command_has_ended_and_no_other_is(adopting: Bench) -> None:
    first = adopting.start(f"sh -c '{HIDDEN}'")
    eventually(lambda: pids_in(adopting.root / "hidden"))
    (pid,) = pids_in(adopting.root / "hidden")
    second = adopting.start("sleep 600")
    for process in (second, first):
        assert alive(pid)
        assert adopting.json("process_signal", {"pid": process["id"], "signal": 9})["signal"] == 9
    eventually(lambda: not alive(pid))


def test_shutting_down_leaves_nothing_however_it_hid(adopting: Bench) -> None:
    bench = adopting
    (bench.root / "bomb.sh").write_text(BOMB)
    bench.json("shell", {"command": f"sh -c '{HIDDEN}'"})
    stubborn = bench.start("sh -c 'trap \"\" TERM; echo up; while :; do sleep 0.05; done'")
    bench.json("process_output", {"pid": stubborn["id"], "wait": 20})
    bench.start("sh bomb.sh 4")
    body = chunks(bench.ask("shell_stream", {"command": "sh -c 'echo up; sleep 600'"}, framed=True))
    got = next(body) + next(body)
    eventually(lambda: len(pids_in(bench.root / "pids")) > 15 and pids_in(bench.root / "hidden"))
    bench.table.close(grace=3)  # all of it, for the stubborn one; who is to end by itself must have the time
    pids = [*pids_in(bench.root / "pids"), *pids_in(bench.root / "hidden"), stubborn["pid"]]
    assert not [pid for pid in pids if alive(pid)]
    found = frames(got + b"".join(body))
    assert output(found) == b"up\n"
    assert (found[-1][1]["reason"], found[-1][1]["signal"]) == ("shutdown", 15)
    with pytest.raises(Refusal) as caught:
        bench.start("true")
    assert caught.value.code == "busy"


def test_shutting_down_lets_a_command_tidy_up(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "tidy.sh").write_text(
        "trap 'sleep 0.2; touch tidied; exit' TERM\necho up\nwhile :; do sleep 0.05; done\n"
    )
    started = bench.start("sh tidy.sh")
    bench.json("process_output", {"pid": started["id"], "wait": 20})
    bench.table.close(grace=20)
    assert (tmp_path / "tidied").exists()
    assert not alive(started["pid"])


@pytest.mark.field(79)
def test_field_079_orphans_are_adopted_and_reaped_without_touching_anybody_elses_status(adopting: Bench) -> None:
    helpers = []
    for number in range(30):
        # The server's own helper, which ends at once and is asked much later.
        helpers.append(subprocess.Popen(["sh", "-c", f"exit {number}"]))
        answer = adopting.json(
            "shell", {"command": f"sh -c '(setsid sleep 0.0{number} >/dev/null 2>&1 &); exit {number}'"}
        )
        assert answer["exit_code"] == number
    assert [helper.wait() for helper in helpers] == list(range(30))
    adopting.json("shell", {"command": "true"})
    eventually(lambda: not zombies())


def test_what_the_program_around_the_server_starts_at_that_moment_is_not_taken_for_the_commands(bench: Bench) -> None:
    child = _sleeper(bench)
    with kernel.stamping(child._stamp), subprocess.Popen(["sleep", "600"]) as theirs:
        assert f" {child._stamp} " in Path(f"/proc/{theirs.pid}/limits").read_text()
        assert child.kill()
        assert theirs.poll() is None
        theirs.kill()
    assert child.wait(20) == Exit(-9)
    child.discard()


def test_marks_of_two_servers_in_one_program_are_never_mixed_up() -> None:
    before = resource.getrlimit(resource.RLIMIT_RTTIME)
    inside, left = threading.Event(), threading.Event()

    def other() -> None:
        with kernel.stamping(2 << 60):
            inside.set()
            left.wait(20)

    thread = threading.Thread(target=other)
    with kernel.stamping(1 << 60):
        thread.start()
        inside.wait(0.1)  # in vain
        assert resource.getrlimit(resource.RLIMIT_RTTIME)[0] == 1 << 60
    left.set()
    thread.join()
    assert inside.is_set()
    assert resource.getrlimit(resource.RLIMIT_RTTIME) == before


def test_an_end_that_somebody_else_takes_in_at_that_moment_is_none_of_ours(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As other threads do where a program with children of its own runs the server."""
    theirs = subprocess.Popen(["sh", "-c", "exit 3"])
    os.waitid(os.P_PID, theirs.pid, os.WEXITED | os.WNOWAIT)
    asked = []

    def session_of(pid: int) -> int:
        asked.append((pid, theirs.wait()))
        return real(pid)

    real = os.getsid
    monkeypatch.setattr("os.getsid", session_of)
    assert bench.table.adopt_orphans()
    bench.table.reap()
    assert asked == [(theirs.pid, 3)]


def test_an_end_that_nobody_else_asks_for_keeps_no_orphan_a_zombie(adopting: Bench) -> None:
    """As in a program that has started something of its own, and then runs the server until it is stopped."""
    theirs = subprocess.Popen(["sh", "-c", "exit 3"])
    os.waitid(os.P_PID, theirs.pid, os.WEXITED | os.WNOWAIT)
    for _ in range(3):
        adopting.json("shell", {"command": "sh -c '(setsid true >/dev/null 2>&1 &)'"})
    eventually(lambda: [line.pid for line in zombies()] == [theirs.pid])
    assert theirs.wait() == 3


def test_orphans_wait_while_a_child_is_being_stopped_and_are_reaped_then(adopting: Bench) -> None:
    started = adopting.start("sh -c 'trap \"\" TERM; sleep 600'")
    record = adopting.table.find(started["id"], "ann")
    record.child.pinned = True
    os.kill(record.pid, signal.SIGKILL)
    adopting.json("shell", {"command": "sh -c '(setsid true >/dev/null 2>&1 &)'"})
    eventually(lambda: not zombies())
    eventually(lambda: not record.running)
    assert record.exit is not None and record.exit.code == -9


def test_reaping_is_safe_at_any_moment_in_any_thread(adopting: Bench) -> None:
    done = threading.Event()

    def reap() -> None:
        while not done.is_set():
            adopting.table.reap()
            os.kill(os.getpid(), signal.SIGCHLD)
            done.wait(0.001)

    thread = threading.Thread(target=reap)
    thread.start()
    try:
        for number in range(200):
            assert adopting.json("shell", {"command": f"sh -c 'exit {number % 100}'"})["exit_code"] == number % 100
    finally:
        done.set()
        thread.join()
    eventually(lambda: not zombies())


def test_a_status_that_somebody_else_took_is_unknown(bench: Bench) -> None:
    child = _sleeper(bench)
    os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
    assert child.wait(20) == Exit(None)
    assert child.exit() == Exit(None) and Exit(None).signal is None
    child.discard()


def test_without_pidfds_ends_are_noticed_and_kills_reach_everybody(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("os.pidfd_open")
    assert bench.json("shell", {"command": "sh -c 'exit 3'"})["exit_code"] == 3
    started = bench.start("sh -c '(setsid sh -c \"echo \\$\\$; exec sleep 600\" &); sleep 600'")
    bench.json("process_output", {"pid": started["id"], "wait": 20})
    pid = int(bench.json("process_output", {"pid": started["id"]})["events"][0]["data"])
    bench.json("process_signal", {"pid": started["id"], "signal": 9})
    eventually(lambda: not alive(pid) and not alive(started["pid"]))
    eventually(lambda: not bench.table.find(started["id"], "ann").running)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_where_pidfds_are_forbidden_ends_are_noticed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr("os.pidfd_open", lambda pid: _fail(number))
    assert bench.json("shell", {"command": "sh -c 'exit 3'"})["exit_code"] == 3


def test_out_of_descriptors_right_after_the_start_leaves_no_process(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = bench.peer()
    bench.ask("shell", {"command": "true"}, peer=peer)
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(children_module, "exit_descriptor", lambda pid: _fail(errno.EMFILE))
    with pytest.raises(Refusal) as caught:
        bench.ask("shell", {"command": "sh -c 'echo $$ >pid; exec sleep 600'"}, peer=peer)
    assert caught.value.code == "busy"
    assert len(os.listdir("/proc/self/fd")) == before
    assert not [pid for pid in pids_in(bench.root / "pid") if alive(pid)]
    assert not zombies()


def test_out_of_descriptors_before_the_start_is_busy(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.pipe", lambda: _fail(errno.EMFILE))
    with pytest.raises(Refusal) as caught:
        bench.ask("shell", {"command": "true"})
    assert caught.value.code == "busy"


def test_without_a_visible_proc_the_group_is_killed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "processes", lambda: iter(()))
    refusal = bench.cut("sh -c 'sleep 600 & echo $!; wait'", lambda refusal: refusal.facts["stdout"])
    pid = int(refusal.facts["stdout"])
    eventually(lambda: not alive(pid))


def test_orphans_are_adopted_on_linux_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert Children().adopt_orphans() is False


def test_a_process_that_outlives_our_patience_is_reported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children_module, "PATIENCE", 0.05)
    child = _sleeper(bench)
    ghost = kernel.Stat(2**22 + 1, 1, 1, 1, 1, False)
    monkeypatch.setattr(child, "family", lambda census: [ghost])
    assert child.kill() is False
    assert child.wait(60) is not None
    child.discard()


def test_only_the_very_process_is_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        line = kernel.stat(stranger.pid)
        assert line is not None
        earlier = kernel.Stat(line.pid, line.parent, line.group, line.session, line.started - 1, False)
        kernel.send(earlier, signal.SIGKILL)
        monkeypatch.delattr("os.pidfd_open")
        kernel.send(earlier, signal.SIGKILL)
        assert stranger.poll() is None
        kernel.send(line, signal.SIGKILL)
        assert stranger.wait() == -9
        kernel.send(line, signal.SIGKILL)
    finally:
        stranger.kill()
        stranger.wait()


def test_a_name_with_parentheses_does_not_confuse_the_table(tmp_path: Path) -> None:
    program = tmp_path / ") R 1 (x"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(program), "600"])
    try:
        eventually(lambda: b") R 1 (x" in Path(f"/proc/{process.pid}/stat").read_bytes())
        line = kernel.stat(process.pid)
        assert line is not None and line.parent == os.getpid()
    finally:
        process.kill()
        process.wait()


def test_the_supervisor_has_no_thread_until_it_has_work() -> None:
    before = set(threading.enumerate())
    supervisor = Supervisor()
    assert set(threading.enumerate()) <= before
    supervisor.close()
    supervisor.soon(lambda: pytest.fail("it is closed"))
    assert set(threading.enumerate()) <= before


def test_without_a_thread_to_watch_it_no_command_starts(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(Refusal) as caught:
            bench.ask("shell", {"command": "touch started"})
    assert caught.value.code == "busy" and not (bench.root / "started").exists()
    assert bench.json("shell", {"command": "echo later"})["stdout"] == "later\n"


def test_timers_run_in_order_and_cancelled_ones_never(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr("sandbox_server.process.supervisor.time", clock)
    supervisor, ran, done = Supervisor(), [], threading.Event()
    supervisor.after(0.06, lambda: (ran.append("late"), done.set()))
    supervisor.after(0.03, lambda: ran.append("early"))
    supervisor.after(0.04, lambda: ran.append("never")).cancel()
    supervisor.after(0.0, lambda: 1 / 0)
    clock.now = 1.0  # all have been set before the first is due
    assert done.wait(60)
    assert ran == ["early", "late"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    supervisor.close()


def test_cancelled_timers_do_not_pile_up() -> None:
    supervisor = Supervisor()
    for _ in range(2000):
        supervisor.after(600, lambda: None).cancel()
    assert len(supervisor._timers) < 200
    supervisor.close()


def test_only_so_many_held_pipes_are_kept_open(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_server.process.pipes._DRAINED", 2)
    answer = SimpleNamespace(pids=[])
    for _ in range(3):
        answer.pids.append(int(bench.json("shell", {"command": "sh -c 'yes & echo $! >&2'"},
                                          limits={"max_output_bytes": 10})["stderr"]))  # fmt: skip
    # The first one's pipes were closed for the later ones', so its writing ended it.
    eventually(lambda: not alive(answer.pids[0]))
    assert alive(answer.pids[2])


def _sleeper(bench: Bench) -> Child:
    cwd = os.open(bench.root, os.O_RDONLY)
    try:
        return bench.table._children.start(
            Launch("/bin/sleep", ("sleep", "600"), cwd, str(bench.root), {}), "0" * 32
        )  # fmt: skip
    finally:
        os.close(cwd)


def _fail(number: int) -> int:
    raise OSError(number, os.strerror(number))
