"""The variables that children start with: shown without secrets, and set for those that come later."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..call import Call
from ..guards.globs import compile_glob
from ..messages import Refusal, Response, json_response, quoted
from ..system.variables import TooLarge

#: A name with one of these is taken for that of a secret.
_SECRET = ("TOKEN", "SECRET", "KEY", "PASSWORD", "CREDENTIAL")
_OWN = "ABX_SERVER_"
_FIXED = ("PATH", "HOME", "USER", "SHELL")
_PASSWORD = re.compile(r"(://[^\s/:@]*):[^\s/@]+@")  # each try ends at the next slash, so the time is linear
_REDACTED = "***"


def env_get(call: Call, *, filter: str) -> Response:
    """Names that sound like secrets are left out, and so are the server's own, wherever they are repeated."""
    wanted = {name.strip() for name in filter.split(",") if name.strip()}
    told = {
        name: _PASSWORD.sub(rf"\1:{_REDACTED}@", value)
        for name, value in sorted(call.services.variables.all().items())
        if (not wanted or name in wanted) and not _is_secret(call, name, value) and _admits(call.grant.params, name)
    }
    return json_response({"variables": told})


def env_set(call: Call, *, vars: Mapping[str, str] | None) -> Response:
    """For every child that is started from now on; the server's own environment stays as it is. All or nothing."""
    new = vars or {}
    for name in new:
        if name in _FIXED:
            raise Refusal("forbidden", f"{quoted(name)} is fixed; set another variable")
    for name in new:
        if not _admits(call.grant.params, name):
            call.deny(Refusal("env_var_not_allowed", f"the policy does not let {quoted(name)} be set"))
    try:
        call.services.variables.update(new)
    except TooLarge:
        raise Refusal("env_invalid", "the variables together are larger than a command could be started with") from None
    return json_response({"updated": sorted(new)})


def _is_secret(call: Call, name: str, value: str) -> bool:
    upper = name.upper()
    if upper.startswith(_OWN) or any(part in upper for part in _SECRET):
        return True
    return any(secret in value for secret in call.services.secret_values)


def _admits(params: Mapping[str, Any], name: str) -> bool:
    if any(compile_glob(pattern).match(name) for pattern in params.get("deny_vars", ())):
        return False
    allowed = params.get("allow_vars", ())
    return not allowed or any(compile_glob(pattern).match(name) for pattern in allowed)
