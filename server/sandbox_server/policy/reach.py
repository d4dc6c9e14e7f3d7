"""Who may call what, where path rules bind whom, and which programs step around them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from ..access import Identity, PathRule
from ..catalogue import Endpoint
from .binding import anonymous
from .bound import BoundPolicy
from .rules import narrowed


def reaches(policy: BoundPolicy) -> Iterator[Reach]:
    """One for everybody who can call. Without tokens that would be an anonymous caller, admitted or not yet."""
    known = [token.identity for token in policy.tokens]
    if policy.anonymous is not None:
        known.append(policy.anonymous)
    return (Reach(policy, identity) for identity in known or [anonymous(policy.document)])


class Reach:
    """What one identity may do."""

    def __init__(self, policy: BoundPolicy, identity: Identity) -> None:
        self._policy = policy
        self.identity = identity
        rules = ((endpoint, policy.rule(endpoint.id)) for endpoint in policy.catalogue.values())
        #: Those that it may call.
        self.endpoints = [e for e, rule in rules if rule.enabled and all(map(identity.can, rule.scopes))]
        #: Those of them whose paths a rule restricts.
        self.scoped = [e for e in self.endpoints if e.path_bearing and _restricts(self.paths(e))]

    def paths(self, endpoint: Endpoint) -> PathRule:
        return narrowed(self._policy.rule(endpoint.id).paths, self.identity.paths)

    def writers(self, place: str) -> list[Endpoint]:
        """Those by which it may write at a place, which is no pattern."""
        writing = (e for e in self.endpoints if "write" in e.ops and not self.paths(e).read_only)
        return [e for e in writing if _is_in_reach(place, self._lists(self.paths(e)))]

    def unheld(self, runs: Sequence[Endpoint]) -> list[Endpoint]:
        """Those whose programs the kernel does not certainly keep inside every path rule of the others.

        The kernel keeps directories and read-only; `deny` is a matter of its own (L8).
        """
        return [endpoint for endpoint in runs if not (self._policy.require_landlock and self._holds(endpoint))]

    def _holds(self, runs: Endpoint) -> bool:
        own = self.paths(runs)
        if not own.bounded:
            return False
        held = self._lists(own)
        for other in map(self.paths, self.scoped):
            if other.read_only and not own.read_only:
                return False
            for roots in self._lists(other):
                if not any(all(any(_is_below(place, root) for root in roots) for place in places) for places in held):
                    return False
        return True

    def _lists(self, paths: PathRule) -> list[tuple[str, ...]]:
        """The lists of directories in force; a path must lie below one directory of each."""
        return [(self._policy.base_dir,) if paths.allow is None else paths.allow, *paths.within]


def runs_programs(endpoint: Endpoint) -> bool:
    return endpoint.executes_code or opens_terminal(endpoint)


def opens_terminal(endpoint: Endpoint) -> bool:
    return endpoint.group == "terminal" and endpoint.takes_paths


def plain(path: str) -> str:
    """The path as it is meant: absolute, without detours."""
    return os.path.normpath("/" + path.lstrip("/"))


def _restricts(paths: PathRule) -> bool:
    limited = paths.allow is not None or bool(paths.within) or bool(paths.deny) or paths.read_only
    return limited or paths.symlinks == "never" or paths.hardlinks == "deny"


def _is_in_reach(place: str, lists: Iterable[tuple[str, ...]]) -> bool:
    return all(any(_is_below(place, root) for root in roots) for roots in lists)


def _is_below(place: str, root: str) -> bool:
    place, root = plain(place), plain(root)
    return place == root or place.startswith(root.rstrip("/") + "/")
