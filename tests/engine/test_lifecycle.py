"""Sandboxes and the processes around them: kernels that die, restart, fork, and belong to ordinary users."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from sandbox_sdk import (
    Sandbox,
    SandboxConnectionError,
    SandboxError,
    SandboxNameTakenError,
    SandboxNotFoundError,
    SandboxStartError,
)
from sandbox_sdk.sandbox import local
from tests.support.forks import fork
from tests.support.processes import processes_with
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
LEVELS = ("bubblewrap", "landlock", "none")
HEAD = "import json, os, sys, time\nfrom sandbox_sdk import Sandbox\n"


def kernel(script: str, word: str = "") -> subprocess.Popen[str]:
    """Another process of this user, as a notebook's kernel is one. It finds `word` in its environment."""
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "WORD": word},
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate("\n", timeout=120)
    assert process.returncode == 0
    return out


# A kernel that ends


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("way", ["killed", "killed with its group", "while a copy of it lives on"])
def test_a_killed_kernel_leaves_neither_a_process_nor_a_directory(machine: Path, level: str, way: str) -> None:
    word = f"{1000 + os.getpid()}.{LEVELS.index(level) + 1}"
    copy = "os.fork() or (os.close(1), time.sleep(1000.75))" if "copy" in way else "0"
    script = f"""
word, boxes = os.environ["WORD"], os.environ["TMPDIR"] + "/notebook-sandbox-" + str(os.geteuid())
sb = Sandbox.local(isolation={level!r})
sb.run(["sh", "-c", f"setsid sleep {{word}} >/dev/null 2>&1 & setsid sleep {{word}} >/dev/null 2>&1 &"])
sb.process.start(["sleep", word])
{copy}
print(os.listdir(boxes), flush=True)
sys.stdin.read()
"""
    process = kernel(script, word)
    assert process.stdout is not None and process.stdin is not None
    assert "sandbox-1." in process.stdout.readline()
    eventually(lambda: len(processes_with(word)) >= 3)
    if way == "killed with its group":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
    eventually(lambda: not processes_with(word) and os.listdir(machine) == [])
    if "copy" in way:
        os.killpg(process.pid, signal.SIGKILL)
    process.stdin.close()
    process.stdout.close()


def test_a_kernel_that_ends_by_itself_has_ended_its_sandboxes_by_then(machine: Path) -> None:
    process = kernel("sb = Sandbox.local()\nprint(sb.running, flush=True)\n")
    assert finish(process) == "True\n"
    assert os.listdir(machine) == []


def test_an_interrupt_from_the_keyboard_does_not_reach_the_sandbox(machine: Path) -> None:
    script = """
import signal
sb = Sandbox.local()
signal.signal(signal.SIGINT, lambda *_: None)
os.killpg(0, signal.SIGINT)
time.sleep(0.1)
print(sb.run("id -un").stdout, end="")
"""
    assert finish(kernel(script)) == "user\n"


def test_a_forked_copy_neither_ends_the_sandbox_nor_shares_its_connections(machine: Path) -> None:
    with Sandbox.local() as sandbox:
        sandbox.files.write("a", b"a")

        def copy() -> None:
            assert sandbox.files.read("a") == b"a"
            sandbox.files.write("b", b"b")
            sandbox.close()

        assert os.waitstatus_to_exitcode(os.waitpid(fork(copy), 0)[1]) == 0
        assert sandbox.running and sandbox.files.read("b") == b"b"

        def drop() -> None:
            warnings.simplefilter("error")
            sandbox.__del__()
            finalizer = sandbox._finalizer
            assert finalizer is not None
            finalizer()

        assert os.waitstatus_to_exitcode(os.waitpid(fork(drop), 0)[1]) == 0
        assert sandbox.running

        def end() -> None:
            sandbox.kill()

        assert os.waitstatus_to_exitcode(os.waitpid(fork(end), 0)[1]) == 0
        assert not sandbox.running


# A kernel that restarts


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("end", ["sys.exit()", "os.kill(os.getpid(), 9)", "sb.close()"])
def test_a_kept_sandbox_is_found_again_after_a_restart(machine: Path, level: str, end: str) -> None:
    first = kernel(
        f"sb = Sandbox.local(name='mine', keep=True, isolation={level!r})\n"
        "sb.files.write('a.txt', b'kept')\n"
        "proc = sb.process.start(['sleep', '1000'])\n"
        f"print(sb, flush=True)\n{end}\n"
    )
    out, _ = first.communicate(timeout=120)
    assert out.startswith(f'<Sandbox "mine": isolation {level}, ') and out.endswith("state kept>\n")
    with Sandbox.attach("mine") as sandbox:
        assert sandbox.files.read("a.txt") == b"kept"
        assert sandbox.kept and sandbox.isolation == level
        assert [process.running for process in sandbox.process.list()] == [True]
    assert sandbox.running
    with Sandbox.local(name="mine", keep=True, isolation=level) as again:
        assert again.files.read("a.txt") == b"kept"
        again.kill()
    assert os.listdir(machine) == []


def test_another_process_may_end_a_kept_sandbox(machine: Path) -> None:
    sandbox = Sandbox.local(name="mine", keep=True)
    assert finish(kernel("Sandbox.attach('mine').kill()\nprint(Sandbox.list_local())")) == "[]\n"
    assert not sandbox.running and os.listdir(machine) == []
    sandbox.close()


def test_a_name_stands_for_one_kept_sandbox(machine: Path) -> None:
    with Sandbox.local(name="mine", keep=True) as sandbox:
        with pytest.raises(SandboxNameTakenError, match='sandbox "mine" already runs with other settings') as failure:
            Sandbox.local("hardened", name="mine", keep=True)
        assert 'Sandbox.attach("mine")' in failure.value.hint
        with Sandbox.local(name="mine") as other:
            assert other.name == "mine" and not other.kept and other.running
        assert [found.name for found in Sandbox.list_local()] == ["mine"]
        assert repr(Sandbox.list_local()[0]).endswith(", kept, root '/workspace'>")
        sandbox.kill()


def test_names_of_kept_sandboxes_are_counted_when_none_is_given(machine: Path) -> None:
    with Sandbox.local(keep=True) as first, Sandbox.local(keep=True) as second:
        assert [first.name, second.name] == ["sandbox-1", "sandbox-2"]
        first.kill()
        second.kill()


def test_attaching_to_nothing_names_what_there_is(machine: Path) -> None:
    with Sandbox.local(name="other", keep=True) as other:
        with pytest.raises(SandboxNotFoundError, match='no kept sandbox named "mine" is running; running: "other"'):
            Sandbox.attach("mine")
        other.kill()
    with pytest.raises(LookupError, match="running: none"):
        Sandbox.attach("other")


def test_a_kept_sandbox_that_crashed_can_be_taken_up_with_its_files(machine: Path) -> None:
    sandbox = Sandbox.local(name="mine", keep=True, isolation="bubblewrap")
    sandbox.files.write("a.txt", b"kept")
    os.kill(sandbox._local.box.supervisor()[0], signal.SIGKILL)
    eventually(lambda: not sandbox.running)
    sandbox.close()
    (found,) = Sandbox.list_local()
    assert repr(found) == "<LocalSandbox 'mine' stopped, kept, root '/workspace'>"
    with pytest.raises(SandboxNotFoundError):
        Sandbox.attach("mine")
    with pytest.raises(SandboxStartError, match="files_lst"):
        Sandbox.local({"endpoints": {"files_lst": {}}}, name="mine", keep=True)
    with Sandbox.local("hardened", name="mine", keep=True) as again:
        assert again.files.read("a.txt") == b"kept"
        os.kill(again._local.box.supervisor()[0], signal.SIGTERM)
        eventually(lambda: not again.running)
        again.kill()
    assert os.listdir(machine) == []


def test_a_failed_start_of_a_kept_sandbox_leaves_nothing(machine: Path) -> None:
    with pytest.raises(SandboxStartError):
        Sandbox.local({"endpoints": {"files_lst": {}}}, name="mine", keep=True)
    assert os.listdir(machine) == []


def test_two_kernels_that_start_the_same_at_once_share_it(machine: Path) -> None:
    script = "sb = Sandbox.local(name='mine', keep=True)\nprint(sb.running, flush=True)\nsys.stdin.read()\n"
    kernels = [kernel(script) for _ in range(3)]
    assert [finish(one) for one in kernels] == ["True\n"] * 3
    with Sandbox.attach("mine") as sandbox:
        sandbox.kill()


def test_attaching_waits_for_one_that_is_starting_and_gives_up_on_one_that_hangs(
    machine: Path, monkeypatch: Any
) -> None:
    with Sandbox.local(name="mine", keep=True) as sandbox:
        answers = iter([False, False, True])
        monkeypatch.setattr(local, "is_healthy", lambda path: next(answers))
        with Sandbox.attach("mine") as again:
            assert again.running
        monkeypatch.setattr(local, "is_healthy", lambda path: False)
        monkeypatch.setattr(local, "START_SECONDS", 0.05)
        with pytest.raises(SandboxStartError, match='sandbox "mine" runs but does not answer'):
            Sandbox.attach("mine")
        sandbox.kill()


def test_a_kept_sandbox_that_ends_while_it_is_taken_is_started_anew(machine: Path, monkeypatch: Any) -> None:
    sandbox = Sandbox.local(name="mine", keep=True)
    real = local.attach

    def ends_first(name: str) -> Any:
        sandbox.kill()
        return real(name)

    monkeypatch.setattr(local, "attach", ends_first)
    with Sandbox.local(name="mine", keep=True) as again:
        assert again.running
        again.kill()


# An ordinary user


SCRIPT = """
import os, sys
from sandbox_sdk import Sandbox
assert os.getuid() != 0
for level in ("bubblewrap", "landlock", "none"):
    with Sandbox.local(isolation=level) as sb:
        out = sb.run(["sh", "-c", "id -u; echo a > a; cat a; cat /etc/shadow"]).stdout
        print(level, sb.isolation, out.split(), sb.files.read("a"))
        inside = sb.run(["python", "-c", "import sys; print(sys.prefix)"]).stdout.strip()
        assert inside == sys.prefix, inside
print(Sandbox.list_local())
"""


def hidden_folders() -> list[str]:
    """The directories above this Python and this project that only their owner may enter."""
    paths = {os.path.realpath(path) for path in (sys.prefix, sys.base_prefix, ROOT, sys.executable)}
    above = {str(parent) for path in paths for parent in Path(path).parents}
    return sorted(folder for folder in above if not os.stat(folder).st_mode & 0o001)


def as_ordinary_user(script: str) -> list[str]:
    """The command that runs a script as nobody. Where this Python lies in a closed directory, a mount namespace of
    its own shows the same path with an open one.
    """
    inside = [*shutil.which("setpriv").split(), "--reuid=65534", "--regid=65534", "--clear-groups", "--"]  # type: ignore[union-attr]
    inside += [sys.executable, "-c", script]
    steps = []
    for folder in hidden_folders():
        needed = [path for path in (sys.prefix, sys.base_prefix, str(ROOT)) if path.startswith(folder + "/")]
        for number, path in enumerate(needed):
            steps.append(f"mkdir -p /run/keep/{number}; mount --bind {path} /run/keep/{number}")
        steps.append(f"mount -t tmpfs -o mode=755 tmpfs {folder}")
        for number, path in enumerate(needed):
            steps.append(f"mkdir -p {path}; mount --bind /run/keep/{number} {path}")
    steps = ["mount -t tmpfs tmpfs /run", *steps] if steps else []
    return ["unshare", "-m", "sh", "-ec", "; ".join([*steps, 'exec "$@"']), "sh", *inside]


@pytest.mark.skipif(os.geteuid() != 0, reason="no way here: all tests run as an ordinary user already")
def test_an_ordinary_user_gets_the_same(tmp_path: Path) -> None:
    if not (shutil.which("setpriv") and shutil.which("unshare")):
        pytest.skip("no way here: setpriv or unshare is missing")
    if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
        pytest.skip("no way here: no mount namespace may be made")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        as_ordinary_user(SCRIPT), capture_output=True, text=True, timeout=180, env=environ, cwd="/tmp"
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "bubblewrap bubblewrap ['1000', 'a'] b'a\\n'",
        "landlock landlock ['65534', 'a'] b'a\\n'",
        "none none ['65534', 'a'] b'a\\n'",
        "[]",
    ]
    with pytest.raises(SandboxError, match="does not belong to this user alone"):
        from sandbox_sdk.sandbox.boxes import _private

        _private("/tmp/notebook-sandbox-65534")
    shutil.rmtree("/tmp/notebook-sandbox-65534")


# Work that is under way


@pytest.mark.field(86)
@pytest.mark.parametrize("level", LEVELS)
def test_field_086_killing_a_sandbox_ends_a_stream_with_a_reason(machine: Path, level: str) -> None:
    sandbox = Sandbox.local(isolation=level)
    seen = threading.Event()
    ends: list[BaseException | None] = []

    def read() -> None:
        try:
            with sandbox.process.stream(["sh", "-c", "while :; do echo x; sleep 0.01; done"]) as events:
                for event in events:
                    if event.kind == "output":
                        seen.set()
            ends.append(None)
        except BaseException as error:
            ends.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert seen.wait(60)
    sandbox.kill()
    reader.join(60)
    assert not reader.is_alive()
    assert isinstance(ends[0], SandboxError), ends


@pytest.mark.field(128)
# httpcore does not close a unix socket whose connect failed
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning")
def test_field_128_a_sandbox_that_dies_in_mid_command_is_said_to_be_gone(machine: Path) -> None:
    with Sandbox.local(isolation="bubblewrap") as sandbox:
        pid = sandbox._local.box.supervisor()[0]
        with pytest.raises(SandboxConnectionError):
            sandbox.run(["sh", "-c", "echo on; sleep 1000"], on_stdout=lambda text: os.kill(pid, signal.SIGKILL))
        with pytest.raises(SandboxConnectionError) as failure:
            sandbox.files.list()
        assert failure.value.gone
