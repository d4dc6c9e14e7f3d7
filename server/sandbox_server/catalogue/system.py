"""Facts about the machine inside the sandbox."""

from __future__ import annotations

from .model import Endpoint, Field

_READ = ("system:read",)
_VARS = ("allow_vars", "deny_vars")


def endpoints() -> tuple[Endpoint, ...]:
    return (
        Endpoint("system_info", "GET", "/system/info", "system", "Hardware and software.", _READ),
        Endpoint("env_get", "GET", "/env", "system", "Environment variables, secrets left out.", _READ,
                 (Field("filter", "text", "query", "Comma-separated names.", ""),), params=_VARS),
        Endpoint("env_set", "POST", "/env", "system", "Sets variables for later children.", ("system:write",),
                 (Field("vars", "env", "body", "Names and values.", None),), params=_VARS),
        Endpoint("ports", "GET", "/ports", "system", "Listening ports.", _READ),
        Endpoint("packages", "GET", "/packages", "system", "Installed packages.", _READ,
                 (Field("manager", "text", "query", "pip or npm.", "pip"),)),
        Endpoint("system_metrics", "GET", "/system/metrics", "system", "Load, memory and disk.", _READ),
        Endpoint("metrics", "GET", "/metrics", "system", "Counters in Prometheus text format.", _READ,
                 answers=("text/plain",)),
    )  # fmt: skip
