"""Start one program in a session and process group of its own. No shell, no inherited descriptors, bytes only."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from ..access import Scope
from ..messages import Refusal, quoted
from .posix_spawn import NOTHING, available, posix_spawn

_FEW = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
#: Where a descriptor can be entered as a directory; without it the path is used, which may have been swapped meanwhile.
_DESCRIPTORS = "/proc/self/fd"

_SH = "/bin/sh"
#: A new session has no controlling terminal yet, and takes the first that it opens. To open it takes a program that
#: does so before it becomes the wanted one: our own code never runs between fork and exec.
_TAKE_TERMINAL = '{ true <>"$0"; } 2>/dev/null; exec "$@"'


class Launch(NamedTuple):
    """What to start, fully judged: the program's path, the caller's words, an open working directory."""

    program: str
    argv: Sequence[str]
    cwd: int
    cwd_path: str
    env: Mapping[str, str]
    feed: bytes | None = None  # all of the standard input
    stdin: bool = False  # a standard input to write to later
    capture: bool = True  # pipes for the output; else it is dropped
    inherit: tuple[int, ...] = ()  # descriptors that it gets under the same numbers; its words name them
    terminal: int = -1  # the far end of a pseudo-terminal: its input, output and controlling terminal
    scope: Scope | None = None  # where the kernel keeps it: `Services.scope(grant)`; None leaves it free


class Pipes(NamedTuple):
    """Our ends, -1 where there is none."""

    stdin: int
    stdout: int
    stderr: int


def spawn(launch: Launch, extra: Mapping[str, str]) -> tuple[int, Pipes]:
    """The new process's pid and pipes; `extra` wins over its environment. `Refusal` when it cannot be started."""
    theirs: list[int] = []
    ours: list[int] = []
    try:
        stdin, feeding = NOTHING, -1
        if launch.feed is not None:
            stdin = spooled(launch.feed)
            theirs.append(stdin)
        elif launch.stdin:
            stdin, feeding = _pipe(theirs, ours)
        stdout = stderr = NOTHING
        out = err = -1
        if launch.terminal >= 0:
            stdin = stdout = stderr = launch.terminal
        elif launch.capture:
            stdout, out = _pipe(theirs, ours, incoming=True)
            stderr, err = _pipe(theirs, ours, incoming=True)
        pid = _start(launch, extra, (stdin, stdout, stderr))
    except OSError as error:
        _close(ours)
        raise _refusal(error, launch) from None
    except BaseException:
        _close(ours)
        raise
    finally:
        _close(theirs)
    return pid, Pipes(feeding, out, err)


def _start(launch: Launch, extra: Mapping[str, str], files: tuple[int, int, int]) -> int:
    program, argv = launch.program, launch.argv
    if launch.terminal >= 0:
        program, argv = _SH, ("sh", "-c", _TAKE_TERMINAL, os.ttyname(launch.terminal), program, *argv[1:])
    env = {**launch.env, "PWD": launch.cwd_path, **extra}
    low = {0, 1, 2}  # a server without standard streams of its own may have these numbers for anything
    if available() and not launch.inherit and not low.intersection((*files, launch.cwd)):
        with suppress(OSError):  # the other one tells what was wrong: the directory, the program, or too little of all
            return posix_spawn(program, argv, [f"{name}={value}" for name, value in env.items()], files, launch.cwd)
    stdin, stdout, stderr = (subprocess.DEVNULL if file == NOTHING else file for file in files)
    process = subprocess.Popen(
        list(argv),
        executable=program,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=launch.inherit,
        cwd=f"{_DESCRIPTORS}/{launch.cwd}" if launch.cwd not in low and _enterable(_DESCRIPTORS) else launch.cwd_path,
        env=env,
        start_new_session=True,  # not preexec_fn, which forgoes vfork and costs four times as much
    )
    # Whoever called waits for the process itself; to `subprocess` it shall look finished.
    process.returncode = 0
    return process.pid


@cache
def _enterable(directory: str) -> bool:
    return os.access(directory, os.X_OK)


def _pipe(theirs: list[int], ours: list[int], *, incoming: bool = False) -> tuple[int, int]:
    """(their end, our end); ours never blocks."""
    reading, writing = os.pipe()
    their, our = (writing, reading) if incoming else (reading, writing)
    theirs.append(their)
    ours.append(our)
    os.set_blocking(our, False)
    return their, our


def spooled(data: bytes) -> int:
    """An open file holding `data`: no pipe to fill while the output must be read, and a clean end of file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("stdin")
    else:
        import tempfile  # not needed on Linux

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _refusal(error: OSError, launch: Launch) -> Refusal:
    name = launch.argv[0][:200]
    program = quoted(name)
    if error.errno in _FEW:
        return Refusal("busy", "out of processes, descriptors or memory; try again")
    if str(error.filename).startswith(_DESCRIPTORS) or error.filename == launch.cwd_path:
        place = quoted(launch.cwd_path)
        return Refusal("invalid_argument", f"{place} cannot be entered as the working directory", field="cwd")
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        return Refusal("not_found", f"program {program}, or the interpreter it names, was not found", program=name)
    if error.errno in (errno.EACCES, errno.EPERM):
        return Refusal("forbidden", f"program {program} may not be executed", program=name)
    if error.errno == errno.E2BIG:
        return Refusal("command_invalid", "the arguments and variables are larger than the system takes")
    return Refusal("command_invalid", f"{program} is not a program that this system can execute")
