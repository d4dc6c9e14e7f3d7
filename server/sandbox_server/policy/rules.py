"""Layers of rules to one effective rule per endpoint.

Matching rules are ordered by selector kind, layer, the characters before the first ``*``, and document order; later
ones override earlier ones, key by key. Only ``enabled`` is decided differently: of the rules that set it, those with
the highest (kind, layer) count, and among them any ``false`` wins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, cast

from ..access import PathRule
from ..catalogue import COMMON_LIMITS, PARAMS, Endpoint
from .selectors import DEFAULTS, GROUP_PREFIX, Kind, Selector, parse_selector
from .wording import below

Audit = Literal["off", "deny", "all"]


class Layer(IntEnum):
    """Where a rule was written; at the same selector kind the higher layer wins."""

    BUILT_IN = 0
    CODE = 1
    PRESET = 2
    POLICY = 3
    ENVIRONMENT = 4


class Rule(NamedTuple):
    """One rule of one layer. `origin` names it in refusals, `path` in configuration errors."""

    selector: Selector
    layer: Layer
    origin: str
    body: Mapping[str, Any]
    path: str = ""

    @property
    def strength(self) -> tuple[Kind, Layer]:
        return self.selector.kind, self.layer


class EffectiveRule(NamedTuple):
    """What the layers make of one endpoint, before anybody calls it."""

    enabled: bool
    rule: str | None  # the rule that decided `enabled`; None when no rule spoke
    scopes: tuple[str, ...]
    paths: PathRule
    limits: Mapping[str, float | int | None]
    configured_limits: frozenset[str]
    params: Mapping[str, Any]
    audit: Audit
    origins: Mapping[str, tuple[str, ...]] = MappingProxyType({})  # key, as in "paths.deny" -> the rules it is from


def group_rule(group: str, enabled: bool, layer: Layer, origin: str) -> Rule:
    """A rule that does nothing but switch a group."""
    return Rule(parse_selector(GROUP_PREFIX + group), layer, origin, {"enabled": enabled})


def document_rules(document: Mapping[str, Any], layer: Layer, origin: str) -> list[Rule]:
    """The rules of a normalised document, in document order."""
    rules = []
    if "defaults" in document:
        path = "policy.defaults"
        rules.append(Rule(parse_selector(DEFAULTS), layer, f"{origin}:defaults", document["defaults"], path))
    for group, enabled in document.get("groups", {}).items():
        rules.append(group_rule(group, enabled, layer, f"{origin}:groups.{group}"))
    for text, body in document.get("endpoints", {}).items():
        path = below("policy.endpoints", text)
        rules.append(Rule(parse_selector(text), layer, f"{origin}:endpoints.{text}", body, path))
    return rules


def by_precedence(rules: Iterable[Rule]) -> list[Rule]:
    """Weakest first; the sort is stable, so document order breaks ties."""
    return sorted(rules, key=lambda rule: (*rule.strength, rule.selector.specificity))


def unmet(rule: Rule, endpoint: Endpoint) -> str | None:
    """The JSON path of the first key of an exact rule that cannot apply to its endpoint."""
    body = rule.body
    if "paths" in body and not endpoint.path_bearing:
        return f"{rule.path}.paths"
    for key in body.get("limits", {}):
        if not has_limit(endpoint, key):
            return f"{rule.path}.limits.{key}"
    for key in body.get("params", {}):
        if key not in endpoint.params:
            return f"{rule.path}.params.{key}"
    return None


def has_limit(endpoint: Endpoint, limit: str) -> bool:
    return limit in COMMON_LIMITS or limit in endpoint.limits


def effective(endpoint: Endpoint, rules: Sequence[Rule], *, observe: bool = False) -> EffectiveRule:
    """Merge the rules, weakest first, that match this endpoint."""
    matching = [rule for rule in rules if rule.selector.matches(endpoint)]
    enabled, decider = _switched(endpoint, matching)
    limits: dict[str, Any] = {}
    params: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    scopes, audit = endpoint.scopes, "deny"
    origins: dict[str, tuple[str, ...]] = {}
    for rule in matching:
        body = rule.body
        if "scopes" in body:
            scopes, origins["scopes"] = tuple(body["scopes"]), (rule.origin,)
        audit = body.get("audit", audit)
        limits.update((key, value) for key, value in body.get("limits", {}).items() if has_limit(endpoint, key))
        for key, value in body.get("params", {}).items():
            if key in endpoint.params:
                name = f"params.{key}"
                union = PARAMS[key].union
                params[key] = _merged(params.get(key, ()), value, union)
                origins[name] = (*(origins.get(name, ()) if union else ()), rule.origin)
        if endpoint.path_bearing:
            for key, value in body.get("paths", {}).items():
                name, union = f"paths.{key}", key == "deny"
                paths[key] = _merged(paths.get(key, ()), value, union)
                origins[name] = (*(origins.get(name, ()) if union else ()), rule.origin)
    return EffectiveRule(
        enabled=enabled,
        rule=decider,
        # health answers before anybody is known, so nobody could hold a scope
        scopes=() if endpoint.public else scopes,
        paths=path_rule(paths),
        limits=MappingProxyType({**COMMON_LIMITS, **endpoint.limits, **limits}),
        configured_limits=frozenset(limits),
        params=MappingProxyType(params),
        audit="all" if observe else cast(Audit, audit),
        origins=MappingProxyType(origins),
    )


def unrouted_audit(rules: Sequence[Rule], *, observe: bool = False) -> Audit:
    """The audit mode of requests that reach no rule: the strongest ``defaults`` decide."""
    audit = "deny"
    for rule in rules:
        if rule.selector.kind is Kind.DEFAULTS:
            audit = rule.body.get("audit", audit)
    return "all" if observe else cast(Audit, audit)


def path_rule(paths: Mapping[str, Any]) -> PathRule:
    """A ``paths`` block as the value that guards obey."""
    allow = paths.get("allow")
    return PathRule(
        allow=None if allow is None else tuple(allow),
        deny=tuple(dict.fromkeys(paths.get("deny", ()))),
        read_only=paths.get("read_only", False),
        symlinks=paths.get("symlinks", "within"),
        hardlinks=paths.get("hardlinks", "allow"),
    )


def narrowed(rule: PathRule, by: PathRule | None) -> PathRule:
    """Both rules at once: what either refuses is refused."""
    if by is None:
        return rule
    return PathRule(
        allow=rule.allow,
        deny=tuple(dict.fromkeys((*rule.deny, *by.deny))),
        read_only=rule.read_only or by.read_only,
        symlinks="never" if "never" in (rule.symlinks, by.symlinks) else "within",
        hardlinks="deny" if "deny" in (rule.hardlinks, by.hardlinks) else "allow",
        within=(*rule.within, *by.within, *(() if by.allow is None else (by.allow,))),
    )


def _switched(endpoint: Endpoint, matching: Sequence[Rule]) -> tuple[bool, str | None]:
    """On or off, and the rule that says so."""
    speaking = [rule for rule in matching if "enabled" in rule.body]
    if endpoint.core or not speaking:
        return True, None
    strongest = max(rule.strength for rule in speaking)
    decisive = [rule for rule in speaking if rule.strength == strongest]
    for rule in decisive:
        if not rule.body["enabled"]:
            return False, rule.origin
    return True, decisive[-1].origin


def _merged(known: Any, value: Any, union: bool) -> Any:
    if not isinstance(value, list):
        return value
    return tuple(dict.fromkeys((*known, *value))) if union else tuple(value)
