"""What a policy probably does not mean to allow. L1 to L5 are the contract's, the others are ours; N are notes.

Nothing here changes a decision. A finding names who and what, why it matters, and what to write instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from ..access import Identity, PathRule
from ..catalogue import Endpoint
from .binding import anonymous
from .bound import BoundPolicy
from .commands import loose_pattern
from .rules import narrowed
from .wording import shown

Check = Callable[[BoundPolicy], Iterator[str]]


class LintWarning(NamedTuple):
    code: str
    message: str
    level: Literal["warning", "note"] = "warning"


def warnings(policy: BoundPolicy) -> list[LintWarning]:
    """Every warning about the policy, by code."""
    found = [LintWarning(code, message) for code, check in _CHECKS for message in check(policy)]
    found += [LintWarning(code, message) for code, message in policy.document_warnings]
    return sorted(found, key=lambda warning: int(warning.code[1:]))


def notes(policy: BoundPolicy) -> list[LintWarning]:
    """What is worth knowing, and what the contract's lint passes over: never a reason for `--strict` to fail."""
    return [LintWarning(code, message, "note") for code, check in _NOTES for message in check(policy)]


def file_warnings(path: str) -> list[LintWarning]:
    """L5: the file, or the directory it lies in, is writable by this process's user."""
    places = (("file", path), ("directory", os.path.dirname(os.path.abspath(path))))
    return [
        LintWarning(
            "L5",
            f"the policy's {kind} {shown(place)} is writable by this server's user, who could relax the policy; "
            "give it to root, mode 0644 or 0755",
        )
        for kind, place in places
        if os.access(place, os.W_OK)
    ]


def _identities(policy: BoundPolicy) -> list[Identity]:
    """Everybody who can call. Without tokens that would be an anonymous caller, admitted or not yet."""
    known = [token.identity for token in policy.tokens]
    if policy.anonymous is not None:
        return [*known, policy.anonymous]
    return known or [anonymous(policy.document)]


def _reach(policy: BoundPolicy, identity: Identity) -> list[Endpoint]:
    """The endpoints that this identity may call."""
    return [
        endpoint
        for endpoint in policy.catalogue.values()
        if policy.rule(endpoint.id).enabled and all(map(identity.can, policy.rule(endpoint.id).scopes))
    ]


def _paths(policy: BoundPolicy, identity: Identity, endpoint: Endpoint) -> PathRule:
    return narrowed(policy.rule(endpoint.id).paths, identity.paths)


def _scoped(policy: BoundPolicy, identity: Identity, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Those whose paths a rule restricts for this identity."""
    return [e for e in endpoints if e.path_bearing and _restricts(_paths(policy, identity, e))]


def _restricts(paths: PathRule) -> bool:
    limited = paths.allow is not None or bool(paths.within) or bool(paths.deny) or paths.read_only
    return limited or paths.symlinks == "never" or paths.hardlinks == "deny"


def _runs_programs(endpoint: Endpoint) -> bool:
    return endpoint.executes_code or _opens_terminal(endpoint)


def _opens_terminal(endpoint: Endpoint) -> bool:
    return endpoint.group == "terminal" and endpoint.takes_paths


def _unheld(
    policy: BoundPolicy, identity: Identity, runs: Sequence[Endpoint], scoped: Sequence[Endpoint]
) -> list[Endpoint]:
    """Those whose programs the kernel does not certainly keep inside every path rule of the others.

    The kernel keeps directories and read-only; `deny` is a matter of its own (L8).
    """
    return [e for e in runs if not (policy.require_landlock and _inside(policy, identity, e, scoped))]


def _inside(policy: BoundPolicy, identity: Identity, runs: Endpoint, scoped: Sequence[Endpoint]) -> bool:
    own = _paths(policy, identity, runs)
    if not own.bounded:
        return False
    held = _lists(policy, own)
    for other in scoped:
        paths = _paths(policy, identity, other)
        if paths.read_only and not own.read_only:
            return False
        for roots in _lists(policy, paths):
            if not any(all(any(_is_below(place, root) for root in roots) for place in places) for places in held):
                return False
    return True


def _lists(policy: BoundPolicy, paths: PathRule) -> list[tuple[str, ...]]:
    """The lists of directories in force; a path must lie below one directory of each."""
    return [(policy.base_dir,) if paths.allow is None else paths.allow, *paths.within]


def _is_below(place: str, root: str) -> bool:
    place, root = _plain(place), _plain(root)
    return place == root or place.startswith(root.rstrip("/") + "/")


def _plain(path: str) -> str:
    return os.path.normpath("/" + path.lstrip("/"))


def _names(endpoints: Sequence[Endpoint]) -> str:
    shown_ids = [endpoint.id for endpoint in endpoints[:5]]
    more = len(endpoints) - len(shown_ids)
    return ", ".join(shown_ids) + (f" and {more} more" if more else "")


def _execution_beside_paths(policy: BoundPolicy) -> Iterator[str]:
    for identity in _identities(policy):
        reach = _reach(policy, identity)
        scoped = _scoped(policy, identity, reach)
        runs = _unheld(policy, identity, [e for e in reach if e.executes_code], scoped)
        if scoped and runs:
            yield (
                f"{shown(identity.id)} has path rules ({_names(scoped)}) and may also run programs ({_names(runs)}), "
                "which step around them; take one away, or give what runs its own paths.allow and set require_landlock"
            )


def _terminal_beside_paths(policy: BoundPolicy) -> Iterator[str]:
    for identity in _identities(policy):
        reach = _reach(policy, identity)
        scoped = _scoped(policy, identity, reach)
        if _unheld(policy, identity, [e for e in reach if e.executes_code], scoped):
            continue  # L1 says so already
        terminals = _unheld(policy, identity, [e for e in reach if _opens_terminal(e)], scoped)
        if scoped and terminals:
            yield (
                f"{shown(identity.id)} has path rules ({_names(scoped)}) and may also open a terminal "
                f"({_names(terminals)}), which steps around them; switch the group terminal off"
            )


def _whole_file_system(policy: BoundPolicy) -> Iterator[str]:
    for endpoint, place in _allowed(policy):
        if os.path.normpath(place) == "/":
            yield f"{endpoint.id} may reach the whole file system (paths.allow {shown(place)}); name directories"


def _whole_file_system_respelt(policy: BoundPolicy) -> Iterator[str]:
    for endpoint, place in _allowed(policy):
        if _plain(place) == "/" != os.path.normpath(place):
            yield f"{endpoint.id} may reach the whole file system: paths.allow {shown(place)} is /; name directories"


def _patterns_in_allow(policy: BoundPolicy) -> Iterator[str]:
    for endpoint, place in _allowed(policy):
        if any(character in place for character in "*?["):
            yield (
                f"paths.allow of {endpoint.id} has {shown(place)}, which is taken literally, not as a pattern; "
                "name the directories"
            )


def _allowed(policy: BoundPolicy) -> Iterator[tuple[Endpoint, str]]:
    """Every distinct allow entry in force, with the first endpoint that has it."""
    seen: set[str] = set()
    for endpoint in policy.catalogue.values():
        rule = policy.rule(endpoint.id)
        for place in (rule.paths.allow or ()) if rule.enabled else ():
            if place not in seen:
                seen.add(place)
                yield endpoint, place


def _wildcard_beside_tokens(policy: BoundPolicy) -> Iterator[str]:
    if len(policy.tokens) > 1:
        for token in policy.tokens:
            if "*" in token.identity.scopes:
                yield f'token {shown(token.identity.id)} holds every scope ("*") beside narrower ones; list its scopes'


def _overwrite_without_allow(policy: BoundPolicy) -> Iterator[str]:
    for endpoint in policy.catalogue.values():
        rule = policy.rule(endpoint.id)
        if rule.enabled and rule.params.get("overwrite") is False and rule.paths.allow is None:
            yield f"{endpoint.id} has overwrite: false and no paths.allow, so it may still fill the base directory"


def _deny_where_programs_run(policy: BoundPolicy) -> Iterator[str]:
    for identity in _identities(policy):
        reach = _reach(policy, identity)
        runs = [e for e in reach if _runs_programs(e)]
        denying = [e for e in reach if e.path_bearing and _paths(policy, identity, e).deny]
        if _unheld(policy, identity, runs, _scoped(policy, identity, reach)):
            denying = [e for e in denying if e in runs]  # L1 and N1 speak about the others
        if runs and denying:
            yield (
                f"paths.deny of {_names(denying)} judges the paths that {shown(identity.id)} names, not what its "
                f"programs open ({_names(runs)}); keep secrets out of paths.allow instead"
            )


def _loose_command_rules(policy: BoundPolicy) -> Iterator[str]:
    for endpoint in policy.catalogue.values():
        rule = policy.rule(endpoint.id)
        allow, deny = rule.params.get("allow_commands", ()), rule.params.get("deny_commands", ())
        if not rule.enabled:
            continue
        if deny and not allow:
            yield (
                f"deny_commands of {endpoint.id} stops nobody: a shell, env, or a copy under another name runs the "
                "same program; list allow_commands"
            )
        for pattern in allow:
            if program := loose_pattern(pattern):
                yield (
                    f"allow_commands of {endpoint.id} has {shown(pattern)}, and {shown(program)} runs any other "
                    "program; spell out its arguments"
                )


def _anonymous_wildcard(policy: BoundPolicy) -> Iterator[str]:
    if policy.tokens and policy.anonymous is not None and "*" in policy.anonymous.scopes:
        yield 'callers without a token hold every scope ("*") although there are tokens; list auth.anonymous_scopes'


def _confusing_tokens(policy: BoundPolicy) -> Iterator[str]:
    holders: dict[bytes, str] = {}
    for token in policy.tokens:
        identity = token.identity.id
        if identity in ("*", "anonymous", "check"):
            yield f"a token is called {shown(identity)}, which audit lines use for something else; rename it"
        if token.digest in holders:
            first = shown(holders[token.digest])
            yield f"tokens {first} and {shown(identity)} share a secret; {first} always wins"
        holders.setdefault(token.digest, identity)


def _observing(policy: BoundPolicy) -> Iterator[str]:
    if policy.mode == "observe":
        yield (
            'mode "observe" refuses nothing within the base directory: endpoints that are switched off run; scopes, '
            'deny and command rules are only noted in the audit log; write "enforce" before relying on the policy'
        )


def _commands_beside_paths(policy: BoundPolicy) -> Iterator[str]:
    for identity in _identities(policy):
        reach = _reach(policy, identity)
        if _scoped(policy, identity, reach) and any(endpoint.id == "run_command" for endpoint in reach):
            yield f"{shown(identity.id)} has path rules; custom commands (run_command) do what their code does"


def _base_dir_beside_execution(policy: BoundPolicy) -> Iterator[str]:
    if "base_dir" not in policy.document:
        return
    for identity in _identities(policy):
        reach = _reach(policy, identity)
        runs = [e for e in reach if _runs_programs(e)]
        if runs and not _scoped(policy, identity, reach):
            who = shown(identity.id)
            yield f"base_dir bounds the paths that {who} names, not what its programs open ({_names(runs)})"


def _missing_directories(policy: BoundPolicy) -> Iterator[str]:
    for endpoint, place in _allowed(policy):
        try:
            os.stat(place)
        except OSError:
            yield f"paths.allow of {endpoint.id} has {shown(place)}, which is not there (yet)"


_CHECKS: tuple[tuple[str, Check], ...] = (
    ("L1", _execution_beside_paths),
    ("L2", _whole_file_system),
    ("L3", _wildcard_beside_tokens),
    ("L4", _overwrite_without_allow),
    ("L7", _patterns_in_allow),
    ("L8", _deny_where_programs_run),
    ("L9", _loose_command_rules),
    ("L10", _anonymous_wildcard),
    ("L11", _confusing_tokens),
    ("L13", _observing),
)
_NOTES: tuple[tuple[str, Check], ...] = (
    ("N1", _terminal_beside_paths),
    ("N2", _whole_file_system_respelt),
    ("N3", _commands_beside_paths),
    ("N4", _base_dir_beside_execution),
    ("N5", _missing_directories),
)
