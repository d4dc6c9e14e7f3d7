"""``nbsandbox``: the same words in a terminal, on real sandboxes that are kept between calls."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import re
import secrets
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_notebook import console
from sandbox_notebook.dispatch import read
from sandbox_sdk import Sandbox
from tests.support.server import running_server

COMMAND = [sys.executable, "-m", "sandbox_notebook.console"]


@pytest.fixture(scope="module")
def kept() -> Iterator[str]:
    name = f"console-{secrets.token_hex(4)}"
    sandbox = Sandbox.local(name=name, keep=True)
    yield name
    sandbox.kill()


@pytest.fixture(autouse=True)
def surroundings(kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBSANDBOX", kept)
    monkeypatch.chdir(tmp_path)


def nb(*arguments: str, stdin: str | bytes | None = None) -> subprocess.CompletedProcess[str]:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    fed = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=120, check=False, **fed)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def test_it_needs_no_ipython(kept: str) -> None:
    program = (
        "import sys\nfor name in ('IPython', 'ipywidgets', 'anywidget', 'traitlets'): sys.modules[name] = None\n"
        "from sandbox_notebook.console import main\nsys.exit(main(['run', 'echo', 'hi']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")


def test_a_command_ends_with_its_own_exit_code() -> None:
    done = nb("run", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert nb("run", "sh", "-c", "kill -9 $$").returncode == 137
    assert nb("run", "echo", "a b", ">", "'c'").stdout == "a b > 'c'\n"
    assert nb("run", "nosuchprogram").returncode == 1


def test_standard_input_is_the_program_or_what_it_reads() -> None:
    assert nb("run", stdin="print(6 * 7)\n").stdout == "42\n"
    assert nb("run", "--", "cat", stdin="body é\n").stdout == "body é\n"
    assert nb("run", "--lang", "sh", stdin="echo $0").stdout == "cell\n"
    done = nb("run", "cat", stdin=b"\xff")
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "standard input is no text (UTF-8)")


def test_a_line_that_cannot_be_read_is_told_with_its_place() -> None:
    done = nb("lst")
    assert done.returncode == 2
    assert done.stderr == '"lst" is no subcommand: nbsandbox lst\n' + " " * 34 + "^ did you mean nbsandbox list?\n"
    assert nb("ls", "--nope").returncode == 2
    assert nb("--url").returncode == nb("ls", "a", "b").returncode == 2


def test_failures_and_refusals_end_with_one() -> None:
    done = nb("rm", "nosuch")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1] == "  nbsandbox ls shows what is there"
    assert nb("check", "files_delete", "/etc/passwd").returncode == 1
    assert nb("check", "files_delete", "x").returncode == 0


def test_files_go_both_ways_and_searching_answers_like_grep(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_text("one\ntwo\n")
    assert nb("upload", "f.txt", "--to", "up").returncode == 0
    assert nb("grep", "two", "up").returncode == 0
    assert nb("grep", "nosuch", "up").returncode == 1
    assert nb("edit", "up/f.txt", "--lines", "2", stdin="zwei\n").returncode == 0
    assert nb("cat", "up/f.txt").stdout == "one\nzwei\n"
    assert nb("download", "up/f.txt", "back.txt").returncode == 0
    assert (tmp_path / "back.txt").read_text() == "one\nzwei\n"


def test_what_is_found_is_shown_word_for_word() -> None:
    nb("run", stdin="open('book', 'w').write('%sandbox start\\n')")
    assert nb("grep", "start", "book").stdout.splitlines()[0] == "book:1  %sandbox start"
    assert nb("edit", "book", "--old", "start", "--new", "stop").stdout.splitlines()[2:4] == [
        "  -%sandbox start",
        "  +%sandbox stop",
    ]


def test_lists_come_as_json_where_asked_for(kept: str) -> None:
    nb("run", stdin="open('j.txt', 'w').write('x')")
    (entry,) = json.loads(nb("ls", "--json", "j.txt").stdout)
    assert (entry["path"], entry["size"]) == ("j.txt", 1) and "T" in entry["modified"]
    assert kept in [one["name"] for one in json.loads(nb("--json", "list").stdout)]
    assert json.loads(nb("check", "shell", "--json").stdout)["allowed"] is True
    assert json.loads(nb("policy", "--json").stdout)["policy"]["preset"] == "workspace"


def test_variables_stay_from_call_to_call() -> None:
    assert nb("code", "--new", "x = 'a  b'").returncode == 0
    assert nb("code", "print(x)").stdout == "a  b\n"
    assert nb("code", stdin="y = 1\nx.upper()").stdout == "'A  B'\n"
    done = nb("code", "1 / 0")
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "ZeroDivisionError: division by zero")


def test_processes_go_on_between_calls() -> None:
    assert nb("run", "--bg", "--stdin", "cat").returncode == 0
    number = nb("ps").stdout.splitlines()[1].split()[0]
    assert nb("stdin", number, "hello").returncode == 0
    assert nb("stdin", number, "--eof").returncode == 0
    assert nb("logs", "-f", number).stdout == "hello\n"


def test_only_kept_sandboxes_are_known(kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = nb("start")
    assert done.stderr.splitlines()[0] == "a sandbox that is not kept would end with this command"
    assert nb("use", kept).stdout == f"export NBSANDBOX={kept}\n"
    monkeypatch.setenv("NBSANDBOX", "nosuch")
    assert nb("ls").stderr.splitlines()[0] == 'no sandbox is called "nosuch"'
    assert nb("ls", "--in", kept).returncode == 0


def test_without_a_name_the_only_one_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NBSANDBOX")
    for names, message in (([], "no sandbox is kept"), (["a", "b"], "several sandboxes are kept: a, b")):
        monkeypatch.setattr(console.Kept, "_names", lambda self, names=names: names)
        with pytest.raises(console.Mistake, match=message):
            console.Kept().find("", {})


def test_a_server_that_is_there_is_named_before_the_word(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        assert nb("--url", server.url, "run", "echo", "hi").stdout == "hi\n"
        assert nb(f"--url={server.url}", "mkdir", "new").returncode == 0
        assert (tmp_path / "base" / "new").is_dir()
    for url, hint in (
        ("http://127.0.0.1:1", "check the address, and start the server there; nbsandbox start needs none"),
        ("http://x:port", "write it as https://sandbox.example:9000"),
    ):
        done = nb("--url", url, "ls")
        assert done.returncode == 1 and done.stderr.splitlines()[1:] == [f"  {hint}"]
    assert nb("connect", "http://127.0.0.1:1").stderr.splitlines()[1] == "  nbsandbox --url URL, then what to do"


def test_help_speaks_of_this_program() -> None:
    done = nb()
    assert done.returncode == 0 and "%sandbox" not in done.stdout
    assert nb("--help").stdout == done.stdout
    lines = nb("ls", "--help").stdout.splitlines()
    assert (lines[0], lines[-1]) == ("nbsandbox ls: list a directory of the sandbox", "example: nbsandbox ls -l")
    assert re.fullmatch(r"nbsandbox \d+\.\d+\S*\n", nb("--version").stdout)


def test_a_reader_that_has_had_enough_is_no_failure_of_ours() -> None:
    nb("run", stdin="open('long', 'w').write('x\\n' * 300_000)")
    with subprocess.Popen([*COMMAND, "cat", "long"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.read(10) == b"x\nx\nx\nx\nx\n"
        process.stdout.close()
        assert process.stderr.read() == b""


def test_ctrl_c_ends_the_command_and_says_so() -> None:
    with subprocess.Popen(
        [*COMMAND, "run", "sh", "-c", "echo began; sleep 60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"began\n"
        process.send_signal(signal.SIGINT)
        assert b"sh was stopped" in process.stderr.read()
        assert process.wait(60) == 130


def test_the_audit_log_is_followed_while_it_grows() -> None:
    with subprocess.Popen(
        [*COMMAND, "audit", "-f", "--denied"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert nb("download", "/etc/followed").returncode == 1
        while b"/etc/followed" not in (line := process.stdout.readline()):
            assert line, process.stderr.read()
        process.send_signal(signal.SIGINT)
        assert b"only the following has ended" in process.stderr.read()
        assert process.wait(60) == 130


def test_a_terminal_has_no_variables_to_move() -> None:
    assert nb("code", "--push", "x", "1").stderr.splitlines()[0] == "a terminal has no variables to take along"


# term


class Screen:
    """A program in a terminal of 100 × 30."""

    def __init__(self, *arguments: str, command: list[str] = COMMAND) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(
            [*command, *arguments], stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # no read ends where a character does

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def until(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + 60
        while not (match := re.search(pattern, self.shown)):
            ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"never shown: {pattern}\n{self.shown}"
            self.shown += self._decoder.decode(os.read(self.master, 65536))
        self.shown = self.shown[match.end() :]
        return match

    def __enter__(self) -> Screen:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def test_a_terminal_is_typed_into_resized_left_and_found_again() -> None:
    with Screen("term") as screen:
        screen.until(r"\$ ")
        screen.type("stty size; echo $((6 * 7))é\n")
        screen.until("30 100\r\n42é")
        fcntl.ioctl(screen.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.kill(screen.process.pid, signal.SIGWINCH)
        screen.type("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.05; done; echo wi''de\n")
        screen.until("wide")
        screen.type("x=kept\n\x1d")
        id = screen.until(r"left; nbsandbox term --id (\S+) comes back")[1]
        assert screen.process.wait(60) == 0
        assert termios.tcgetattr(screen.slave)[3] == screen.before[3]
    with Screen("term", "--id", id) as again:
        again.until(r"\$ ")
        again.type("echo $x$x; exit 3\n")
        again.until("keptkept")
        assert again.process.wait(60) == 3


def test_ipython_in_a_terminal_gives_it_to_the_sandbox_and_takes_it_back(
    kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    ipython = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=nocolor"]
    with Screen(command=ipython) as screen:
        lines = iter(("%load_ext sandbox_notebook", f"sb = %sandbox use {kept}", "%sandbox term"))
        for number, line in enumerate(lines, 1):
            screen.until(rf"In \[{number}\]: ")
            screen.type(line + "\n")
        screen.until(r"\$ ")
        screen.type("echo $((6 * 7))\n")
        screen.until("42")
        screen.type("\x1d")
        screen.until("left; %sandbox term --id")
        screen.until(r"In \[4\]: ")
        screen.type("%sandbox run --bg sh -c 'echo one; sleep 0.5; echo two'\n")
        screen.until(r"In \[5\]: ")
        screen.type("%sandbox attach\n")
        screen.until("one\r\n(?s:.*)two\r\n")
        screen.until(r"In \[6\]: ")
        screen.type("exit\n")
        assert screen.process.wait(60) == 0


def test_a_terminal_shows_colours_and_a_pipe_none(kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with Screen("check", "files_list", "/workspace") as screen:
        screen.until("\x1b\\[32m✓ ")
    assert nb("check", "files_list", "/workspace").stdout.startswith("✓ ")
    with Screen(command=[sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner"]) as screen:
        screen.until(r"In \[1\]: ")
        screen.type(f"%load_ext sandbox_notebook\n%sandbox use {kept}\n")
        screen.until(r"In \[3\]: ")
        screen.type("%sandbox check files_list /workspace\n")
        screen.until("\x1b\\[32m✓ ")


def test_a_terminal_has_no_picker() -> None:
    done = nb("upload")
    assert done.returncode == 1 and done.stderr.splitlines() == [
        "a terminal has no picker: name the files",
        "  nbsandbox upload data.csv --to in",
    ]


def test_without_a_terminal_there_is_no_term() -> None:
    assert nb("term").stderr.splitlines()[0] == "term needs a terminal"


def test_words_of_a_shell_are_taken_as_they_came() -> None:
    parsed, as_json = console._read(["run", "--timeout", "5", "--", "echo", "--json", "a  b", "#x", "it's"])
    assert not as_json and parsed.number("timeout") == 5
    assert [word.text for word in parsed.rest] == ["echo", "--json", "a  b", "#x", "it's"]
    assert [word.text for word in read(parsed.line).rest] == ["echo", "--json", "a  b", "#x", "it's"]


def test_a_terminal_fills_no_variables_in() -> None:
    done = nb("cat", "--fill", "{name}")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == 'a terminal has no variables to fill in\n  nbsandbox cat "$name", as its shell does\n'


BYTES = bytes(range(256)) * 9000


def raw(*arguments: str, stdin: int | None = subprocess.DEVNULL, data: bytes | None = None) -> tuple[int, bytes, str]:
    fed = {"stdin": stdin} if data is None else {"input": data}
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, timeout=120, check=False, **fed)  # type: ignore[call-overload]
    return done.returncode, done.stdout, done.stderr.decode()


def test_a_dash_is_standard_input_and_output_byte_for_byte(tmp_path: Path) -> None:
    code, out, err = raw("upload", "-", "--to", "dash/piped.bin", data=BYTES)
    assert (code, out.decode(), err) == (0, "✓ -  →  dash/piped.bin  2.3 MB\n", "")
    assert raw("download", "dash/piped.bin", "-") == (0, BYTES, "")
    assert raw("download", "--verify", "dash/piped.bin", "-") == (0, BYTES, "")
    (tmp_path / "local").write_bytes(b"\xff\r\n\0")
    with open(tmp_path / "local", "rb") as file, open(tmp_path / "all", "ab") as both:
        assert raw("upload", "-", "--to", "dash/file.bin", stdin=file.fileno())[0] == 0
        both.write(b"before")
        both.flush()
        subprocess.run([*COMMAND, "download", "dash/file.bin", "-"], stdout=both, timeout=120, check=True)
    assert (tmp_path / "all").read_bytes() == b"before\xff\r\n\0", "what is appended to stays"
    assert sorted(os.listdir(tmp_path)) == ["all", "local"]


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        ("upload -", 1, "standard input has no name\n  nbsandbox upload - --to in/data.csv gives it one\n"),
        ("upload - --to in/", 1, "standard input has no name\n  nbsandbox upload - --to in/data.csv gives it one\n"),
        ("upload - x --to y", 1, '"-", standard input, goes alone\n  nbsandbox upload - --to in/data.csv\n'),
        ("download dash.d -", 1, '"dash.d" is a directory\n  nbsandbox archive dash.d brings it as one file\n'),
        ("--json download x -", 2, "--json and - both write to standard output\n"
                                   "  nbsandbox download x -, without --json\n"),
        ("upload - --to dash.d/there", 1, '"dash.d/there" is in the sandbox already\n'
                                          "  nbsandbox upload --overwrite … replaces it\n"),
    ],
)  # fmt: skip
def test_a_dash_that_cannot_be_meant_leaves_standard_output_alone(arguments: str, code: int, complaint: str) -> None:
    nb("run", "sh", "-c", "mkdir -p dash.d; echo old > dash.d/there")
    assert raw(*arguments.split(), data=b"new") == (code, b"", complaint)
    assert raw("download", "dash.d/there", "-") == (0, b"old\n", "")
    assert raw("upload", "-", "--overwrite", "--to", "dash.d/there", data=b"new")[0] == 0
    assert raw("download", "dash.d/there", "-") == (0, b"new", "")


def test_a_pipe_by_name_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    code, out, err = raw("upload", "pipe")
    assert (code, out, err.splitlines()[0]) == (1, b"", '"pipe" is neither a file nor a directory')
    assert err.splitlines()[1].startswith("  nbsandbox upload - --to NAME takes what comes through a pipe")


def test_a_terminal_is_told_of_no_kernel() -> None:
    for line in ("list", "stop", "start"):
        told = nb(line, "--help")
        assert told.returncode == 0 and told.stdout.startswith(f"nbsandbox {line}"), told
        assert "kernel" not in told.stdout
    assert nb("list", "--help").stdout.splitlines()[0] == (
        "nbsandbox list: your sandboxes: those started here, and those that are kept"
    )
