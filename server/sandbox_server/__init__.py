"""A policy-guarded HTTP server for the inside of a sandbox. Standard library only.

The command line needs little of it, so what is public here is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .call import Call
    from .catalogue import Endpoint, Field
    from .custom.calls import CommandCall
    from .custom.coercion import CommandArg
    from .custom.commands import CommandRegistry, RegisteredCommand, command
    from .custom.routes import Route, route
    from .messages import Refusal, Response, json_response
    from .policy import PolicyConfigError, ServerPolicy
    from .server import SandboxRequestHandler, SandboxServer
    from .settings import ClosedByDefault, ConfigurationError, Settings

__all__ = [
    "Call",
    "ClosedByDefault",
    "CommandArg",
    "CommandCall",
    "CommandRegistry",
    "ConfigurationError",
    "Endpoint",
    "Field",
    "PolicyConfigError",
    "Refusal",
    "RegisteredCommand",
    "Response",
    "Route",
    "SandboxRequestHandler",
    "SandboxServer",
    "ServerPolicy",
    "Settings",
    "__version__",
    "command",
    "json_response",
    "route",
]

_HOMES = {
    "Call": ".call",
    "ClosedByDefault": ".settings",
    "CommandArg": ".custom.coercion",
    "CommandCall": ".custom.calls",
    "CommandRegistry": ".custom.commands",
    "ConfigurationError": ".settings",
    "Endpoint": ".catalogue",
    "Field": ".catalogue",
    "PolicyConfigError": ".policy",
    "Refusal": ".messages",
    "RegisteredCommand": ".custom.commands",
    "Response": ".messages",
    "Route": ".custom.routes",
    "SandboxRequestHandler": ".server",
    "SandboxServer": ".server",
    "ServerPolicy": ".policy",
    "Settings": ".settings",
    "command": ".custom.commands",
    "json_response": ".messages",
    "route": ".custom.routes",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name], __name__), name)
