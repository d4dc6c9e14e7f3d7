"""Liveness and discovery."""

from __future__ import annotations

from typing import Any

from .._version import __version__
from ..access import OPS, Grant
from ..call import Call
from ..catalogue import GROUPS, Endpoint
from ..messages import JSON_TYPE, Refusal, Response, json_response, quoted
from ..services import Services

API_VERSION = 2
#: What one question may ask: each path costs time that grows with its length and the deny rules.
MOST_PATHS = 1000
_ALIVE = Response(200, b'{"status":"ok"}', [("Content-Type", JSON_TYPE)])


def health(call: Call) -> Response:
    return Response(200, _ALIVE.body, list(_ALIVE.headers))


def capabilities(call: Call) -> Response:
    """What this identity may do, endpoint by endpoint (contract: a superset of its keys)."""
    services, identity = call.services, call.grant.identity
    rules = services.rules
    enabled = {e.id: rules.rule(e.id).enabled for e in services.catalogue.values()}
    summary = {
        group: {
            "enabled": sum(enabled[e.id] for e in services.catalogue.values() if e.group == group),
            "total": sum(e.group == group for e in services.catalogue.values()),
        }
        for group in GROUPS
    }
    warnings = []
    if services.has_tokens and "*" in identity.scopes:
        warnings.append(f'identity {quoted(identity.id)} holds every scope ("*"); give agents narrower ones')
    if rules.mode == "observe":
        warnings.append(
            'mode "observe": the policy refuses nothing within the base directory, it only notes what it would refuse'
        )
    return json_response(
        {
            "api_version": API_VERSION,
            "server_version": __version__,
            "server": "notebook-sandbox",
            "isolation": services.isolation,
            "base_dir": rules.base_dir,
            "groups": {group: not count["total"] or bool(count["enabled"]) for group, count in summary.items()},
            "group_summary": summary,
            "identity": {"id": identity.id, "scopes": sorted(identity.scopes)},
            "policy": {
                "preset": rules.preset,
                "revision": rules.revision,
                "configured": rules.configured,
                "mode": rules.mode,
            },
            "endpoints": {e.id: _entry(services, e, call) for e in services.catalogue.values()},
            "warnings": warnings,
        }
    )


def _entry(services: Services, endpoint: Endpoint, call: Call) -> dict[str, Any]:
    rule = services.rules.rule(endpoint.id)
    entry: dict[str, Any] = {
        "method": endpoint.method,
        "path": endpoint.path,
        "group": endpoint.group,
        "summary": endpoint.summary,
        "streaming": endpoint.streaming,
        "enabled": rule.enabled,
        "allowed": False,
        "reason": None,
        "rule": None if rule.enabled else rule.rule,
        "scopes": list(rule.scopes),
    }
    try:
        grant = services.rules.admit(call.grant.identity, endpoint)
    except Refusal as refusal:
        entry["reason"] = refusal.code
        return entry
    if endpoint.id not in services.implemented:
        entry["reason"] = "not_implemented"
        return entry
    entry["allowed"] = True
    if grant.would is not None:
        entry["would"] = grant.would.code
    entry["limits"] = {name: grant.limits[name] for name in sorted(grant.configured_limits)}
    entry["defaults"] = {
        name: value for name, value in grant.limits.items() if value is not None and name not in grant.configured_limits
    }
    entry["params"] = dict(grant.params)
    if endpoint.path_bearing:
        entry["paths"] = _paths(services, grant)
    return entry


def _paths(services: Services, grant: Grant) -> dict[str, Any]:
    """The path rule without its patterns; `enforcement` says who holds each part."""
    rule = grant.paths
    return {
        "allow": list(rule.allow or ()),
        "roots": list(services.path_guard(grant).roots),
        "read_only": rule.read_only,
        "deny_count": len(rule.deny),
        "symlinks": rule.symlinks,
        "hardlinks": rule.hardlinks,
        "enforcement": {"allow": "api" if services.scope(grant) is None else "kernel", "deny": "api"},
    }


def capabilities_check(call: Call, *, endpoint: str, path: Any, paths: Any, op: str | None) -> Response:
    """Would this call be admitted? Decided from the policy alone; the file system is not touched."""
    if path is not None and not isinstance(path, str):
        raise Refusal("invalid_argument", '"path" must be text', field="path")
    if paths is not None and not (isinstance(paths, list) and all(isinstance(p, str) for p in paths)):
        raise Refusal("invalid_argument", '"paths" must be a list of texts', field="paths")
    if paths is not None and len(paths) > MOST_PATHS:
        raise Refusal("invalid_argument", f'"paths" must hold at most {MOST_PATHS} paths; ask again', field="paths")
    if op is not None and op not in OPS:
        raise Refusal("invalid_argument", f'"op" must be one of {", ".join(OPS)}', field="op")
    services = call.services
    probed = ([path] if path is not None else []) + (paths or [])
    decision = services.rules.explain(
        endpoint, identity=call.grant.identity, paths=probed, op=op, guards=services.path_guards
    )
    if decision["allowed"] and endpoint not in services.implemented:
        decision |= {"allowed": False, "code": "not_implemented", "reason": "this server does not offer it yet"}
    return json_response(decision)
