"""Where our exception classes are more exact than those of the reference client, and why."""

from __future__ import annotations

DEVIATIONS: dict[str, str] = {
    "client_errors:err_21": "`ConflictError`: an existing target is a conflict, not a missing permission",
    "client_errors:err_22": "`ConflictError`: every 409 has the same class",
    "client_errors:err_27": "`EndpointNotAvailableError`: a server without the route does not offer the endpoint",
    "client_errors:err_30": "`NotFoundError`: a process that is not there is not found",
}
