"""The parent of a sandbox's server: nothing is left behind, however an end comes."""

from __future__ import annotations

import fcntl
import marshal
import os
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_sdk.sandbox import supervisor
from sandbox_sdk.sandbox.local import supervisor_command
from sandbox_sdk.sandbox.supervisor import Supervisor
from tests.support.forks import fork
from tests.support.processes import is_running
from tests.support.waiting import eventually

SHELL = "/bin/sh"
SECONDS = 60.0


def attempt(script: str, **more: Any) -> dict[str, Any]:
    return {
        "level": "none",
        "argv": [SHELL, "-c", script],
        "options": b"",
        "settings": b"",
        "environ": {"PATH": "/usr/bin:/bin"},
        "directory": "/",
        "unavailable": "bwrap: ",
        "dies_with_parent": True,
        "grace": False,
        **more,
    }


class Life:
    """A supervisor in a forked copy of this process, which runs the same code that coverage sees."""

    def __init__(self, box: Path, *attempts: dict[str, Any], keep: bool = False, owner: int = 0) -> None:
        self.box = box
        box.mkdir(exist_ok=True)
        listener = os.open(os.devnull, os.O_RDONLY)
        order = {
            "attempts": list(attempts),
            "box": str(box),
            "log": str(box / "log"),
            "alive": str(box / "alive"),
            "lock": 0,
            "listener": listener,
            "keep": keep,
            "owner": owner or os.getpid(),
        }
        lifeline, self.end = os.pipe()
        self.reports, report = os.pipe()

        def live() -> None:
            os.close(self.end)
            os.close(self.reports)
            Supervisor(order, None if keep else lifeline, report).run()

        self.pid = fork(live)
        for descriptor in (lifeline, report, listener):
            os.close(descriptor)
        self.said = b""

    def wait_for(self, words: str) -> str:
        """Everything said so far, as soon as `words` are part of it."""
        deadline = time.monotonic() + SECONDS
        while words.encode() not in self.said:
            assert select.select([self.reports], [], [], max(0, deadline - time.monotonic()))[0], self.said
            part = os.read(self.reports, 4096)
            assert part, self.said
            self.said += part
        return self.said.decode()

    def finish(self) -> str:
        """Let go of the lifeline; everything it said."""
        os.close(self.end)
        self.end = -1
        return self.outlast()

    def outlast(self) -> str:
        """Everything it said until it ended, for its own reasons."""
        while part := os.read(self.reports, 4096):
            self.said += part
        os.close(self.reports)
        if self.end >= 0:
            os.close(self.end)
        assert os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]) == 0
        return self.said.decode()


def read_pid(path: Path) -> int:
    eventually(lambda: path.exists() and path.read_text().strip())
    return int(path.read_text())


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "box"


def test_closing_the_lifeline_ends_the_server_and_removes_the_box(box: Path, tmp_path: Path) -> None:
    life = Life(box, attempt(f"echo $$ > {tmp_path}/pid; exec sleep 1000"))
    life.wait_for("level none")
    server = read_pid(tmp_path / "pid")
    assert life.finish().splitlines() == ["level none", "ended"]
    assert not is_running(server) and not box.exists()


@pytest.mark.field(77)
def test_field_077_processes_that_left_their_parent_and_session_are_killed_too(box: Path, tmp_path: Path) -> None:
    script = f"for n in 1 2; do setsid sh -c 'echo $$ > {tmp_path}/'$n'; sleep 1000 & sleep 1000' & done; wait"
    life = Life(box, attempt(script))
    strays = [read_pid(tmp_path / n) for n in ("1", "2")]
    life.finish()
    assert not any(is_running(pid) for pid in strays)


def test_a_server_that_wants_to_end_by_itself_may(box: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(supervisor, "GRACE", SECONDS)
    script = f"trap 'echo bye > {tmp_path}/bye; exit' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.01; done"
    life = Life(box, attempt(script, grace=True))
    life.wait_for("level none")
    read_pid(tmp_path / "pid")
    life.finish()
    assert (tmp_path / "bye").read_text() == "bye\n"


def test_a_server_that_ignores_the_request_is_killed(box: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(supervisor, "GRACE", 0.05)
    script = f"trap '' TERM; echo $$ > {tmp_path}/pid; while :; do sleep 0.01; done"
    life = Life(box, attempt(script, grace=True))
    server = read_pid(tmp_path / "pid")
    life.finish()
    assert not is_running(server)


def test_the_end_of_the_server_is_reported_with_the_end_of_its_log(box: Path, tmp_path: Path) -> None:
    life = Life(box, attempt(f"sleep 1000 & echo $! > {tmp_path}/left; echo out; echo cannot >&2; exit 3"))
    assert life.outlast().splitlines() == ["level none", "exited 3", "out", "cannot"]
    assert not is_running(read_pid(tmp_path / "left")) and not box.exists()


def test_a_program_that_cannot_be_run_is_named(box: Path) -> None:
    life = Life(box, attempt("", argv=["/missing/program"]))
    assert life.outlast().splitlines() == [
        "level none",
        "exited 127",
        "cannot run /missing/program: No such file or directory",
    ]


def test_the_next_way_is_tried_when_one_is_impossible_here(box: Path, tmp_path: Path) -> None:
    first = attempt("echo bwrap: no namespaces >&2; exit 1", level="bubblewrap")
    life = Life(box, first, attempt(f"echo $$ > {tmp_path}/pid; exec sleep 1000", level="none"))
    life.wait_for("level none")
    read_pid(tmp_path / "pid")
    expected = ["level bubblewrap", "unavailable bubblewrap bwrap: no namespaces", "level none", "ended"]
    assert life.finish().splitlines() == expected


def test_a_fault_of_the_server_is_no_reason_to_try_the_next_way(box: Path) -> None:
    life = Life(box, attempt("echo policy: bad >&2; exit 1", level="bubblewrap"), attempt("exec sleep 1000"))
    assert life.outlast().splitlines() == ["level bubblewrap", "exited 1", "policy: bad"]


def test_a_kept_sandbox_survives_its_starter_and_keeps_its_files_when_the_server_crashes(box: Path) -> None:
    life = Life(box, attempt("exec sleep 1000"), keep=True)
    life.wait_for("level none")
    pid, level = (box / "alive").read_text().split()
    assert (int(pid), level) == (life.pid, "none")
    assert stat.S_IMODE((box / "alive").stat().st_mode) == 0o600
    os.close(life.end)
    life.end = -1
    assert not select.select([life.reports], [], [], 0.1)[0]
    os.kill(supervisor_child(life.pid), signal.SIGKILL)
    assert life.outlast().split() == ["level", "none", "exited", "-9"]
    assert box.is_dir() and not (box / "alive").exists()


def test_a_kept_sandbox_keeps_its_files_when_the_machine_goes_down_but_not_when_it_is_ended(box: Path) -> None:
    life = Life(box, attempt("exec sleep 1000"), keep=True)
    life.wait_for("level none")
    os.kill(life.pid, signal.SIGTERM)
    assert life.outlast().splitlines()[-1] == "ended"
    assert box.is_dir()
    life = Life(box, attempt("exec sleep 1000"), keep=True)
    life.wait_for("level none")
    (box / supervisor.ENDED).touch()
    os.kill(life.pid, signal.SIGTERM)
    life.outlast()
    assert not box.exists()


def supervisor_child(pid: int) -> int:
    """The only child of a process."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    (child,) = text.split()
    return int(child)


def test_the_end_of_the_owner_is_seen_although_a_copy_of_it_holds_the_lifeline(box: Path) -> None:
    owner = subprocess.Popen(["/bin/sleep", "1000"])
    life = Life(box, attempt("exec sleep 1000"), owner=owner.pid)
    life.wait_for("level none")
    owner.kill()
    owner.wait()
    assert life.outlast().splitlines()[-1] == "ended"
    assert not box.exists()


def test_secrets_are_neither_in_arguments_nor_in_the_environment(box: Path, tmp_path: Path) -> None:
    script = f"cd {tmp_path}; cat /dev/fd/$0 > read; cat /proc/$$/environ /proc/$$/cmdline > seen; ls box > ls"
    one = attempt("", argv=[SHELL, "-c", script, "@settings"], settings=b"xyzzy-4711")
    Life(box, one).outlast()
    assert (tmp_path / "read").read_bytes() == b"xyzzy-4711"
    assert b"xyzzy" not in (tmp_path / "seen").read_bytes()
    assert set((tmp_path / "ls").read_text().split()) <= {"log", "alive", "alive.new"}


def test_a_large_order_fits(box: Path, tmp_path: Path) -> None:
    one = attempt(
        "", argv=[SHELL, "-c", f"wc -c </dev/fd/$0 > {tmp_path}/size", "@settings"], settings=b"x" * 3_000_000
    )
    Life(box, one).outlast()
    assert (tmp_path / "size").read_text().strip() == "3000000"


@pytest.mark.parametrize("path", ["work", "work/deep"])
def test_what_a_sandbox_made_unreadable_is_removed(tmp_path: Path, path: str) -> None:
    tree = tmp_path / "box"
    (tree / "work" / "deep").mkdir(parents=True)
    (tree / "work" / "deep" / "f").touch()
    (tree / "work" / "link").symlink_to(tmp_path / "other")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "stays").touch()
    (tree / path).chmod(0)
    supervisor.remove(str(tree))
    supervisor.remove(str(tree))
    assert sorted(os.listdir(tmp_path)) == ["other"]
    assert (tmp_path / "other" / "stays").exists()


def test_one_that_is_made_anew_at_once_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, real = tmp_path / "box", supervisor._run
    (tree / "old").mkdir(parents=True)

    def run(argv: list[str]) -> None:
        monkeypatch.setattr(supervisor, "_run", real)
        real(argv)
        (tree / "new").mkdir(parents=True)

    monkeypatch.setattr(supervisor, "_run", run)
    supervisor.remove(str(tree))
    assert os.listdir(tree) == ["new"]


def test_a_link_is_removed_and_not_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("dir")
    supervisor.remove(str(tmp_path / "link"))
    assert os.listdir(tmp_path) == ["dir"]


def order_bytes(order: dict[str, Any]) -> bytes:
    packed = marshal.dumps(order)
    return len(packed).to_bytes(8, "big") + packed


@pytest.mark.parametrize("keep", [False, True])
def test_it_runs_as_a_program_that_takes_its_order_from_standard_input(box: Path, tmp_path: Path, keep: bool) -> None:
    box.mkdir()
    folder = os.open(tmp_path, os.O_RDONLY)
    lock, listener = (fcntl.fcntl(folder, fcntl.F_DUPFD, 100) for _ in range(2))  # no number that a program takes next
    os.close(folder)
    script = f"ls /proc/self/fd > {tmp_path}/held; echo $$ > {tmp_path}/pid; exec sleep 1000"
    order = {
        "attempts": [attempt(script)],
        "box": str(box),
        "log": str(box / "log"),
        "alive": str(box / "alive"),
        "lock": lock,
        "listener": listener,
        "keep": keep,
        "owner": os.getpid(),
    }
    process = subprocess.Popen(
        supervisor_command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        pass_fds=(lock, listener),
        start_new_session=True,
        env={},
    )
    os.close(lock)
    os.close(listener)
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(order_bytes(order))
    server = read_pid(tmp_path / "pid")
    held = (tmp_path / "held").read_text().split()
    assert str(listener) in held and str(lock) not in held
    assert process.stdout.readline() == b"level none\n"
    process.stdin.close()
    if keep:
        assert process.wait(SECONDS) == 0
        assert is_running(server)
        (box / supervisor.ENDED).touch()
        os.kill(int((box / "alive").read_text().split()[0]), signal.SIGTERM)
    assert process.stdout.read() == b"ended\n"
    process.stdout.close()
    process.wait(SECONDS)
    eventually(lambda: not is_running(server) and not box.exists())


def test_it_starts_without_what_takes_long_to_import() -> None:
    program = supervisor_command()
    program[4] = program[4].replace("supervisor.main()", "print(*sys.modules)")
    loaded = subprocess.run(program, capture_output=True, text=True, timeout=60).stdout.split()
    assert "supervisor" in loaded
    assert not {"typing", "re", "enum", "ctypes", "signal", "subprocess", "sandbox_sdk", "site"} & {*loaded}


def test_an_order_that_never_comes_ends_it_quietly() -> None:
    done = subprocess.run(supervisor_command(), input=b"\0\0", capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_server_dies_with_its_supervisor(box: Path, tmp_path: Path) -> None:
    life = Life(box, attempt(f"echo $$ > {tmp_path}/pid; exec sleep 1000"))
    life.wait_for("level none")
    server = read_pid(tmp_path / "pid")
    os.kill(life.pid, signal.SIGKILL)
    os.waitpid(life.pid, 0)
    os.close(life.end)
    os.close(life.reports)
    eventually(lambda: not is_running(server))


def test_without_descriptors_for_processes_the_pipe_alone_decides(monkeypatch: Any) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert supervisor._pidfd(os.getpid()) is None


def test_where_there_is_no_proc_only_the_server_is_known(monkeypatch: Any) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert supervisor.children(5) == [5]
    assert supervisor.children(0) == []


def test_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * 10_000 + b"\xffend")
    assert supervisor.read_tail(str(tmp_path / "log")) == ("x" * 10_000 + "\N{REPLACEMENT CHARACTER}end")[-4096:]
