"""A policy-guarded HTTP server for the inside of a sandbox. Standard library only.

The command line needs little of it, so what is public here is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .policy import PolicyConfigError, ServerPolicy
    from .server import SandboxRequestHandler, SandboxServer
    from .settings import ClosedByDefault, ConfigurationError, Settings

__all__ = [
    "ClosedByDefault",
    "ConfigurationError",
    "PolicyConfigError",
    "SandboxRequestHandler",
    "SandboxServer",
    "ServerPolicy",
    "Settings",
    "__version__",
]

_HOMES = {
    "ClosedByDefault": ".settings",
    "ConfigurationError": ".settings",
    "PolicyConfigError": ".policy",
    "SandboxRequestHandler": ".server",
    "SandboxServer": ".server",
    "ServerPolicy": ".policy",
    "Settings": ".settings",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name], __name__), name)
