"""This Python, as files that a sandbox must see so that it runs there too: its prefixes, its links, the server's code.

A prefix may be a home directory (``python -m venv ~``) or a project with everything in it, so it is never shown whole,
only the entries that belong to a Python.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import SandboxStartError

#: What every sandbox sees of the machine anyway. Some are links into /usr, some directories, some missing.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
PREFIX_ENTRIES = ("bin", "lib", "lib64", "include", "libexec", "share", "ssl", "pyvenv.cfg")
MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The files of one Python, by their paths on this machine; in a sandbox they keep them."""

    executable: str
    server: str  # the folder of the package sandbox_server
    files: tuple[str, ...]  # files and directories outside the system directories, none inside another
    links: tuple[tuple[str, str], ...] = ()  # (path, target) of links on the way to the executable

    @property
    def bin(self) -> str:
        return os.path.dirname(self.executable)


def this_interpreter() -> Interpreter:
    """The running Python and the server installed for it."""
    if not sys.executable:
        raise SandboxStartError("this Python does not know its own program file, so a sandbox cannot run it")
    server = find_server()
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    files = {
        path
        for prefix in prefixes | {os.path.realpath(prefix) for prefix in prefixes}
        for entry in PREFIX_ENTRIES
        if os.path.exists(path := os.path.join(prefix, entry))
    }
    files |= {os.path.dirname(os.__file__), server}
    links, program = follow(sys.executable, files)
    return Interpreter(sys.executable, server, outermost(files | {program}), links)


def find_server() -> str:
    """The folder of the package ``sandbox_server``, without importing it."""
    spec = importlib.util.find_spec("sandbox_server")
    if spec is None or not spec.origin or not os.path.isfile(spec.origin):
        raise SandboxStartError(
            "the server is not installed for this Python", hint="pip install notebook-sandbox-server"
        )
    return os.path.dirname(spec.origin)


def follow(path: str, visible: Iterable[str]) -> tuple[tuple[tuple[str, str], ...], str]:
    """The links from `path` to a real file that lie outside of what is `visible`, and that file."""
    links: list[tuple[str, str]] = []
    for _ in range(MAX_LINKS):
        try:
            target = os.readlink(path)
        except OSError:
            return tuple(links), path
        if not is_inside(path, (*visible, *SYSTEM)):
            links.append((path, target))
        path = os.path.normpath(os.path.join(os.path.dirname(path), target))
    raise SandboxStartError(f'"{path}" is a link to itself')


def is_inside(path: str, directories: Iterable[str]) -> bool:
    """True when `path` is one of the directories or lies below one, compared by components."""
    return any(path == directory or path.startswith(directory.rstrip("/") + "/") for directory in directories)


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths outside the system directories that lie below no other one, sorted."""
    kept: list[str] = []
    for path in sorted(set(paths)):
        if not is_inside(path, (*SYSTEM, *kept)):
            kept.append(path)
    return tuple(kept)


def compile_server(folder: str) -> None:
    """Write the bytecode of the server where it is missing or old. Inside a sandbox its folder is read-only, so
    without this every start would compile it anew. Where the folder is not ours to write, nothing happens.
    """
    for directory, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py"):
                _compile(os.path.join(directory, name))


def _compile(source: str) -> None:
    compiled = importlib.util.cache_from_source(source)
    try:
        if os.stat(compiled).st_mtime_ns >= os.stat(source).st_mtime_ns:
            return
    except FileNotFoundError:
        pass
    import py_compile

    try:
        py_compile.compile(source, doraise=True)
    except (OSError, py_compile.PyCompileError):
        return
