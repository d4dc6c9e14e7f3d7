"""A refused response as an exception. Pure: status, headers and body in, exception out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ._contract import ENDPOINTS
from ._errors import (
    AuthenticationError,
    CommandTimeoutError,
    ConflictError,
    EndpointNotAvailableError,
    FilePolicyDeniedError,
    NoSpaceError,
    NotFoundError,
    PayloadTooLargeError,
    PolicyDeniedError,
    RateLimitedError,
    ServerAPIError,
)

_PATH_CODES = frozenset(
    {
        "path_not_allowed", "path_denied", "read_only", "symlink_denied", "hardlink_denied", "extension_not_allowed",
        "file_exists", "path_invalid", "path_too_long",
    }
)  # fmt: skip
_KEPT_ELSEWHERE = frozenset({"error", "type", "code", "endpoint", "rule", "stdout", "stderr"})

_HINTS: dict[str, str] = {
    "unauthorized": "give the token of this server: ServerClient(url, token=...)",
    "ambiguous_credentials": "send one credential only",
    "missing_scope": "ask for an identity that holds the scope; discover().scopes lists yours",
    "path_not_allowed": "discover().paths('{endpoint}') lists the directories that are allowed",
    "path_denied": "the policy denies this name; check('{endpoint}', path=...) tells about another",
    "read_only": "discover().paths('{endpoint}') shows what may be written",
    "symlink_denied": "name the target itself instead of the link",
    "hardlink_denied": "the policy refuses files with several names; copy it first",
    "extension_not_allowed": "discover().param('{endpoint}', 'allow_extensions') lists what may be written",
    "command_not_allowed": "discover().param('{endpoint}', 'allow_commands') lists what may run",
    "env_var_not_allowed": "leave the variable out",
    "env_var_denied": "leave the variable out",
    "signal_not_allowed": "discover().param('{endpoint}', 'allowed_signals') lists what may be sent",
    "language_not_allowed": "discover().param('{endpoint}', 'languages') lists what may run",
    "endpoint_disabled": 'discover().available() lists what is on; the rule that decided is "{rule}"',
    "not_implemented": "discover().available() lists what this server offers",
    "unknown_route": "this server does not offer it; discover().available() lists what it does",
    "file_exists": "choose another name, or pass overwrite=True",
    "precondition_failed": "somebody changed it meanwhile; read it again",
    "payload_too_large": "discover().limit('{endpoint}', 'max_bytes') tells the limit",
    "no_space": "delete something in the sandbox first",
    "rate_limited": "wait, or ask for a higher rate_per_minute",
    "concurrency_limited": "fewer calls at once, or ask for a higher max_concurrency",
    "too_many_processes": "wait for one to end, or kill one",
    "host_not_allowed": "start the server with --allow-host for this name",
}


def error_from_response(
    status: int, headers: Mapping[str, str], body: bytes | str | Mapping[str, Any] | None, endpoint: str = ""
) -> ServerAPIError:
    """The exception for a response that is not a success. `endpoint` is what was called."""
    facts = _facts(body)
    kind, code = _text(facts, "type"), _text(facts, "code")
    details: dict[str, Any] = {
        "status_code": status,
        "error_type": kind,
        "error_code": code,
        "endpoint": _text(facts, "endpoint") or endpoint,
        "rule": _text(facts, "rule"),
        "request_id": headers.get("x-request-id", ""),
        "facts": {name: value for name, value in facts.items() if name not in _KEPT_ELSEWHERE},
    }
    details["hint"] = _hint(code, details)
    message = _text(facts, "error") or f"the server answered {status} without a reason"
    if 300 <= status < 400:
        details |= {"error_type": "BindingRedirect", "hint": "give the final URL; redirects are never followed"}
        message = f"the server answered {status}: a redirect"
    error_class = _class_of(status, kind, code, endpoint)
    wait = _retry_after(facts, headers)
    if wait is not None or error_class is RateLimitedError:
        details["facts"]["retry_after"] = wait
    if error_class is CommandTimeoutError:
        details["stdout_bytes"] = _text(facts, "stdout").encode("utf-8", "surrogatepass")
        details["stderr_bytes"] = _text(facts, "stderr").encode("utf-8", "surrogatepass")
    return error_class(message, **details)


def _class_of(status: int, kind: str, code: str, endpoint: str) -> type[ServerAPIError]:
    if status == 401:
        return AuthenticationError
    if status == 403:
        return FilePolicyDeniedError if code in _PATH_CODES else PolicyDeniedError
    if status in (409, 412):
        return PolicyDeniedError if kind == "PolicyDenied" else ConflictError
    if status in (405, 501) or code == "endpoint_disabled":
        return EndpointNotAvailableError
    if status == 404:
        # An older server has no such route at all, and no code for that; with an id in the path the thing is missing.
        routed = code or kind in ("FileNotFoundError", "NotADirectoryError", "NotFoundError")
        routed = routed or "{" in _template(endpoint)
        return NotFoundError if routed and code != "unknown_route" else EndpointNotAvailableError
    if status == 413:
        return PayloadTooLargeError
    if status == 429 and (kind == "RateLimited" or code in ("rate_limited", "concurrency_limited")):
        return RateLimitedError
    if status == 507:
        return NoSpaceError
    if kind == "TimeoutError":
        return CommandTimeoutError
    return ServerAPIError


def _template(endpoint: str) -> str:
    return ENDPOINTS[endpoint][1] if endpoint in ENDPOINTS else ""


def _hint(code: str, details: Mapping[str, Any]) -> str:
    return _HINTS.get(code, "").format(endpoint=details["endpoint"], rule=details["rule"])


def _facts(body: bytes | str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The error body as a mapping; empty when it is anything but a JSON object."""
    if isinstance(body, Mapping):
        return dict(body)
    try:
        value = json.loads(body or b"null")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(facts: Mapping[str, Any], name: str) -> str:
    value = facts.get(name)
    return value if isinstance(value, str) else ""


def _retry_after(facts: Mapping[str, Any], headers: Mapping[str, str]) -> float | None:
    value = facts.get("retry_after", headers.get("retry-after"))
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < float("inf") else None


def protocol_error(message: str, status: int, endpoint: str, request_id: str = "") -> ServerAPIError:
    """The exception for a success that is none: HTML from a proxy, an empty body, a JSON list."""
    return ServerAPIError(
        message,
        status_code=status,
        error_type="ProtocolError",
        endpoint=endpoint,
        request_id=request_id,
        hint="is this the address of a sandbox server, and not of a proxy in front of it?",
    )
