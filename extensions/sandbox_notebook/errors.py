"""What a failed magic shows: one line that says what, one that says what to do, and a real error all the same.

`SandboxMagicError` is an ordinary exception, so nbclient, nbval and papermill see the cell fail; only what it shows
is short.
IPython's own ``UsageError`` is never raised: it reaches no tool as an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .grammar import Mistake
from .text import printable
from .vocabulary import commands

if TYPE_CHECKING:
    from sandbox_sdk import SandboxError, ServerAPIError

# What to type next, by the code of the refusal; the client's own hints speak of Python calls.
_HINTS = {
    "path_not_allowed": "%sandbox caps {endpoint} lists the directories that are allowed",
    "path_denied": "%sandbox check {endpoint} PATH tells about another path",
    "read_only": "%sandbox caps {endpoint} shows what may be written",
    "symlink_denied": "name the target itself instead of the link",
    "hardlink_denied": "copy the file first: the policy refuses files with several names",
    "extension_not_allowed": "%sandbox caps {endpoint} lists the extensions that may be written",
    "command_not_allowed": "%sandbox caps {endpoint} lists the commands that may run",
    "env_var_not_allowed": "leave the variable out",
    "env_var_denied": "leave the variable out",
    "signal_not_allowed": "%sandbox caps {endpoint} lists the signals that may be sent",
    "not_found": "%sandbox ls shows what is there",
    "program_not_found": "check its name; cd, export and other words of a shell need %%sandbox run --lang bash",
    "missing_scope": "%sandbox caps tells what this identity may do",
    "endpoint_disabled": "%sandbox caps tells what is on in this sandbox",
    "not_implemented": "%sandbox caps lists what this server offers",
    "file_exists": "%sandbox ls -l shows what is there",
    "bad_archive": "nothing was unpacked; %sandbox upload brings it in as it is, to be looked at there",
    "payload_too_large": "%sandbox caps {endpoint} tells the limit",
    "session_not_found": "%sandbox term comes back to one that is open, or opens one",
    "no_space": "%sandbox ls -l shows what lies there; delete something first",
    "too_many_processes": "%sandbox ps shows them, %sandbox kill ends one",
}

_RUN = ("shell", "shell_stream", "process_start")

# Bold and no colour: front ends put errors on a ground of their own, on which red cannot be read.
_BOLD, _OFF = "\x1b[1m", "\x1b[0m"


class SandboxMagicError(Exception):
    """A magic that did not do what was asked."""

    def __init__(
        self, message: str, hint: str = "", *, line: str = "", column: int = -1, magic: str = "%sandbox"
    ) -> None:
        super().__init__(message)
        self.hint = hint
        self.line = line
        self.column = column
        self.magic = magic

    def _render_traceback_(self) -> list[str]:
        message = printable(str(self))
        if self.column < 0:
            return [f"{_BOLD}{message}{_OFF}", *([f"  {printable(self.hint)}"] if self.hint else [])]
        head = f"{message}: {self.magic} "
        place = " " * (len(head) + self.column)
        shown = printable(self.line) if len(printable(self.line)) == len(self.line) else self.line
        return [f"{_BOLD}{message}{_OFF}: {self.magic} {shown}", f"{place}^ {printable(self.hint)}".rstrip()]


class Stopped(KeyboardInterrupt):
    """The stop button: everything remote has been dealt with, nothing else is to be shown."""

    def _render_traceback_(self) -> list[str]:
        return [f"{_BOLD}KeyboardInterrupt{_OFF}: {printable(str(self))}"]


# Tools that look for the name of the exception find the one that they know.
Stopped.__name__ = Stopped.__qualname__ = "KeyboardInterrupt"


def explained(error: Exception, magic: str = "%sandbox", words: Sequence[str] = ()) -> SandboxMagicError | None:
    """The two lines for an error of ours, the SDK's or the operating system's; None for a fault in our own code.

    ``words`` are those of the line: where nothing better is known, the help of its subcommand is offered.
    """
    shown = _explained(error, magic)
    if shown is not None and not shown.hint:
        named = next((word for word in words if word in commands()), None)
        shown.hint = f"%sandbox help {named}" if named else "%sandbox help"
    return shown


def _explained(error: Exception, magic: str) -> SandboxMagicError | None:
    if isinstance(error, Mistake):
        return SandboxMagicError(error.message, error.hint, line=error.line, column=error.column, magic=magic)
    from sandbox_sdk import SandboxError

    if isinstance(error, SandboxError):
        return _from_sdk(error)
    if isinstance(error, OSError) and error.strerror:
        from sandbox_sdk.transfer.local import HINT

        name = f': "{error.filename}"' if error.filename else ""
        return SandboxMagicError(f"{error.strerror.lower()}{name}", HINT)
    return None


def _from_sdk(error: SandboxError) -> SandboxMagicError:
    from sandbox_sdk import (
        CommandTimeoutError,
        EndpointNotAvailableError,
        PolicyDeniedError,
        SandboxConnectionError,
        SandboxNameTakenError,
        ServerAPIError,
        StreamInterruptedError,
        TransferError,
    )

    if isinstance(error, StreamInterruptedError):
        return SandboxMagicError(error.message, "whether the command went on is not known: %sandbox ps --all")
    if isinstance(error, SandboxConnectionError):
        hint = "%sandbox start starts another one" if error.gone else "%sandbox info tells about it"
        return SandboxMagicError(error.message, hint)
    if isinstance(error, SandboxNameTakenError):
        return SandboxMagicError(error.message, "%sandbox use NAME takes it as it is, %sandbox stop NAME ends it")
    if isinstance(error, CommandTimeoutError):
        return SandboxMagicError(error.message, "--timeout SECONDS gives it longer, --bg does not wait")
    if isinstance(error, (PolicyDeniedError, EndpointNotAvailableError)):
        return SandboxMagicError(" · ".join(["denied: " + error.message, *_facts(error)]), _hint(error))
    if isinstance(error, ServerAPIError):
        return SandboxMagicError(error.message, _hint(error))
    if isinstance(error, TransferError):  # its own hint is for Python: the first file's tells what to type
        first = next((outcome.error for outcome in error.outcomes if outcome.error is not None), None)
        return SandboxMagicError(error.message, error.hint if first is None else _from_sdk(first).hint)
    return SandboxMagicError(error.message, error.hint)


def _facts(error: ServerAPIError) -> list[str]:
    rule = f"rule {error.rule}" if error.rule and error.rule not in error.message else ""
    return [fact for fact in (error.endpoint, error.code, rule) if fact]


def _hint(error: ServerAPIError) -> str:
    reason = "program_not_found" if error.code == "not_found" and error.endpoint in _RUN else error.code
    hint = _HINTS.get(reason, "")
    return hint.format(endpoint=error.endpoint) if hint else error.hint
