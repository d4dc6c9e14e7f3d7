"""What a policy probably does not mean to allow. L1 to L5 are the contract's, the others are ours; N are notes.

Nothing here changes a decision. A finding names who and what, why it matters, and what to write instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from ..catalogue import Endpoint
from ..services import PROGRAM_PATH
from .bound import BoundPolicy
from .commands import loose_pattern
from .reach import opens_terminal, plain, reaches, runs_programs
from .scopes import idle
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


def _names(endpoints: Sequence[Endpoint]) -> str:
    shown_ids = [endpoint.id for endpoint in endpoints[:5]]
    more = len(endpoints) - len(shown_ids)
    return ", ".join(shown_ids) + (f" and {more} more" if more else "")


def _execution_beside_paths(policy: BoundPolicy) -> Iterator[str]:
    for reach in reaches(policy):
        runs = reach.unheld([e for e in reach.endpoints if e.executes_code])
        if reach.scoped and runs:
            yield (
                f"{shown(reach.identity.id)} has path rules ({_names(reach.scoped)}) and may also run programs "
                f"({_names(runs)}), which step around them; take one away, or give what runs its own paths.allow and "
                "set require_landlock"
            )


def _terminal_beside_paths(policy: BoundPolicy) -> Iterator[str]:
    for reach in reaches(policy):
        if reach.unheld([e for e in reach.endpoints if e.executes_code]):
            continue  # L1 says so already
        terminals = reach.unheld([e for e in reach.endpoints if opens_terminal(e)])
        if reach.scoped and terminals:
            yield (
                f"{shown(reach.identity.id)} has path rules ({_names(reach.scoped)}) and may also open a terminal "
                f"({_names(terminals)}), which steps around them; switch the group terminal off"
            )


def _whole_file_system(policy: BoundPolicy) -> Iterator[str]:
    for endpoint, place in _allowed(policy):
        if os.path.normpath(place) == "/":
            yield f"{endpoint.id} may reach the whole file system (paths.allow {shown(place)}); name directories"


def _whole_file_system_respelt(policy: BoundPolicy) -> Iterator[str]:
    for endpoint, place in _allowed(policy):
        if plain(place) == "/" != os.path.normpath(place):
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
    for reach in reaches(policy):
        runs = [e for e in reach.endpoints if runs_programs(e)]
        denying = [e for e in reach.endpoints if e.path_bearing and reach.paths(e).deny]
        if reach.unheld(runs):
            denying = [e for e in denying if e in runs]  # L1 and N1 speak about the others
        if runs and denying:
            yield (
                f"paths.deny of {_names(denying)} judges the paths that {shown(reach.identity.id)} names, not what its "
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


def _programs_in_reach(policy: BoundPolicy) -> Iterator[str]:
    for reach in reaches(policy):
        ruled = [e for e in reach.endpoints if policy.rule(e.id).params.get("allow_commands")]
        for directory in PROGRAM_PATH if ruled else ():
            if writers := reach.writers(directory):
                yield (
                    f"allow_commands of {_names(ruled)} names programs that {shown(reach.identity.id)} may replace: "
                    f"{_names(writers)} may write to {shown(directory)}; allow directories without programs"
                )
                break


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


def _idle_scopes(policy: BoundPolicy) -> Iterator[str]:
    asked = policy.asked_scopes
    for token in policy.tokens:
        for scope, hint in idle(token.identity.scopes, asked):
            yield f"token {shown(token.identity.id)} holds {scope}, which no endpoint asks for{hint}"
    for scope, hint in idle(policy.anonymous.scopes if policy.anonymous else (), asked):
        yield f"callers without a token hold {scope}, which no endpoint asks for{hint}"


def _commands_beside_paths(policy: BoundPolicy) -> Iterator[str]:
    for reach in reaches(policy):
        if reach.scoped and any(endpoint.id == "run_command" for endpoint in reach.endpoints):
            yield f"{shown(reach.identity.id)} has path rules; custom commands (run_command) do what their code does"


def _base_dir_beside_execution(policy: BoundPolicy) -> Iterator[str]:
    if "base_dir" not in policy.document:
        return
    for reach in reaches(policy):
        runs = [e for e in reach.endpoints if runs_programs(e)]
        if runs and not reach.scoped:
            who = shown(reach.identity.id)
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
    ("L14", _programs_in_reach),
    ("L15", _idle_scopes),
)
_NOTES: tuple[tuple[str, Check], ...] = (
    ("N1", _terminal_beside_paths),
    ("N2", _whole_file_system_respelt),
    ("N3", _commands_beside_paths),
    ("N4", _base_dir_beside_execution),
    ("N5", _missing_directories),
)
