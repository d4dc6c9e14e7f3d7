"""Landlock through `sandbox_server.confine`, tried on threads and processes of the real kernel."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sandbox_server import confine
from tests.support.landlock import abi

pytestmark = pytest.mark.skipif(abi() == 0, reason="no way here: this kernel has no Landlock")
needs = {n: pytest.mark.skipif(abi() < n, reason=f"no way here: this kernel has no Landlock {n}") for n in (3, 4, 6)}


def in_thread(work: Callable[[], Any]) -> Any:
    """The result or the exception of `work`, run in a thread of its own that ends afterwards."""
    box: list[Any] = []

    def run() -> None:
        try:
            box.append(work())
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return box[0]


def confined(work: Callable[[], Any], **rules: Any) -> Any:
    def run() -> Any:
        ruleset = confine.Ruleset(**rules)
        ruleset.enforce()
        ruleset.close()
        return work()

    return in_thread(run)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "a.txt").write_text("inside")
    (tmp_path / "out" / "b.txt").write_text("outside")
    return tmp_path


def test_a_confined_thread_reads_and_writes_inside(tree: Path) -> None:
    def work() -> str:
        (tree / "in" / "new").mkdir()
        (tree / "in" / "new" / "c.txt").write_text("c")
        os.rename(tree / "in" / "new" / "c.txt", tree / "in" / "d.txt")
        os.rmdir(tree / "in" / "new")
        return (tree / "in" / "a.txt").read_text() + (tree / "in" / "d.txt").read_text()

    assert confined(work, read_write=[str(tree / "in")]) == "insidec"


@pytest.mark.parametrize("attempt", ["read", "write", "create", "list", "through a link", "delete"])
def test_a_confined_thread_is_refused_outside(tree: Path, attempt: str) -> None:
    outside = tree / "out" / "b.txt"
    (tree / "in" / "link").symlink_to(tree / "out")
    attempts: dict[str, Callable[[], Any]] = {
        "read": outside.read_text,
        "write": lambda: outside.write_text("changed"),
        "create": lambda: (tree / "out" / "new").mkdir(),
        "list": lambda: os.listdir(tree / "out"),
        "through a link": lambda: (tree / "in" / "link" / "b.txt").read_text(),
        "delete": outside.unlink,
    }
    assert isinstance(confined(attempts[attempt], read_write=[str(tree / "in")]), PermissionError)
    assert outside.read_text() == "outside"


def test_other_threads_stay_free(tree: Path) -> None:
    assert isinstance(confined((tree / "out" / "b.txt").read_text, read_write=[str(tree / "in")]), PermissionError)
    assert in_thread((tree / "out" / "b.txt").read_text) == "outside"


def test_one_ruleset_serves_many_threads(tree: Path) -> None:
    ruleset = confine.Ruleset(read_write=[str(tree / "in")])

    def work() -> tuple[str, bool]:
        ruleset.enforce()
        try:
            (tree / "out" / "b.txt").read_text()
        except PermissionError:
            return (tree / "in" / "a.txt").read_text(), True
        return "", False

    assert [in_thread(work) for _ in range(3)] == [("inside", True)] * 3
    ruleset.close()
    ruleset.close()


def test_a_second_ruleset_only_narrows(tree: Path) -> None:
    (tree / "in" / "deep").mkdir()
    (tree / "in" / "deep" / "e.txt").write_text("deep")

    def work() -> str:
        confine.Ruleset(read_write=[str(tree / "in" / "deep"), str(tree / "out")]).enforce()
        with pytest.raises(PermissionError):
            (tree / "in" / "a.txt").read_text()
        with pytest.raises(PermissionError):
            (tree / "out" / "b.txt").read_text()
        return (tree / "in" / "deep" / "e.txt").read_text()

    assert confined(work, read_write=[str(tree / "in")]) == "deep"


def test_children_of_a_confined_thread_are_confined(tree: Path) -> None:
    script = f"cat {tree}/in/a.txt; cat {tree}/out/b.txt; echo x > {tree}/out/c.txt; echo done > {tree}/in/ok"

    def work() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, timeout=60)

    rules = {"read_write": [str(tree / "in")], "optional": (*confine.SYSTEM, *confine.SYSTEM_FILES)}
    result = confined(work, **rules)
    assert result.stdout == "inside"
    assert "b.txt" in result.stderr and "c.txt" in result.stderr
    assert (tree / "in" / "ok").read_text() == "done\n"
    assert not (tree / "out" / "c.txt").exists()


def test_read_and_execute_does_not_write(tree: Path) -> None:
    program = tree / "out" / "hello"
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)

    def work() -> str:
        with pytest.raises(PermissionError):
            program.write_text("changed")
        return subprocess.run([str(program)], capture_output=True, text=True, timeout=60).stdout

    rules = {"read_execute": [str(tree / "out")], "optional": confine.SYSTEM}
    assert confined(work, **rules) == "hello\n"


def test_a_single_file_can_be_allowed(tree: Path) -> None:
    def work() -> str:
        with pytest.raises(PermissionError):
            (tree / "in" / "a.txt").read_text()
        return (tree / "out" / "b.txt").read_text()

    assert confined(work, read_execute=[str(tree / "out" / "b.txt")]) == "outside"


def test_the_null_device_and_a_new_terminal_stay_usable(tree: Path) -> None:
    def work() -> bool:
        Path("/dev/null").write_text("gone")
        primary, secondary = os.openpty()
        terminal = os.isatty(secondary)
        os.close(primary)
        os.close(secondary)
        return terminal

    assert confined(work, read_write=[str(tree / "in")]) is True


@pytest.mark.parametrize("rule", ["read_write", "read_execute"])
def test_a_missing_path_is_an_error_and_leaks_no_descriptor(tree: Path, rule: str) -> None:
    gc.collect()  # what earlier tests have left is not let go of meanwhile
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        confine.Ruleset(**{rule: [str(tree / "missing")]})
    assert len(os.listdir("/proc/self/fd")) == before
    confine.Ruleset(optional=[str(tree / "missing")]).close()


@needs[4]
def test_tcp_can_be_cut_off(tree: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()

        def connect() -> None:
            with socket.socket() as connection:
                connection.connect(address)

        def bind() -> None:
            with socket.socket() as second:
                second.bind(("127.0.0.1", 0))

        assert isinstance(confined(connect, tcp=False), PermissionError)
        assert isinstance(confined(bind, tcp=False), PermissionError)
        assert confined(connect) is None


@needs[6]
def test_a_confined_child_cannot_signal_its_neighbours_but_is_signalled(tree: Path) -> None:
    neighbour = subprocess.Popen(["/bin/sleep", "60"])
    script = f"kill -TERM {neighbour.pid} && echo killed; exec sleep 60"

    def work() -> subprocess.Popen[str]:
        return subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    child = confined(work, optional=confine.SYSTEM)
    assert child.stderr.readline().strip().endswith("not permitted")
    child.send_signal(signal.SIGTERM)
    assert child.wait(60) == -signal.SIGTERM
    assert child.communicate()[0] == ""
    assert neighbour.poll() is None
    neighbour.kill()
    neighbour.wait(60)


def test_a_process_with_threads_is_not_restricted_by_halves() -> None:
    hold = threading.Event()
    thread = threading.Thread(target=hold.wait)
    thread.start()
    with pytest.raises(RuntimeError, match="before it starts threads"):
        confine.restrict_process(read_write=["/tmp"])
    hold.set()
    thread.join()


def test_a_process_restricts_itself_with_all_its_later_threads(tree: Path) -> None:
    script = f"""
import os, sys, threading
sys.path.insert(0, {os.path.dirname(os.path.dirname(confine.__file__))!r})
from sandbox_server import confine
confine.restrict_process(read_write=[{str(tree / "in")!r}])
def attempt():
    try: open({str(tree / "out" / "b.txt")!r})
    except PermissionError: print("refused")
thread = threading.Thread(target=attempt); thread.start(); thread.join()
print(open({str(tree / "in" / "a.txt")!r}).read())
"""
    program = [sys.executable, "-I", "-S", "-c", script]
    result = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert (result.stdout, result.stderr) == ("refused\ninside\n", "")


def test_the_server_keeps_its_interpreter_and_its_base_directory_only(tree: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(confine, "_threads", lambda: 1)
    (tree / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tree / "tmp"))

    def work() -> str:
        confine.restrict_to(str(tree / "in"), tcp=False)
        with pytest.raises(PermissionError):
            (tree / "out" / "b.txt").read_text()
        with pytest.raises(PermissionError):
            Path("/etc/shadow").read_text()
        with pytest.raises(PermissionError):
            Path(sys.prefix, "lib", "new.txt").write_text("x")
        (tree / "tmp" / "t").write_text("t")
        program = [sys.executable, "-c", "import json, ssl; print(json.dumps([1]))"]
        return subprocess.run(program, capture_output=True, text=True, timeout=60, env={}).stdout

    assert in_thread(work) == "[1]\n"


def test_a_kernel_without_landlock_is_told_apart(monkeypatch: Any) -> None:
    monkeypatch.setattr(confine, "CREATE_RULESET", 9999)
    with pytest.raises(OSError) as failure:
        confine.Ruleset()
    assert failure.value.errno == errno.ENOSYS
    monkeypatch.setattr(confine.sys, "platform", "darwin")
    with pytest.raises(OSError):
        confine.Ruleset()


@needs[3]
def test_truncation_outside_is_refused(tree: Path) -> None:
    assert isinstance(confined(lambda: os.truncate(tree / "out" / "b.txt", 0), read_write=[str(tree / "in")]), OSError)
    assert (tree / "out" / "b.txt").read_text() == "outside"


def test_unsettable_privileges_are_reported(monkeypatch: Any) -> None:
    monkeypatch.setattr(confine, "PR_SET_NO_NEW_PRIVS", 9999)
    ruleset = confine.Ruleset()
    with pytest.raises(OSError, match="no_new_privs"):
        ruleset.enforce()
    ruleset.close()


def test_a_confined_superuser_keeps_no_power_but_over_files_of_others(tree: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(confine, "_threads", lambda: 1)

    def powers(status: str) -> int:
        lines = [line for line in status.splitlines() if line.startswith(("CapInh", "CapPrm", "CapEff", "CapAmb"))]
        return sum(int(line.split()[1], 16) & ~confine.CAP_DAC_OVERRIDE for line in lines)

    def work() -> tuple[int, int, list[object]]:
        confine.restrict_process(read_write=[str(tree / "in")], optional=(*confine.SYSTEM, "/proc"))
        child = subprocess.run(["/bin/cat", "/proc/self/status"], capture_output=True, text=True, timeout=60).stdout
        refused: list[object] = []
        for attempt in (
            lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
            lambda: os.mknod(tree / "in" / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 1)),
            lambda: os.chroot(tree / "in"),
        ):
            with pytest.raises(PermissionError) as failure:
                attempt()
            refused.append(failure.value.errno)
        return powers(Path("/proc/thread-self/status").read_text()), powers(child), refused

    assert in_thread(work) == (0, 0, [errno.EPERM] * 3)


def test_powers_that_cannot_be_dropped_are_reported(monkeypatch: Any) -> None:
    monkeypatch.setattr(confine, "_threads", lambda: 1)
    monkeypatch.setattr(confine, "_CAPABILITY_VERSION", 1)
    failure = in_thread(lambda: confine.restrict_process(optional=["/"]))
    assert isinstance(failure, OSError)
    assert "capabilities" in str(failure)
