"""A policy in force: bound to a catalogue and an environment. Admits calls, and explains what it would do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from ..access import OPS, Grant, Identity, Op, PathRule
from ..auth import Token
from ..catalogue import Catalogue, Endpoint
from ..messages import Refusal
from .observing import observed
from .rules import Audit, EffectiveRule, narrowed
from .wording import shown, suggestion

if TYPE_CHECKING:
    from .lint import LintWarning
    from .server_policy import ServerPolicy

Mode = Literal["enforce", "observe"]


class PathJudge(Protocol):
    """Decides about one path from its text alone."""

    def check(self, raw: object, op: Op) -> str: ...


class PathJudges(Protocol):
    """The judge of each path rule; `guards.paths.PathGuards` is one."""

    def of(self, rule: PathRule) -> PathJudge: ...


class _Bound(NamedTuple):
    policy: ServerPolicy  # as written, and the token of ABX_SERVER_TOKEN where that is the only one
    catalogue: Catalogue
    base_dir: str
    preset: str
    mode: Mode
    require_landlock: bool
    tokens: tuple[Token, ...]
    anonymous: Identity | None  # who calls without a credential; None means nobody may
    secret_names: frozenset[str]  # variables withheld from children
    rules: Mapping[str, EffectiveRule]
    audit_unrouted: Audit
    document_warnings: tuple[tuple[str, str], ...] = ()  # code, message
    command_scopes: frozenset[str] = frozenset()  # what custom commands ask for beside the endpoint's


class BoundPolicy(_Bound):
    """What one server enforces. Nothing of it changes while the server runs."""

    @cached_property
    def _grants(self) -> dict[tuple[str, str], Grant]:
        return {}

    @property
    def document(self) -> dict[str, Any]:
        """A copy of the normalised document."""
        return self.policy.document

    @property
    def revision(self) -> str:
        return self.policy.revision

    @property
    def configured(self) -> bool:
        return self.policy.configured

    @property
    def source(self) -> str | None:
        """The file that the policy was read from."""
        return self.policy.source

    @property
    def warnings(self) -> list[str]:
        """What is odd about the document itself; `lint` has these too."""
        return [message for _, message in self.document_warnings]

    @property
    def asked_scopes(self) -> frozenset[str]:
        """Every scope that some call needs: a grant that covers none of them does nothing."""
        return self.command_scopes.union(*(rule.scopes for rule in self.rules.values()))

    def rule(self, endpoint_id: str) -> EffectiveRule:
        return self.rules[endpoint_id]

    def admit(self, identity: Identity, endpoint: Endpoint) -> Grant:
        """What this identity gets for a call of this endpoint. Raises `Refusal`."""
        key = (identity.id, endpoint.route)
        known = self._grants.get(key)
        if known is not None and known.identity is identity:
            return known
        grant = self._grant(identity, endpoint)
        refusal = self._objection(identity, endpoint)
        if self.mode == "observe":
            grant = observed(grant, refusal, self.base_dir)
        elif refusal is not None:
            raise refusal
        if identity is self.anonymous or any(identity is token.identity for token in self.tokens):
            self._grants[key] = grant  # bounded: identities are few and fixed; made-up ones are never kept
        return grant

    def _objection(self, identity: Identity, endpoint: Endpoint) -> Refusal | None:
        """Why this identity may not call this endpoint at all; None when it may."""
        rule = self.rules[endpoint.id]
        if not rule.enabled:
            return Refusal("endpoint_disabled", f'"{endpoint.id}" is switched off by {rule.rule}', rule=rule.rule)
        for scope in rule.scopes:
            if not identity.can(scope):
                return Refusal(
                    "missing_scope",
                    f'"{endpoint.id}" needs the scope "{scope}", which {shown(identity.id)} does not hold',
                    scope=scope,
                    identity=identity.id,
                )
        return None

    def _grant(self, identity: Identity, endpoint: Endpoint) -> Grant:
        rule = self.rules[endpoint.id]
        return Grant(
            identity=identity,
            endpoint=endpoint,
            paths=narrowed(rule.paths, identity.paths),
            limits=rule.limits,
            configured_limits=rule.configured_limits,
            params=rule.params,
            audit=rule.audit,
            rule=rule.rule,
        )

    def explain(
        self,
        endpoint_id: str,
        *,
        scopes: Iterable[str] = ("*",),
        identity: Identity | None = None,
        path: object = None,
        paths: Sequence[object] | None = None,
        op: str | None = None,
        guards: PathJudges | None = None,
    ) -> dict[str, Any]:
        """Would this call be admitted? `admit` and the path guard decide, exactly as for a real call.

        Under `mode: observe` the answer also says which refusal would be noted.
        """
        probed = [*(() if path is None else (path,)), *(paths or ())]
        endpoint = self.catalogue.get(endpoint_id)
        if endpoint is None:
            near = suggestion(endpoint_id, self.catalogue)
            return _refused(endpoint_id, "unknown_endpoint", f"no endpoint {shown(endpoint_id)}{near}")
        try:
            grant = self.admit(identity or Identity("check", frozenset(scopes)), endpoint)
        except Refusal as refusal:
            return {**_refused(endpoint_id, refusal.code, refusal.message), "rule": refusal.facts.get("rule")}
        with self._judges(guards) as judges:
            would = denied = _refusal(judges.of((grant.strict or grant).paths), probed, op, endpoint)
            if grant.strict is not None:
                denied = _refusal(judges.of(grant.paths), probed, op, endpoint)
        if denied is not None:
            return _refused(endpoint_id, denied.code, denied.message)
        answer = {"endpoint": endpoint_id, "allowed": True, "code": None, "reason": None}
        would = grant.would or would
        return answer if would is None else {**answer, "would": would.code, "reason": would.message}

    def _judges(self, given: PathJudges | None) -> contextlib.AbstractContextManager[PathJudges]:
        """The judges that were given, else some for this one question."""
        if given is not None:
            return contextlib.nullcontext(given)
        from ..guards.paths import PathGuards

        return contextlib.closing(PathGuards(self.base_dir))

    def deciding(self, endpoint: Endpoint, identity: Identity, code: str | None) -> str | None:
        """The rule that an audit line names for an outcome."""
        rule = self.rules[endpoint.id]
        if code is None:
            return rule.rule
        from .deciding import deciding

        return deciding(rule, identity, code)

    def rows(self) -> list[dict[str, Any]]:
        """One line per endpoint, sorted by id, for people and for ``check-config --json``."""
        return [self._row(self.catalogue[endpoint_id]) for endpoint_id in sorted(self.catalogue)]

    def _row(self, endpoint: Endpoint) -> dict[str, Any]:
        rule = self.rules[endpoint.id]
        allow = (self.base_dir,) if rule.paths.allow is None else rule.paths.allow
        return {
            "endpoint": endpoint.id,
            "group": endpoint.group,
            "enabled": rule.enabled,
            "rule": rule.rule,
            "scopes": list(rule.scopes),
            "limits": {name: rule.limits[name] for name in sorted(rule.configured_limits)},
            "paths": {"allow": list(allow), "deny": list(rule.paths.deny), "read_only": rule.paths.read_only},
        }

    def lint(self) -> list[LintWarning]:
        """What this policy probably does not mean to allow."""
        from .lint import warnings

        return warnings(self)

    def lint_file(self, path: str) -> list[LintWarning]:
        """Whether those whom a policy file binds could change it."""
        from .lint import file_warnings

        return file_warnings(path)

    def notes(self) -> list[LintWarning]:
        """What is worth knowing about this policy beside its warnings."""
        from .lint import notes

        return notes(self)


def _operation(op: str | None, endpoint: Endpoint) -> Op:
    """The operation that was asked about, else the endpoint's own."""
    if op is None:
        return endpoint.default_op or "read"
    if op not in OPS:
        raise ValueError(f"{shown(op)} is no operation; use one of {', '.join(OPS)}")
    return op


def _refusal(judge: PathJudge, paths: Sequence[object], op: str | None, endpoint: Endpoint) -> Refusal | None:
    """Why one of the paths is refused; None when none is."""
    try:
        for raw in paths:
            judge.check(raw, _operation(op, endpoint))
    except Refusal as refusal:
        return refusal
    return None


def _refused(endpoint_id: str, code: str, reason: str) -> dict[str, Any]:
    return {"endpoint": endpoint_id, "allowed": False, "code": code, "reason": reason}
