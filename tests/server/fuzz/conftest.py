"""A server that may be asked anything: what it may start and where it may write is bounded, by the kernel too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.server.fuzz.wire import Wire
from tests.support.landlock import abi
from tests.support.server import SYSTEM_PATH, ServerProcess, start_server
from tests.support.waiting import eventually

#: What starts a program of its own takes long; so many of each show as much as thousands would.
FEW = {"limits": {"rate_per_minute": 60}}
COMMANDS = {"params": {"allow_commands": ["true", "echo ...", "cat"]}}
POLICY = {
    "auth": {
        "tokens": [{"id": "reader", "token_env": "READER", "scopes": ["files:read"]}],
        "allow_anonymous": True,
        "anonymous_scopes": ["*"],
    },
    "groups": {"dev_tools": True, "browser": True},
    "endpoints": {
        "shell": COMMANDS,
        "shell_stream": COMMANDS,
        "process_start": COMMANDS,
        "code_run": FEW,
        "code_contexts_create": FEW,
        "code_contexts_run": FEW,
        "code_contexts_restart": FEW,
        "git_*": FEW,
        "pty_create_session": FEW,
        "files_watch": {"limits": {"max_duration_seconds": 0.05}},
        "files_*": {"paths": {"deny": ["secret", "*.pem"]}},
        "capabilities": {"limits": {"rate_per_minute": 20}},  # so few that a slow machine, too, asks too often
    },
}


@dataclass
class Target:
    """The server, and what it had open before."""

    server: ServerProcess
    base: Path
    descriptors: int = 0
    threads: int = 0

    @property
    def port(self) -> int:
        return self.server.port

    def lay_out(self) -> None:
        """Things to be found, changed and removed, as far as nothing else has taken their places."""
        for name in ("a/b", "ro", "secret"):
            with suppress(OSError):
                (self.base / name).mkdir(parents=True)
        for name in ("file", "a/b/c", "x.txt", "a.pem"):
            with suppress(OSError):
                (self.base / name).write_bytes(b"0123456789" * 10)
        for name, to in (("link", "a"), ("loop", "loop"), ("out", "/etc")):
            with suppress(OSError):
                (self.base / name).symlink_to(to)

    def open_now(self) -> int:
        """But for the directories that are watched on for a minute, in case their readers come back: 16 at most."""
        opened = []
        for link in Path(f"/proc/{self.server.pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                opened.append(os.readlink(link))
        return len(opened) - min(opened.count("anon_inode:inotify"), 16)

    def threads_now(self) -> int:
        return len(os.listdir(f"/proc/{self.server.pid}/task"))

    def ask(self, data: bytes) -> bytes:
        wire = Wire(self.port)
        try:
            return wire.ask(data).body
        finally:
            wire.close()

    def warm_up(self) -> None:
        """One of everything that stays open: the thread that minds processes, the audit log's."""
        for _ in range(3):
            self.ask(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
            body = b'{"command":"true","capture_output":true,"stdin":true}'
            self.ask(
                b"POST /process/start HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            )
        eventually(lambda: not self.children())
        self.descriptors, self.threads = self.open_now(), self.threads_now()

    def children(self) -> str:
        found = []
        for task in Path(f"/proc/{self.server.pid}/task").iterdir():
            with suppress(FileNotFoundError):  # a thread that has just ended
                found.append((task / "children").read_text())
        return "".join(found)

    def check_health(self, clients: int) -> None:
        """As before: it answers, has nothing more open, no more threads than clients need, and has not complained."""
        assert self.ask(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n") == b'{"status":"ok"}'
        assert self.server.process.poll() is None
        for process in self.server.request("GET", "/process/list").json()["processes"]:
            self.server.request("POST", f"/process/{process['id']}/signal", {"signal": 9})
        for kind, listed in (("/pty/sessions", "sessions"), ("/code/contexts", "contexts")):
            for made in self.server.request("GET", kind).json()[listed]:
                self.server.request("DELETE", f"{kind}/{made['id']}")
        eventually(lambda: not self.children())
        eventually(lambda: self.open_now() <= self.descriptors)
        eventually(lambda: self.threads_now() <= self.threads + 2 * clients)
        log = self.server.log.read_text()
        assert "Traceback" not in log and "fault in" not in log and "ERROR" not in log, log[-5000:]


@pytest.fixture(scope="package")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    tmp = tmp_path_factory.mktemp("fuzz")
    base, state = tmp / "base", tmp / "state"
    for directory in (base, state, tmp / "tmp"):
        directory.mkdir()
    environ = {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "TMPDIR": str(tmp / "tmp"), "READER": "reader"}
    environ["ABX_SERVER_CHROMIUM"] = "/none"  # it would be started, in vain where it is confined, again and again
    confined = ["--confine", "landlock"] if abi() else []
    server = start_server(base, state, policy=POLICY, arguments=confined, environ=environ)
    try:
        target = Target(server, base)
        target.lay_out()
        target.warm_up()
        yield target
    finally:
        assert server.stop() == 0


def seeded(number: int) -> Random:
    return Random(f"sandbox {number}")
