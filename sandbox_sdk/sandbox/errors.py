"""What can go wrong before a sandbox answers."""

from __future__ import annotations

from .._errors import SandboxError
from .._public import public


@public
class SandboxStartError(SandboxError):
    """The server of a new sandbox did not come up. ``log`` is the end of what it wrote."""

    def __init__(self, message: str, *, hint: str = "", log: str = "") -> None:
        super().__init__(message, hint=hint)
        self.log = log


@public
class IsolationUnavailableError(SandboxStartError):
    """The isolation that was asked for by name is not to be had on this machine."""


@public
class SandboxNotFoundError(SandboxError, LookupError):
    """No running sandbox of that name belongs to this user."""


@public
class SandboxNameTakenError(SandboxError):
    """A sandbox of that name already runs, with other settings."""


@public
class IsolationWarning(RuntimeWarning):
    """A sandbox runs, but with less isolation than this machine could give if something were repaired."""
