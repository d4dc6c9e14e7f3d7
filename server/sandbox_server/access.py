"""Who may do what: identities, path rules and grants, as values. The policy makes them, guards obey them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from .catalogue import Endpoint
from .messages import Refusal

Op = Literal["read", "write", "delete", "exec"]
OPS: tuple[Op, ...] = ("read", "write", "delete", "exec")


class PathRule(NamedTuple):
    """The ``paths`` block in force for one call.

    `allow` is None when no list was written (the base directory is the root); an empty tuple allows nothing.
    A path must lie below one directory of *every* entry of `within` too: that is how an identity's own
    list narrows the endpoint's.
    """

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    read_only: bool = False
    symlinks: Literal["within", "never"] = "within"
    hardlinks: Literal["allow", "deny"] = "allow"
    within: tuple[tuple[str, ...], ...] = ()

    @property
    def bounded(self) -> bool:
        """True when a list of directories was written, for the endpoint or for the identity."""
        return self.allow is not None or bool(self.within)


class Scope(NamedTuple):
    """Where the kernel keeps a child: these directories, as open descriptors of ours, and the system, to run it."""

    directories: tuple[int, ...]
    read_only: bool = False


#: What every identity may do: ask what it may do.
IMPLICIT_SCOPE = "core:read"


def covers(granted: Iterable[str], scope: str) -> bool:
    """True when one of the granted scopes is ``*``, the scope itself, or its namespace with ``:*``."""
    return not {"*", scope, f"{scope.partition(':')[0]}:*"}.isdisjoint(granted)


class Identity(NamedTuple):
    """Who is calling: a name, scopes, and paths that only ever narrow."""

    id: str
    scopes: frozenset[str]
    paths: PathRule | None = None

    def can(self, scope: str) -> bool:
        return scope == IMPLICIT_SCOPE or covers(self.scopes, scope)


ANYONE = Identity("anonymous", frozenset())


class Grant(NamedTuple):
    """What the policy gave this identity for this call. Limits hold their defaults; None is unlimited."""

    identity: Identity
    endpoint: Endpoint
    paths: PathRule = PathRule()
    limits: Mapping[str, float | int | None] = MappingProxyType({})
    configured_limits: frozenset[str] = frozenset()  # names that a policy wrote
    params: Mapping[str, Any] = MappingProxyType({})
    audit: Literal["off", "deny", "all"] = "deny"
    rule: str | None = None  # the deciding rule, as in "policy:endpoints.files_*"
    strict: Grant | None = None  # under `mode: observe`: what holds when the policy is enforced
    would: Refusal | None = None  # and how the call would have been refused before anything of it was looked at

    def size(self, name: str) -> int | None:
        """A limit in whole units, None when unlimited."""
        value = self.limits.get(name)
        return None if value is None else int(value)

    def written_size(self, name: str) -> int | None:
        """The same where a policy writes it: for what is not held in memory, which is what defaults are for."""
        return self.size(name) if name in self.configured_limits else None

    def seconds(self, name: str) -> float | None:
        value = self.limits.get(name)
        return None if value is None else float(value)
