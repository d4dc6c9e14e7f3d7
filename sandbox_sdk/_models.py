"""What the server answers, as values. Every time is an aware UTC datetime."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from . import _wire as wire
from ._display.shown import Shown
from ._errors import CommandFailedError, SandboxError
from ._public import public
from ._wire import Json

if TYPE_CHECKING:
    from ._code_models import ErrorInfo, Result


@public
@dataclass(frozen=True)
class Receipt(Shown):
    """The facts of a finished transfer. Of a directory: the totals, and one outcome per file.

    ``mode`` is octal text, ``sha256`` hexadecimal and there when it was asked for, ``etag`` the version, for
    ``If-Match`` (RFC 9110, section 8.8.3).
    """

    path: str
    bytes: int
    mode: str | None = None
    mtime: datetime | None = None
    sha256: str | None = None
    etag: str | None = None
    created: bool | None = None
    replaced_directly: bool = False  # written in place, because the file could not be replaced by a rename
    files: tuple[FileOutcome, ...] = ()

    @classmethod
    def from_wire(cls, data: Json) -> Receipt:
        return cls(
            path=wire.text(data, "path"),
            bytes=wire.whole(data, "bytes"),
            mode=wire.text_or_none(data, "mode"),
            mtime=wire.moment(data, "mtime"),
            sha256=wire.text_or_none(data, "sha256"),
            etag=wire.text_or_none(data, "etag"),
            created=wire.flag_or_none(data, "created"),
            replaced_directly=wire.flag(data, "replaced_directly"),
        )


@public
@dataclass(frozen=True)
class FileOutcome(Shown):
    """What became of one file of a directory transfer: a receipt, an error, or a reason why it was left out."""

    source: str
    target: str
    receipt: Receipt | None = None
    error: SandboxError | None = None
    skipped: str = ""

    @property
    def ok(self) -> bool:
        return self.error is None


@public
@dataclass(frozen=True)
class FileEntry(Shown):
    """One entry of a directory listing; ``path`` begins with the path that was listed, ``size`` is in bytes."""

    name: str
    path: str
    type: str
    size: int = 0
    modified: datetime | None = None
    mode: str = ""
    owner: str = ""
    kind: str = "file"  # as `type`, but links and special files have names of their own
    link_target: str | None = None

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"

    @classmethod
    def from_wire(cls, data: Json, directory: str) -> FileEntry:
        name = wire.text(data, "name")
        return cls(
            name=name,
            path=posixpath.join(directory, wire.text(data, "path", name)),
            type=wire.text(data, "type", "file"),
            size=wire.whole(data, "size"),
            modified=wire.moment(data, "modified"),
            mode=wire.text(data, "mode"),
            owner=wire.text(data, "owner"),
            kind=wire.text(data, "kind") or wire.text(data, "type", "file"),
            link_target=wire.text_or_none(data, "target"),
        )


@public
@dataclass(frozen=True)
class FileInfo(Shown):
    """Facts about one path that exists. ``size`` is in bytes, ``permissions`` octal text."""

    name: str
    path: str
    type: str
    size: int = 0
    permissions: str = ""
    modified: datetime | None = None
    accessed: datetime | None = None
    created: datetime | None = None
    owner: str = ""
    is_symlink: bool = False
    link_target: str | None = None
    exists: bool = True

    @property
    def is_dir(self) -> bool:
        return self.type == "directory"

    @classmethod
    def from_wire(cls, data: Json) -> FileInfo:
        return cls(
            name=wire.text(data, "name"),
            path=wire.text(data, "path"),
            type=wire.text(data, "type", "unknown"),
            size=wire.whole(data, "size"),
            permissions=wire.text(data, "permissions"),
            modified=wire.moment(data, "modified"),
            accessed=wire.moment(data, "accessed"),
            created=wire.moment(data, "created"),
            owner=wire.text(data, "owner"),
            is_symlink=wire.flag(data, "is_symlink"),
            link_target=wire.text_or_none(data, "link_target"),
            exists=wire.flag(data, "exists", True),
        )


@public
@dataclass(frozen=True, repr=False)
class CommandResult(Shown):
    """A command that has ended. ``exit_code`` is negative when a signal ended it, and ``signal`` names which."""

    exit_code: int
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    signal: int | None = None
    truncated: bool = False
    held: bool = False  # the command ended, but somebody it started still holds its output
    reason: str = ""  # of the end: "exit", or what the server ended it for, as "shutdown"

    def __repr__(self) -> str:
        """What a cell shows: the exit, and the beginning of both outputs."""
        facts = [f"exit_code={self.exit_code}"]
        facts += [f"signal={self.signal}"] if self.signal else []
        facts += [f"{name}={clipped(text)}" for name in ("stdout", "stderr") if (text := getattr(self, name))]
        facts += [f"{name}=True" for name in ("truncated", "held") if getattr(self, name)]
        return f"CommandResult({', '.join(facts)})"

    @property
    def stdout(self) -> str:
        """The output as text; bytes that are not UTF-8 become U+FFFD."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")

    @property
    def success(self) -> bool:
        return self.exit_code == 0

    def check(self, command: str = "the command") -> CommandResult:
        """Answer itself, or raise `CommandFailedError` when the command did not succeed."""
        if self.success:
            return self
        how = f"was ended by signal {self.signal}" if self.signal else f"exited with {self.exit_code}"
        tail = self.stderr.rstrip().rsplit("\n", 1)[-1][:500]
        raise CommandFailedError(f"{command} {how}" + (f": {tail}" if tail else ""), result=self)

    @classmethod
    def from_wire(cls, data: Json) -> CommandResult:
        exit_code = wire.whole(data, "exit_code")
        return cls(
            exit_code=exit_code,
            stdout_bytes=wire.text(data, "stdout").encode("utf-8", "replace"),
            stderr_bytes=wire.text(data, "stderr").encode("utf-8", "replace"),
            signal=-exit_code if exit_code < 0 else None,
            truncated=wire.flag(data, "truncated"),
        )


def clipped(text: str, most: int = 300) -> str:
    """A text as Python would write it, and how much of a long one is left out."""
    if len(text) <= most:
        return repr(text)
    return f"{text[:most]!r}… ({len(text) - most} more characters)"


@public
@dataclass(frozen=True)
class Event:
    """One step of the output of a command, or of code.

    ``output``: `data` of `stream`, whose first byte has the number `offset`. ``gap``: `lost` bytes of `stream`
    before `offset` were not kept. ``held``: the command has ended, but its output is still open. ``exit``: it is over.

    Of code in a context there are ``start`` and ``end`` instead, and in between ``display`` and ``result``, with a
    `result`, and ``error``, with an `error`.
    """

    kind: Literal["output", "gap", "held", "exit", "start", "display", "result", "error", "end"]
    stream: str = ""
    data: bytes = b""
    offset: int = 0
    text: str = ""  # `data` decoded across events; bytes that are not UTF-8 become U+FFFD
    lost: int = 0
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""  # of the exit: "exit", or what the server ended it for: "timeout", "output_limit", "shutdown"
    result: Result | None = None
    error: ErrorInfo | None = None
    status: str = ""  # of the end of code


@public
@dataclass(frozen=True)
class OutputPart:
    """A piece of one captured stream: `data` runs from `offset` to `end`; `lost` bytes before it are gone."""

    stream: str
    data: bytes
    offset: int
    end: int
    lost: int = 0
    exit_code: int | None = None

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@public
@dataclass(frozen=True)
class ProcessInfo(Shown):
    """A background process. ``exit_code`` is None while it runs."""

    pid: int
    id: str = ""
    command: str = ""
    state: str = "running"
    started_at: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None

    @property
    def running(self) -> bool:
        return self.state == "running"

    @classmethod
    def from_wire(cls, data: Json) -> ProcessInfo:
        exit_code = wire.whole_or_none(data, "exit_code")
        signal = wire.whole_or_none(data, "signal")
        return cls(
            pid=wire.whole(data, "pid"),
            id=wire.text(data, "id"),
            command=wire.text(data, "command"),
            state=wire.text(data, "state", "running"),
            started_at=wire.moment(data, "started_at"),
            exit_code=exit_code,
            signal=signal if signal else (-exit_code if exit_code is not None and exit_code < 0 else None),
        )


@public
@dataclass(frozen=True)
class Decision(Shown):
    """What the policy would say to a call, without making it."""

    endpoint: str
    allowed: bool = False
    code: str | None = None
    reason: str | None = None
    rule: str | None = None
    path: str | None = None

    def __bool__(self) -> bool:
        return self.allowed

    @classmethod
    def from_wire(cls, data: Json, path: str | None = None) -> Decision:
        return cls(
            endpoint=wire.text(data, "endpoint"),
            allowed=wire.flag(data, "allowed"),
            code=wire.text_or_none(data, "code"),
            reason=wire.text_or_none(data, "reason"),
            rule=wire.text_or_none(data, "rule"),
            path=wire.text_or_none(data, "path") or path,
        )
