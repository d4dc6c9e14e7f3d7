"""The parent of one sandbox's server: starts it, ends it, and clears up. A process of its own, which runs `main`.

It outlives the notebook's kernel by a moment: standard input is a pipe whose other end the kernel holds, so however
the kernel ends, SIGKILL included, the pipe closes, and then everything inside is killed and the directory removed.
(A process that the kernel forked may hold the pipe open too, so the kernel itself is watched as well.) As a
subreaper it inherits every process that escapes its parent, so none is left behind, at any level of isolation.

Nothing else of this package is imported, and of the standard library as little as possible: this start is part of
every sandbox's start. The order comes through the pipe, so no secret is on a command line or in an environment.
"""

from __future__ import annotations

import marshal
import os
import select
import sys

TYPE_CHECKING = False  # importing typing to learn that would take longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

SIGKILL, SIGTERM = 9, 15
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
GRACE, PATIENCE = 3.0, 10.0  # seconds for the server to end by itself; for everything to be gone
LOG_TAIL = 4096
ENDED = "ended"  # the file in the box that says: end for good, also when the sandbox is kept


def main() -> None:
    order = marshal.loads(_read(0, int.from_bytes(_read(0, 8), "big")))
    for name in ("lock", "listener"):
        os.set_inheritable(order[name], False)
    lifeline: int | None = 0
    if order["keep"]:
        if os.fork():  # the kernel's child ends here; the sandbox is nobody's child
            os._exit(0)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        lifeline = None
    Supervisor(order, lifeline, report=1).run()


class Supervisor:
    """One sandbox's life. ``order`` holds what to start and what to remove; see `order.py` for its making."""

    def __init__(self, order: dict[str, Any], lifeline: int | None, report: int) -> None:
        self.order = order
        self.lifeline = lifeline
        self.report = report
        self.child = 0
        self.wake, self._wake_writer = os.pipe()
        self.owner = None if lifeline is None else _pidfd(order["owner"])

    def run(self) -> None:
        """Start the server, by the next way when one is impossible here; wait for an end; clear up."""
        for attempt in self.order["attempts"]:
            self.child = spawn(attempt, self.order["log"], self.order["listener"])
            self._prepare()
            _write(self.order["alive"], f"{os.getpid()} {attempt['level']}")
            self._say(f"level {attempt['level']}")
            status = self._wait()
            tail = read_tail(self.order["log"]).rstrip()
            if status is None or not tail.startswith(attempt["unavailable"]):
                break
            self._say(f"unavailable {attempt['level']} {tail.splitlines()[0]}")
        os.close(self.order["listener"])  # who calls from now on is refused, not kept waiting
        kill_descendants(self.child if status is None else 0, attempt["grace"])
        self._say("ended" if status is None else f"exited {os.waitstatus_to_exitcode(status)}\n{tail}")
        self._remove()

    def _prepare(self) -> None:
        """What need not happen before the server starts, because it costs imports."""
        import ctypes
        import signal

        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        os.set_blocking(self._wake_writer, False)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)

    def _wait(self) -> int | None:
        """The exit status of the server, or None when somebody wants the sandbox to end."""
        poller = select.poll()
        for descriptor in (self.wake, self.lifeline, self.owner):
            if descriptor is not None:
                poller.register(descriptor, select.POLLIN)
        while True:
            status = reap(self.child)
            if status is not None:
                return status
            for descriptor, _ in poller.poll():
                if descriptor == self.owner or SIGTERM in os.read(descriptor, 512) or descriptor == self.lifeline:
                    return None

    def _remove(self) -> None:
        """A kept sandbox keeps its files until it is ended by name; its server may crash or be shut down."""
        box = self.order["box"]
        if self.order["keep"] and not os.path.exists(os.path.join(box, ENDED)):
            remove(self.order["alive"])
        else:
            remove(box)

    def _say(self, text: str) -> None:
        try:
            os.write(self.report, f"{text}\n".encode(errors="replace"))
        except OSError:
            return  # nobody listens any more


def spawn(attempt: dict[str, Any], log: str, listener: int) -> int:
    """Start one server as a child that inherits `listener`; answers its pid.

    Secrets travel in files that have no name any more: ``@settings`` and ``@options`` in the arguments become the
    numbers of their descriptors.
    """
    files = {f"@{name}": _nameless(log + f".{name}", attempt[name]) for name in ("settings", "options")}
    argv = [str(files.get(argument, argument)) for argument in attempt["argv"]]
    # Appended to, and readable, because the server shortens it when it grows.
    output = os.open(log, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    prctl = None
    if attempt["dies_with_parent"] and sys.platform == "linux":
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _become(attempt, argv, output, [listener, *files.values()], prctl, parent)
    for descriptor in (output, *files.values()):
        os.close(descriptor)
    return child


def _become(
    attempt: dict[str, Any], argv: list[str], output: int, inherited: Sequence[int], prctl: Any, parent: int
) -> NoReturn:
    """The child's side of `spawn`: turn into the server."""
    try:
        os.setsid()
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for descriptor in inherited:
            os.set_inheritable(descriptor, True)
        os.chdir(attempt["directory"])
        os.execve(argv[0], argv, attempt["environ"])
    except OSError as error:
        os.write(2, f"cannot run {argv[0]}: {error.strerror}\n".encode(errors="replace"))
    finally:
        os._exit(127)


def reap(child: int) -> int | None:
    """Collect every process that has ended; the wait status of `child` if it is among them."""
    found = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            found = status


def kill_descendants(child: int, grace: bool) -> None:
    """End the server, gently if `grace`, then kill whatever it left behind until there is nothing left."""
    import time

    deadline = time.monotonic() + GRACE
    if child and grace:
        os.kill(child, SIGTERM)
        while time.monotonic() < deadline and reap(child) is None:
            time.sleep(0.005)
    deadline = time.monotonic() + PATIENCE
    while (left := children(child)) and time.monotonic() < deadline:
        for pid in left:
            try:
                os.kill(pid, SIGKILL)
            except OSError:
                continue  # of another user: a setuid program
        time.sleep(0.002)
        if reap(child) is not None:
            child = 0


def children(known: int) -> list[int]:
    """The direct children of this process that are still there, ended or not; `known` where there is no ``/proc``."""
    own, found = os.getpid(), []
    if sys.platform != "linux":
        return [known] if known else []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent == own:
                found.append(int(name))
    return found


def remove(path: str) -> None:
    """Delete a file or a tree, whatever modes the sandbox left in it. Links are not followed."""
    try:
        if not os.path.isdir(path) or os.path.islink(path):
            os.unlink(path)
            return
        # Held open, so that its number is nobody else's: one of the same name may be made as soon as this one is gone.
        tree = os.open(path, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    try:
        for argv in (["rm", "-rf"], ["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            _run([*argv, "--", path])
            if not _is_at(tree, path):
                return
    finally:
        os.close(tree)


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _run(argv: list[str]) -> None:
    """A program of the system; its messages are of no use, the result is looked at."""
    quiet = [(os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0)]
    pid = os.posix_spawnp(argv[0], argv, {"PATH": "/usr/bin:/bin"}, file_actions=quiet)
    os.waitpid(pid, 0)


def read_tail(path: str) -> str:
    """The end of a log."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LOG_TAIL))
        return file.read().decode(errors="replace")


def _nameless(path: str, content: bytes) -> int:
    """A descriptor of a file that only its holders can read."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when that process ends; None where there is no such thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _read(descriptor: int, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = os.read(descriptor, size - len(parts))
        if not part:
            os._exit(0)  # the kernel ended before it had said what to start
        parts += part
    return parts


def _write(path: str, text: str) -> None:
    """Replace a small file at once."""
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, text.encode())
    os.close(descriptor)
    os.replace(path + ".new", path)
