"""Everything a policy says at once: each identity, each endpoint, and what would become of some paths."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..access import Grant, Identity
from ..catalogue import Endpoint
from ..messages import Refusal
from ..services import confinable

if TYPE_CHECKING:
    from .bound import BoundPolicy, PathJudges


def matrix(bound: BoundPolicy, *, paths: Sequence[str] = (), op: str | None = None) -> dict[str, Any]:
    """Plain values, for ``agent-sandbox-server matrix``; `BoundPolicy.explain` decides each of them."""
    from ..guards.paths import PathGuards

    who = identities(bound)
    with contextlib.closing(PathGuards(bound.base_dir)) as guards:
        cells = {
            endpoint_id: {one.id: _cell(bound, bound.catalogue[endpoint_id], one, paths, op, guards) for one in who}
            for endpoint_id in sorted(bound.catalogue)
        }
    return {
        "revision": bound.revision,
        "mode": bound.mode,
        "base_dir": bound.base_dir,
        "identities": [{"id": one.id, "scopes": sorted(one.scopes)} for one in who],
        "endpoints": [_endpoint(bound.catalogue[endpoint_id]) for endpoint_id in cells],
        "paths": list(paths),
        "cells": cells,
    }


def identities(bound: BoundPolicy) -> list[Identity]:
    """Who could call: those the policy names, whoever calls without a token, else the one of ABX_SERVER_TOKEN."""
    named = [token.identity for token in bound.tokens]
    named += [bound.anonymous] if bound.anonymous is not None else []
    return list({one.id: one for one in named}.values()) or [Identity("server", frozenset({"*"}))]


def _endpoint(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "id": endpoint.id,
        "group": endpoint.group,
        "summary": endpoint.summary,
        "path_bearing": endpoint.path_bearing,
    }


def _cell(
    bound: BoundPolicy, endpoint: Endpoint, who: Identity, paths: Sequence[str], op: str | None, guards: PathJudges
) -> dict[str, Any]:
    decision = bound.explain(endpoint.id, identity=who, guards=guards)
    cell: dict[str, Any] = {name: decision.get(name) for name in ("allowed", "code", "reason", "would")}
    cell["rule"] = bound.rule(endpoint.id).rule
    with contextlib.suppress(Refusal):
        cell |= _bounds(bound, bound.admit(who, endpoint))
        if endpoint.path_bearing:
            cell["asked"] = [
                {"path": path, **_asked(bound.explain(endpoint.id, identity=who, path=path, op=op, guards=guards))}
                for path in paths
            ]
    return cell


def _asked(decision: dict[str, Any]) -> dict[str, Any]:
    return {name: decision.get(name) for name in ("allowed", "code", "reason", "would")}


def _bounds(bound: BoundPolicy, grant: Grant) -> dict[str, Any]:
    """What still holds for a call that is let in, and who makes it hold."""
    bounds: dict[str, Any] = {
        "limits": {name: grant.limits[name] for name in sorted(grant.configured_limits)},
        "params": {name: list(v) if isinstance(v, tuple) else v for name, v in sorted(grant.params.items())},
    }
    if grant.endpoint.path_bearing:
        rule = grant.paths
        bounds["paths"] = {
            "allow": list((bound.base_dir,) if rule.allow is None else rule.allow),
            "within": [list(directories) for directories in rule.within],
            "deny": list(rule.deny),
            "read_only": rule.read_only,
            "bounded": rule.bounded,  # False: the whole base directory
            # of programs, where this kernel can: discovery of a running server tells
            "enforcement": "kernel" if rule.bounded and confinable(grant.endpoint) else "api",
        }
    return bounds
