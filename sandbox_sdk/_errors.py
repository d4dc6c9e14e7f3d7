"""What can go wrong, as classes.

* SandboxError
  * ServerAPIError                the server said no, or answered nonsense; ``code`` says why
    * AuthenticationError         no credential, or none that is known
    * PolicyDeniedError           the policy forbids it; also a `PermissionError`
      * FilePolicyDeniedError     ... because of a path
    * EndpointNotAvailableError   switched off by the policy, or not offered by this server
    * NotFoundError               no such file or process; also a `FileNotFoundError`
    * ConflictError               the target exists, or is in a state that forbids this
    * PayloadTooLargeError        more bytes than ``limit``
    * NoSpaceError                the sandbox's disk is full; ``needed`` and ``free`` in bytes
    * RateLimitedError            too many requests; ``retry_after`` in seconds
    * CommandTimeoutError         took too long; carries the output so far; also a `TimeoutError`
  * CommandFailedError            ``check=True`` and the command did not succeed; ``result``
  * CodeFailedError               ``raise_on_error=True`` and the code in a context did not; ``execution``
  * SandboxConnectionError        no answer; ``gone`` when nobody is there; also a `ConnectionError`
    * StreamInterruptedError      a stream broke off at ``offset``; what the command did afterwards is not known
  * ClientClosedError             asked through a client that has been closed; also a `RuntimeError`
  * TransferError                 a transfer ended, but not all of it arrived as it should; ``outcomes``
  * NotTextError                  the file is not text in the encoding asked for; also a `ValueError`
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._display.shown import Shown
from ._public import public
from ._tracebacks import short

if TYPE_CHECKING:
    from ._code_models import Execution
    from ._models import CommandResult, FileOutcome


@public
class SandboxError(Exception, Shown):
    """Base of every error this package raises on purpose."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    #: True shows whole tracebacks in notebooks, too; ``%config SandboxMagics.tracebacks`` sets it.
    whole_traceback = False

    _repr_pretty_ = Shown._repr_pretty_  # before that of exceptions

    def _render_traceback_(self) -> list[str]:
        """For IPython."""
        if self.whole_traceback:
            return traceback.format_exception(self)
        text, _, _ = str(self).partition("\nhint: ")
        return short(self, text, self.hint)


@public
class ServerAPIError(SandboxError):
    """The server said no, or answered something that cannot be understood.

    ``status_code`` is 0 when the client refused by itself, after `discover`.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        status_code: int = 0,
        error_type: str = "",
        error_code: str = "",
        endpoint: str = "",
        rule: str = "",
        request_id: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status_code = status_code
        self.error_type = error_type
        self.error_code = error_code
        self.endpoint = endpoint
        self.rule = rule
        self.request_id = request_id
        self.facts = dict(facts or {})

    @property
    def code(self) -> str:
        """The stable code of the refusal; empty when the server gave none."""
        return self.error_code

    @property
    def scope(self) -> str:
        """The scope that is missing, when that is the reason."""
        return str(self.facts.get("scope") or "")

    def __str__(self) -> str:
        label = self.error_code or (str(self.status_code) if self.status_code else "")
        text = f"{self.message} [{label}]" if label else self.message
        return f"{text}\nhint: {self.hint}" if self.hint else text


@public
class AuthenticationError(ServerAPIError):
    """No credential, or none that the server knows."""


@public
class PolicyDeniedError(ServerAPIError, PermissionError):
    """The policy forbids it."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, **details)
        self.errno = errno.EACCES


@public
class FilePolicyDeniedError(PolicyDeniedError):
    """The policy forbids it because of a path."""


@public
class EndpointNotAvailableError(ServerAPIError):
    """The policy switches the endpoint off, or this server does not offer it."""


@public
class NotFoundError(ServerAPIError, FileNotFoundError):
    """No such file, directory or process, or one of the wrong kind."""

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message, **details)
        self.errno = errno.ENOENT


@public
class ConflictError(ServerAPIError):
    """The target exists already, changed meanwhile, or is in a state that forbids this."""


@public
class PayloadTooLargeError(ServerAPIError):
    """More bytes than a limit allows."""

    @property
    def limit(self) -> int | None:
        """The limit in bytes, when the server told it."""
        return _whole(self.facts.get("limit"))


@public
class NoSpaceError(ServerAPIError):
    """The sandbox's disk is full; what was there before is untouched."""

    @property
    def needed(self) -> int | None:
        return _whole(self.facts.get("needed"))

    @property
    def free(self) -> int | None:
        return _whole(self.facts.get("free"))


@public
class RateLimitedError(ServerAPIError):
    """Too many requests."""

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait, when the server told them."""
        value = self.facts.get("retry_after")
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


@public
class CommandTimeoutError(ServerAPIError, TimeoutError):
    """It took longer than allowed. The output so far is kept."""

    def __init__(self, message: str, *, stdout_bytes: bytes = b"", stderr_bytes: bytes = b"", **details: Any) -> None:
        super().__init__(message, **details)
        self.errno = errno.ETIMEDOUT
        self.stdout_bytes = stdout_bytes
        self.stderr_bytes = stderr_bytes

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode("utf-8", "replace")


@public
class CommandFailedError(SandboxError):
    """The command ran to its end and did not succeed (``check=True``)."""

    def __init__(self, message: str, *, result: CommandResult | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.result = result


@public
class CodeFailedError(SandboxError):
    """The code in a context raised, or did not run to its end (``raise_on_error=True``)."""

    def __init__(self, message: str, *, execution: Execution | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.execution = execution


@public
class SandboxConnectionError(SandboxError, ConnectionError):
    """The server gave no answer, or broke off in the middle of one."""

    def __init__(self, message: str, *, endpoint: str = "", gone: bool = False, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.endpoint = endpoint
        self.gone = gone


@public
class StreamInterruptedError(SandboxConnectionError):
    """A stream broke off before its end was seen; ``offset`` is how many bytes had come."""

    def __init__(
        self,
        message: str,
        *,
        offset: int = 0,
        stdout_offset: int = 0,
        stderr_offset: int = 0,
        **details: Any,
    ) -> None:
        super().__init__(message, **details)
        self.offset = offset
        self.stdout_offset = stdout_offset
        self.stderr_offset = stderr_offset


@public
class ClientClosedError(SandboxError, RuntimeError):
    """This client has been closed, or the sandbox that it belongs to: nothing can be asked through it any more."""

    def __init__(
        self, message: str = "the client is closed", *, hint: str = "make another one, or attach to a kept sandbox"
    ) -> None:
        super().__init__(message, hint=hint)


@public
class TransferError(SandboxError):
    """Not everything arrived, or not as it was sent."""

    def __init__(self, message: str, *, outcomes: Sequence[FileOutcome] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.outcomes = tuple(outcomes)


@public
class NotTextError(SandboxError, ValueError):
    """The file is not text in the encoding asked for."""


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
