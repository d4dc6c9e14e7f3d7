"""What the supervisor is told: the ways to start the server, best first, each with a level of isolation."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import bubblewrap
from .boxes import Box
from .interpreter import Interpreter
from .policies import TOKEN_VARIABLE

LEVELS = ("bubblewrap", "landlock", "none")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ALIASES = "/run/bin"  # holds a `python` where this interpreter has no program of that name beside it
LOG_BYTES = 16 << 20  # kept of what a server logs
BWRAP_REFUSES = "bwrap: "
LANDLOCK_REFUSES = "agent-sandbox-server: --confine landlock"

#: Starts the server. Its arguments are the descriptors that it inherits: the settings and the listening socket.
#: Settings come through a file without a name, so neither /proc/*/environ nor /proc/*/cmdline of any process in the
#: sandbox ever held the token. `-S` beside it skips site: .pth files may cost more than the server.
LAUNCH = """
import json, os, sys
with open(int(sys.argv[1]), encoding="utf-8") as file:
    settings = json.load(file)
sys.path.insert(0, settings["path"])
os.environ.update(settings["environ"])
sys.argv = ["agent-sandbox-server", *settings["arguments"]]
from sandbox_server.cli import main
sys.exit(main())
"""

#: Becomes process 1 of a sandbox, reaps what is orphaned there, and ends with the server. It takes the place of
#: bubblewrap's own, through whose /proc entry a program in the sandbox could reach the server's log outside.
INIT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
server = os.fork()
if server:
    for descriptor in sys.argv[1:]:
        os.close(int(descriptor))
    while True:
        pid, status = os.wait()
        if pid == server:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
"""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be started, whatever the level."""

    directory: str  # of this machine, becomes the base directory
    document: Callable[[str], Mapping[str, Any]]  # base directory inside -> policy document
    network: bool
    token: str
    variables: Mapping[str, str]  # for the server alone: the tokens that the policy names
    listener: int  # descriptor that the server inherits; keeps its number all the way


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to start the server."""

    level: str
    root: str  # the work directory by its name inside
    order: Mapping[str, Any]  # as the supervisor reads it


def attempts(wish: Wish, box: Box, interpreter: Interpreter, isolation: str) -> list[Attempt]:
    """The ways that `isolation` allows on this machine. Whether one really works shows only when it is tried."""
    chosen = LEVELS if isolation == "auto" else (isolation,)
    found: list[Attempt] = []
    if "bubblewrap" in chosen:
        found += [_in_bubblewrap(program, wish, box, interpreter) for program in bubblewrap.programs()]
    if "landlock" in chosen and sys.platform == "linux":
        found.append(_on_this_machine("landlock", wish, box, interpreter))
    if "none" in chosen:
        found.append(_on_this_machine("none", wish, box, interpreter))
    return found


def _in_bubblewrap(program: str, wish: Wish, box: Box, interpreter: Interpreter) -> Attempt:
    view = bubblewrap.View(interpreter, wish.directory, box.make("etc"), wish.network)
    bubblewrap.write_made_up(view.made_up, wish.network)
    alias = () if has_python(interpreter) else ("--symlink", interpreter.executable, f"{ALIASES}/python")
    options = [*alias, *view.options()]
    environ = environment(interpreter, aliases=ALIASES, home=bubblewrap.HOME)
    places = ("/tmp", bubblewrap.HOME, "/dev/shm", "/dev/pts")  # all of them the box's own
    flags = ("--program-path", environ["PATH"], *_scratch(*places))
    settings = _settings(wish, view.root, "bubblewrap", interpreter, *flags)
    return Attempt(
        "bubblewrap",
        view.root,
        {
            "level": "bubblewrap",
            "argv": [program, "--args", "@options", *_python(wish, interpreter, INIT + LAUNCH, "-I", "-S")],
            "options": "\0".join(options).encode("utf-8", "surrogateescape"),
            "settings": settings,
            "environ": environ,
            "directory": "/",
            "unavailable": BWRAP_REFUSES,
            "dies_with_parent": False,  # bwrap does
            "grace": False,  # the kernel ends everything inside at once
        },
    )


def _on_this_machine(level: str, wish: Wish, box: Box, interpreter: Interpreter) -> Attempt:
    """The server as a plain child; with Landlock it restricts itself before it serves."""
    confine = ("--confine", "landlock") if level == "landlock" else ()
    cut_off = ("--confine-network",) if level == "landlock" and not wish.network else ()
    if not has_python(interpreter):
        alias = os.path.join(box.make("bin"), "python")
        if not os.path.lexists(alias):
            os.symlink(interpreter.executable, alias)
    temporary = box.make("tmp")
    environ = {
        **environment(interpreter, aliases=box.inside("bin"), home=box.make("tmp", "home")),
        "TMPDIR": temporary,
    }
    shared = [place for place in ("/dev/shm",) if os.path.isdir(place)]  # programs synchronise their parts there
    flags = (*confine, *cut_off, "--program-path", environ["PATH"], *_scratch(temporary, *shared))
    return Attempt(
        level,
        wish.directory,
        {
            "level": level,
            "argv": _python(wish, interpreter, LAUNCH, "-I"),
            "options": b"",
            "settings": _settings(wish, wish.directory, level, interpreter, *flags),
            "environ": environ,
            "directory": wish.directory,
            "unavailable": LANDLOCK_REFUSES,
            "dies_with_parent": True,
            "grace": True,
        },
    )


def _scratch(*places: str) -> list[str]:
    return [word for place in places for word in ("--scratch", place)]


def _python(wish: Wish, interpreter: Interpreter, code: str, *flags: str) -> list[str]:
    return [interpreter.executable, *flags, "-c", code, "@settings", str(wish.listener)]


def _settings(wish: Wish, root: str, level: str, interpreter: Interpreter, *more: str) -> bytes:
    document = json.dumps(wish.document(root))
    common = ("--listen-fd", str(wish.listener), "--audit-max-bytes", str(LOG_BYTES))
    settings = {
        "path": os.path.dirname(interpreter.server),
        "environ": {**wish.variables, TOKEN_VARIABLE: wish.token, "ABX_SERVER_POLICY": document},
        "arguments": ["serve", *common, "--base-dir", root, "--isolation-level", level, *more],
    }
    return json.dumps(settings).encode()


def environment(interpreter: Interpreter, *, aliases: str, home: str) -> dict[str, str]:
    """All that programs in a sandbox find in their environment."""
    return {
        "PATH": ":".join(_unique(() if has_python(interpreter) else (aliases,), interpreter.bin)),
        "HOME": home,
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "USER": "user",
        "SHELL": "/bin/sh",
    }


def _unique(first: tuple[str, ...], own: str) -> Iterator[str]:
    yield from dict.fromkeys((*first, own, *SYSTEM_PATH.split(":")))


def has_python(interpreter: Interpreter) -> bool:
    """True when ``python`` is a program of this interpreter: it is for virtual environments, seldom for a system's."""
    return os.path.exists(os.path.join(interpreter.bin, "python"))
