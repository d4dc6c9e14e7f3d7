"""How a program is started, by either way: with what it was given, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.messages import Refusal
from sandbox_server.process import spawn as spawning
from sandbox_server.process.posix_spawn import NOTHING, available, posix_spawn
from sandbox_server.process.spawn import Launch, spawn

#: What a program can tell of how it was started. Bytes as numbers, since names need not be text.
TELL = """
import json, os, sys
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
told = {
    "argv": [list(os.fsencode(word)) for word in sys.argv[1:]],
    "env": {name.decode("latin-1"): list(value) for name, value in os.environb.items()},
    "cwd": list(os.getcwdb()),
    "files": {n: os.readlink(f"/proc/self/fd/{n}").partition(":")[0] for n in sorted(os.listdir("/proc/self/fd"))
              if os.path.lexists(f"/proc/self/fd/{n}")},
    "leads": os.getpid() == os.getsid(0) == os.getpgid(0),
    "blocked": int(status["SigBlk"], 16),
    "ignored": int(status["SigIgn"], 16),
}
print(json.dumps(told))
"""
#: Python's own start ignores these; 32 and 33 are the C library's, which keeps them for itself.
OF_PYTHON = sum(1 << number - 1 for number in (signal.SIGPIPE, signal.SIGXFSZ, 32, 33))


@pytest.fixture(params=["posix_spawn", "Popen"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each of the two, and the other one out of reach."""
    if request.param == "posix_spawn":
        if not available():
            pytest.skip("needs glibc 2.34 or later")
        monkeypatch.setattr(spawning.subprocess, "Popen", _forbidden)
    else:
        monkeypatch.setattr(spawning, "available", lambda: False)
        monkeypatch.setattr(spawning, "posix_spawn", _forbidden)
    yield request.param


def _forbidden(*_: object, **__: object) -> None:
    raise AssertionError("started in the other way")


def launched(tmp_path: Path, *words: str, env: dict[str, str] | None = None, **more: Any) -> Launch:
    script = tmp_path / "tell.py"
    script.write_text(TELL)
    directory = tmp_path / "w\udcff d"
    directory.mkdir(exist_ok=True)
    return Launch(
        program=sys.executable,
        argv=(sys.executable, "-I", "-S", str(script), *words),
        cwd=os.open(directory, os.O_PATH | os.O_DIRECTORY),
        cwd_path=os.fspath(directory),
        env={"PATH": os.environ["PATH"], **(env or {})},
        **more,
    )


def output(launch: Launch, extra: dict[str, str] | None = None) -> str:
    pid, pipes = spawn(launch, extra or {})
    os.close(launch.cwd)
    for descriptor in (pipes.stdout, pipes.stderr):
        os.set_blocking(descriptor, True)
    with open(pipes.stdout, "rb") as out, open(pipes.stderr, "rb") as err:
        text, complaint = out.read(), err.read()
    assert os.waitpid(pid, 0)[1] == 0, complaint
    return text.decode()


def told(launch: Launch, extra: dict[str, str] | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(output(launch, extra))
    return answer


def ignored_here() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn:"))


def test_a_program_gets_its_words_variables_and_directory_byte_for_byte(tmp_path: Path, way: str) -> None:
    words = ("", "two words", "\udc80\udcff", "ü=ß", "-x")
    facts = told(launched(tmp_path, *words, env={"A": "", "B\udcfe": "x=y\udcff\nz", "N": "lost"}), {"N": "kept"})
    assert [bytes(word) for word in facts["argv"]] == [os.fsencode(word) for word in words]
    env = {name.encode("latin-1"): bytes(value) for name, value in facts["env"].items()}
    env.pop(b"LC_CTYPE", None)  # Python's own
    assert env == {
        b"PATH": os.environb[b"PATH"],
        b"A": b"",
        b"B\xfe": b"x=y\xff\nz",
        b"N": b"kept",
        b"PWD": os.fsencode(tmp_path / "w\udcff d"),
    }
    assert bytes(facts["cwd"]) == os.fsencode(tmp_path / "w\udcff d")


def test_a_program_inherits_no_descriptor_no_session_and_no_ignored_signal(tmp_path: Path, way: str) -> None:
    leaky = os.open("/dev/zero", os.O_RDONLY)
    os.set_inheritable(leaky, True)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)  # what a handler was set for is not ignored either
    try:
        facts = told(launched(tmp_path))
    finally:
        signal.signal(signal.SIGUSR1, before)
        os.close(leaky)
    assert facts["files"] == {"0": "/dev/null", "1": "pipe", "2": "pipe"}
    assert facts["leads"] is True
    assert facts["blocked"] == 0
    # Popen hands on what our own parent wanted ignored, as `nohup` does; a server heeds those signals itself.
    handed_on = 0 if way == "posix_spawn" else ignored_here()
    assert facts["ignored"] & ~OF_PYTHON & ~handed_on == 0


def test_what_python_ignores_kills_a_program_as_it_does_elsewhere(tmp_path: Path, way: str) -> None:
    launch = launched(tmp_path)._replace(program="/bin/sh", argv=("sh", "-c", "grep SigIgn /proc/self/status"))
    ignored = int(output(launch).split()[1], 16)
    assert not ignored & (1 << signal.SIGPIPE - 1)
    assert not ignored & (1 << signal.SIGXFSZ - 1)


def test_standard_input_can_be_a_file_and_the_output_nothing(tmp_path: Path, way: str) -> None:
    copy = tmp_path / "copy"
    launch = launched(tmp_path, feed=b"all of it", capture=False)
    pid, pipes = spawn(launch._replace(program="/bin/sh", argv=("sh", "-c", f"cat > '{copy}'; echo lost")), {})
    os.close(launch.cwd)
    assert pipes == (-1, -1, -1)
    assert os.waitpid(pid, 0)[1] == 0
    assert copy.read_bytes() == b"all of it"


def test_many_starts_with_other_descriptors_each_get_their_own(tmp_path: Path, way: str) -> None:
    """More than are remembered, and the first ones again."""
    held = []
    for turn in range(150):
        launch = launched(tmp_path)._replace(program="/bin/sh", argv=("sh", "-c", 'echo "$0"', str(turn)))
        assert output(launch) == f"{turn}\n"
        if turn < 100:
            held.append(os.open("/dev/null", os.O_RDONLY))  # the next pipes have higher numbers
        else:
            os.close(held.pop())
    for descriptor in held:
        os.close(descriptor)


#: A server without standard streams of its own: its pipes get their numbers.
BARE = """
import os, sys
for number in (0, 1):
    os.close(number)
from sandbox_server.process.spawn import Launch, spawn
cwd = os.open("/", os.O_PATH)
assert cwd == 0
launch = Launch(program="/bin/sh", argv=("sh", "-c", "echo out; echo err >&2; pwd"), cwd=cwd, cwd_path="/", env={})
pid, pipes = spawn(launch, {})
assert os.waitpid(pid, 0)[1] == 0
sys.stderr.write(repr((os.read(pipes.stdout, 99), os.read(pipes.stderr, 99))))
"""


def test_where_a_pipe_has_the_number_of_a_standard_stream_nothing_is_mixed_up() -> None:
    ended = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=False)
    assert ended.stderr == repr((b"out\n/\n", b"err\n"))


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        ({"program": "/no/such"}, "not_found", "was not found"),
        ({"program": "/etc/passwd"}, "forbidden", "may not be executed"),
        ({"argv": ("x", "a" * 200_000)}, "command_invalid", "larger than the system takes"),
    ],
)
def test_what_cannot_be_started_is_told_why(tmp_path: Path, change: dict[str, Any], code: str, words: str) -> None:
    launch = launched(tmp_path)._replace(**change)
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(Refusal, match=words) as caught:
        spawn(launch, {})
    assert caught.value.code == code
    assert sorted(os.listdir("/proc/self/fd")) == before
    os.close(launch.cwd)


def test_a_nul_never_cuts_or_splits_a_word() -> None:
    if not available():
        pytest.skip("needs glibc 2.34 or later")
    root = os.open("/", os.O_PATH)
    try:
        for words in (
            ("/bin/true", ("true", "a\0b"), ()),
            ("/bin/true", ("true",), ("A=\0B=1",)),
            ("/bin/true\0", ("true",), ()),
        ):
            with pytest.raises(ValueError, match="null"):
                posix_spawn(*words, (NOTHING, NOTHING, NOTHING), root)
        with pytest.raises(ValueError, match="descriptor 2"):
            posix_spawn("/bin/true", ("true",), (), (NOTHING, 2, NOTHING), root)
    finally:
        os.close(root)
