"""Putting a policy in force: its document, the catalogue and the environment become a `BoundPolicy`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ..access import Identity
from ..auth import Token
from ..catalogue import Catalogue, Endpoint
from .bound import BoundPolicy
from .presets import preset_document
from .reading import FILE, INLINE
from .rules import Layer, Rule, by_precedence, document_rules, effective, group_rule, path_rule, unmet, unrouted_audit
from .selectors import ALIASES, OLD_NAMES, Kind, groups_of
from .server_policy import ServerPolicy
from .wording import PolicyConfigError, part, shown, suggestion

DEFAULT_BASE_DIR = "/home/user"
TOKEN, GROUPS_ON, BASE_DIR = "ABX_SERVER_TOKEN", "ABX_SERVER_ENABLED_GROUPS", "ABX_SERVER_BASE_DIR"
UPLOAD_SIZE = "ABX_MAX_UPLOAD_SIZE"


def bind(
    policy: ServerPolicy,
    catalogue: Catalogue,
    *,
    environ: Mapping[str, str],
    base_dir: str | None,
    code_groups: Mapping[str, bool],
    allow_anonymous: bool,
    command_scopes: Iterable[str],
) -> BoundPolicy:
    """Check the document against this server and merge its layers. Raises `PolicyConfigError`."""
    policy = _with_environment_token(policy, environ)
    document = policy.document
    place = _base_dir(document, base_dir, environ)
    preset = document.get("preset", "default")
    written = document_rules(document, Layer.POLICY, "policy")
    for rule in written:
        _check(rule, catalogue)
    rules = by_precedence(
        [
            *_opt_in_rules(catalogue),
            *_code_rules(code_groups, catalogue),
            *document_rules(preset_document(preset, catalogue, place), Layer.PRESET, f"preset:{preset}"),
            *written,
            *_environment_rules(environ, catalogue),
        ]
    )
    observe = document.get("mode") == "observe"
    auth = document.get("auth", {})
    tokens = tuple(_token(entry, environ) for entry in auth.get("tokens", ()))
    return BoundPolicy(
        policy=policy,
        catalogue=catalogue,
        base_dir=place,
        preset=preset,
        mode="observe" if observe else "enforce",
        require_landlock=document.get("require_landlock", False),
        tokens=tokens,
        anonymous=anonymous(document) if allow_anonymous or auth.get("allow_anonymous") else None,
        secret_names=frozenset({TOKEN, INLINE, FILE, *_token_variables(document)}),
        rules=MappingProxyType(
            {e.id: effective(_with_upload_size(e, environ), rules, observe=observe) for e in catalogue.values()}
        ),
        audit_unrouted=unrouted_audit(rules, observe=observe),
        document_warnings=(*old_names(document), *_idle_globs(written, catalogue)),
        command_scopes=frozenset(command_scopes),
    )


def anonymous(document: Mapping[str, Any]) -> Identity:
    """Who a caller without a credential is: holds what was written, else everything only when there are no tokens."""
    auth = document.get("auth", {})
    scopes = auth.get("anonymous_scopes", () if auth.get("tokens") else ("*",))
    return Identity("anonymous", frozenset(scopes))


def old_names(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A warning for every selector that is the old name of an endpoint."""
    for name in OLD_NAMES:
        if name in document.get("endpoints", {}):
            yield "L12", f'policy.endpoints.{name}: an old name; write "{ALIASES[name][0]}"'


def _idle_globs(rules: list[Rule], catalogue: Catalogue) -> Iterator[tuple[str, str]]:
    for rule in rules:
        if rule.selector.kind is Kind.GLOB and not any(map(rule.selector.matches, catalogue.values())):
            yield "L6", f"{rule.path}: the glob matches no endpoint, so the rule does nothing"


def _with_environment_token(policy: ServerPolicy, environ: Mapping[str, str]) -> ServerPolicy:
    """A lone ABX_SERVER_TOKEN is an identity like any other, and part of the document."""
    auth = policy.document.get("auth", {})
    if not environ.get(TOKEN) or auth.get("tokens"):
        return policy
    server = {"id": "server", "scopes": ["*"], "token_env": TOKEN}
    return policy.with_options(auth={**auth, "tokens": [server]})


def _base_dir(document: Mapping[str, Any], given: str | None, environ: Mapping[str, str]) -> str:
    if "base_dir" in document:
        return str(document["base_dir"])
    if given:
        return os.path.abspath(given)
    place = environ.get(BASE_DIR) or DEFAULT_BASE_DIR
    if not place.startswith("/") or "\0" in place:
        raise PolicyConfigError(BASE_DIR, f"{shown(place)} is no absolute path; start it with /")
    return place


def _with_upload_size(endpoint: Endpoint, environ: Mapping[str, str]) -> Endpoint:
    """The environment may hold another default for the size of an upload; what is no number is ignored."""
    text = environ.get(UPLOAD_SIZE, "").strip()
    if endpoint.id != "files_upload_stream" or not (text.isascii() and text.isdigit() and len(text) < 19):
        return endpoint
    return endpoint._replace(limits={**endpoint.limits, "max_bytes": int(text)})


def _check(rule: Rule, catalogue: Catalogue) -> None:
    """The rule speaks about something that this server has."""
    selector = rule.selector
    if selector.kind is Kind.GROUP and rule.path:
        known = groups_of(catalogue.values())
        if selector.group not in known:
            raise PolicyConfigError(rule.path, f"unknown group{suggestion(selector.group, known)}")
    for endpoint_id in selector.ids:
        if endpoint_id not in catalogue:
            choices = (*catalogue, "transfer")
            raise PolicyConfigError(rule.path, f"unknown endpoint{suggestion(endpoint_id, choices)}")
        if path := unmet(rule, catalogue[endpoint_id]):
            raise PolicyConfigError(path, f'does not apply to "{endpoint_id}"')


def _opt_in_rules(catalogue: Catalogue) -> Iterator[Rule]:
    for group in groups_of(e for e in catalogue.values() if e.opt_in):
        yield group_rule(group, False, Layer.BUILT_IN, f"default:opt-in:{group}")


def _code_rules(code_groups: Mapping[str, bool], catalogue: Catalogue) -> Iterator[Rule]:
    for group, enabled in code_groups.items():
        _known_group(group, f"code:enable_group:{group}", catalogue)
        yield group_rule(group, enabled, Layer.CODE, f"code:enable_group:{group}")


def _environment_rules(environ: Mapping[str, str], catalogue: Catalogue) -> Iterator[Rule]:
    for group in map(str.strip, environ.get(GROUPS_ON, "").split(",")):
        if group and group != "core":
            _known_group(group, GROUPS_ON, catalogue)
            yield group_rule(group, True, Layer.ENVIRONMENT, f"env:{GROUPS_ON}:{group}")


def _known_group(group: str, path: str, catalogue: Catalogue) -> None:
    known = groups_of(catalogue.values())
    if group not in known:
        raise PolicyConfigError(path, f"unknown group {shown(group)}{suggestion(group, known)}")


def _token(entry: Mapping[str, Any], environ: Mapping[str, str]) -> Token:
    paths = path_rule(entry["paths"]) if "paths" in entry else None
    identity = Identity(entry["id"], frozenset(entry["scopes"]), paths)
    if "token_sha256" in entry:
        return Token(bytes.fromhex(entry["token_sha256"]), identity)
    # Blanks are cut off as they are from a header field's value; and line ends, which files have.
    secret = environ.get(entry["token_env"], "").strip(" \t\r\n")
    if not secret:
        variable = shown(entry["token_env"])
        raise PolicyConfigError(
            f"policy.auth.tokens[{part(entry['id'])}]", f"environment variable {variable} is not set"
        )
    return Token(hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest(), identity)


def _token_variables(document: Mapping[str, Any]) -> Iterator[str]:
    for entry in document.get("auth", {}).get("tokens", ()):
        if "token_env" in entry:
            yield entry["token_env"]
