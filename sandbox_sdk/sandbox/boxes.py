"""The boxes of this user on this machine: one private directory per sandbox, with its socket, log and state.

A box is held by a lock on the directory itself. Its supervisor keeps the lock for life, so "can be locked" means
"nobody lives there", whatever process ids say. Kept sandboxes lie under their name, others under a name that cannot
clash: ``NAME.PID-RANDOM``, with the process that made them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .._errors import SandboxError
from .supervisor import ENDED, remove

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
LONGEST_SOCKET, LONGEST_TAIL = 107, 68  # bytes the kernel takes; "/NAME.PID-RANDOM/api.sock" at its longest
BACKLOG = 1024
DEFAULT_NAME = "sandbox"


@dataclass(frozen=True, slots=True)
class State:
    """What another process needs to reach a sandbox. Written before the server starts, readable by its owner only."""

    name: str
    token: str = field(repr=False)
    root: str  # the work directory by its name inside
    directory: str  # the same by its name on this machine
    network: bool
    policy: str  # preset or description, for people
    settings: str  # digest of everything that was asked for, so that "the same again" can be told


@dataclass(slots=True)
class Box:
    """One sandbox's directory. ``lock`` is a descriptor while this process holds it."""

    path: str
    lock: int | None = None

    @property
    def name(self) -> str:
        return os.path.basename(self.path).partition(".")[0]

    @property
    def kept(self) -> bool:
        return "." not in os.path.basename(self.path)

    @property
    def owner(self) -> int:
        """The process that made it; 0 for a kept one."""
        return 0 if self.kept else int(os.path.basename(self.path).partition(".")[2].partition("-")[0])

    def inside(self, *names: str) -> str:
        return os.path.join(self.path, *names)

    @property
    def log(self) -> str:
        return self.inside("log")

    @property
    def alive(self) -> str:
        return self.inside("alive")

    @property
    def entrance(self) -> str:
        """Where the server is called. Its name exists out here only: nobody inside can put another in its place."""
        return self.inside("api.sock")

    def listen(self) -> socket.socket:
        """A new listening socket of that name. Callers may connect at once; the server that inherits it answers."""
        remove(self.entrance)
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(self.entrance)
            os.chmod(self.entrance, 0o600)
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise SandboxError(
                f'cannot listen on "{self.entrance}": {error.strerror or error}',
                hint="set TMPDIR to a directory of a local disk",
            ) from None
        return listener

    def make(self, *names: str) -> str:
        """A private directory inside, new or as it is."""
        os.makedirs(self.inside(*names), mode=0o700, exist_ok=True)
        return self.inside(*names)

    def try_lock(self) -> bool:
        """Take the lock if nobody lives here. False as well when the box is gone."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = os.path.samestat(os.fstat(descriptor), os.stat(self.path))
        except (BlockingIOError, FileNotFoundError):
            there = False
        if there:
            self.lock = descriptor
        else:
            os.close(descriptor)
        return there

    def unlock(self) -> None:
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None

    def is_alive(self) -> bool:
        """True while its supervisor runs."""
        if self.try_lock():
            self.unlock()
            return False
        return os.path.isdir(self.path)

    def supervisor(self) -> tuple[int, str]:
        """Process id and isolation level; (0, "") while there is none."""
        try:
            with open(self.alive, encoding="ascii") as file:
                pid, level = file.read().split()
        except FileNotFoundError:
            return 0, ""
        return int(pid), level

    def state(self) -> State | None:
        try:
            with open(self.inside("state.json"), encoding="utf-8") as file:
                return _parse(json.load(file))
        except FileNotFoundError:
            return None

    def write_state(self, state: State) -> None:
        descriptor = os.open(self.inside("state.new"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(asdict(state), file)
        os.replace(self.inside("state.new"), self.inside("state.json"))

    def end(self) -> None:
        """Tell the supervisor that a kept sandbox shall not be kept any longer. It may be clearing up already."""
        with contextlib.suppress(FileNotFoundError):
            os.close(os.open(self.inside(ENDED), os.O_WRONLY | os.O_CREAT, 0o600))

    def remove(self) -> None:
        remove(self.path)


def _parse(document: Mapping[str, Any]) -> State:
    return State(**{name: document[name] for name in State.__dataclass_fields__})


@dataclass(frozen=True, slots=True)
class Boxes:
    """All boxes below one directory, which only this user can enter."""

    path: str

    @classmethod
    def of_this_user(cls) -> Boxes:
        """Below the temporary directory of this machine (TMPDIR), or /tmp where that name is too long for a socket."""
        folder = f"notebook-sandbox-{os.geteuid()}"
        for base in (tempfile.gettempdir(), "/tmp"):
            path = os.path.join(os.path.realpath(base), folder)
            if len(os.fsencode(path)) + LONGEST_TAIL <= LONGEST_SOCKET:
                break
        return cls(_private(path))

    def __iter__(self) -> Iterator[Box]:
        for name in sorted(os.listdir(self.path)):
            if NAME.fullmatch(name) or re.fullmatch(NAME.pattern + r"\.\d+-\w+", name):
                yield Box(os.path.join(self.path, name))

    def kept(self, name: str) -> Box:
        return Box(os.path.join(self.path, name))

    def create(self, name: str | None, *, keep: bool) -> Box:
        """A new box, locked. A kept one that nobody lives in is taken over; one that somebody lives in is an error."""
        if name is not None and not NAME.fullmatch(name):
            raise SandboxError(
                f'"{name}" is no name for a sandbox; use at most 40 letters, digits, "-", "_", and no sign first'
            )
        while True:
            chosen = name or self._free_name(keep)
            box = self.kept(chosen) if keep else self.kept(f"{chosen}.{os.getpid()}-{secrets.token_hex(4)}")
            os.makedirs(box.path, mode=0o700, exist_ok=True)
            if box.try_lock():
                return box
            if name is not None and keep:
                raise FileExistsError(box.path)
            if not keep:
                name = chosen  # somebody who sweeps was quicker, and removes that one

    def _free_name(self, keep: bool) -> str:
        """``sandbox-1``, or the first number that this process (or, when kept, this user) does not use yet."""
        used = {box.name for box in self if (box.kept if keep else box.owner == os.getpid())}
        return next(name for number in range(1, len(used) + 2) if (name := f"{DEFAULT_NAME}-{number}") not in used)

    def sweep(self) -> None:
        """Remove what sandboxes left behind whose supervisor was killed. Kept ones stay."""
        for box in self:
            if not box.kept and box.try_lock():
                box.remove()
                box.unlock()


def _private(path: str) -> str:
    """The directory, made if missing. Somebody else may have put it there first; then it is no place for secrets."""
    os.makedirs(path, mode=0o700, exist_ok=True)
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise SandboxError(
            f'"{path}" does not belong to this user alone', hint="remove it, or set TMPDIR to another directory"
        )
    return path
