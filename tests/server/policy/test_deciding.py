"""Which rule an audit line names: the one, or all, that wrote what refused."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from sandbox_server import ServerPolicy
from sandbox_server.access import Identity
from sandbox_server.catalogue import builtin

DOCUMENT: dict[str, Any] = {
    "preset": "hardened",
    "defaults": {"scopes": ["a"]},
    "groups": {"dev_tools": True},
    "auth": {
        "tokens": [
            {
                "id": "narrow",
                "scopes": ["*"],
                "token_sha256": hashlib.sha256(b"n").hexdigest(),
                "paths": {"allow": ["/w/n"], "read_only": True},
            },
            {"id": "wide", "scopes": ["*"], "token_sha256": hashlib.sha256(b"w").hexdigest()},
        ]
    },
    "endpoints": {
        "files_*": {"paths": {"allow": ["/w"], "deny": ["*.pem"], "symlinks": "never", "hardlinks": "deny"}},
        "files_stat": {"scopes": ["b"], "paths": {"allow": ["/w/s"]}},
        "files_mkdir": {"enabled": False},
        "files_upload_stream": {"params": {"deny_extensions": [".exe"]}},
        "shell": {"params": {"deny_commands": ["rm ..."]}},
        "code_run": {"params": {"languages": ["bash"]}},
    },
}
FILES, STAT = "policy:endpoints.files_*", "policy:endpoints.files_stat"
NARROW = "policy:auth.tokens[narrow]"


@pytest.mark.parametrize(
    ("endpoint", "identity", "code", "rule"),
    [
        ("files_list", "wide", "path_not_allowed", f"{FILES}.paths.allow"),
        ("files_stat", "wide", "path_not_allowed", f"{STAT}.paths.allow"),
        ("files_stat", "narrow", "path_not_allowed", f"{STAT}.paths.allow, {NARROW}.paths.allow"),
        ("files_list", "wide", "symlink_denied", f"{FILES}.paths.symlinks"),
        ("files_list", "wide", "hardlink_denied", f"{FILES}.paths.hardlinks"),
        ("files_unpack", "wide", "read_only", None),
        ("files_unpack", "narrow", "read_only", f"{NARROW}.paths.read_only"),
        ("files_stat", "wide", "missing_scope", f"{STAT}.scopes"),
        ("files_list", "wide", "missing_scope", "policy:defaults.scopes"),
        ("files_mkdir", "wide", "endpoint_disabled", "policy:endpoints.files_mkdir"),
        ("files_upload_stream", "wide", "extension_not_allowed",
         "policy:endpoints.files_upload_stream.params.deny_extensions"),
        ("shell", "wide", "command_not_allowed", "policy:endpoints.shell.params.deny_commands"),
        ("shell", "wide", "path_not_allowed", "base_dir"),
        ("code_run", "wide", "language_not_allowed", "policy:endpoints.code_run.params.languages"),
    ],
)  # fmt: skip
def test_a_refusal_is_traced_to_the_rules_that_wrote_its_key(
    endpoint: str, identity: str, code: str, rule: str | None
) -> None:
    bound = ServerPolicy.from_dict(DOCUMENT).bind(builtin(), environ={})
    who = next(token.identity for token in bound.tokens if token.identity.id == identity)
    assert bound.deciding(builtin()[endpoint], who, code) == rule


def test_what_several_rules_deny_names_them_all_and_what_none_decided_the_switch() -> None:
    bound = ServerPolicy.from_dict(DOCUMENT).bind(builtin(), environ={})
    who = Identity("x", frozenset())
    named = bound.deciding(builtin()["files_list"], who, "path_denied")
    assert named is not None and len(named.split(", ")) == 2
    assert named.startswith("preset:hardened:") and named.endswith(f"{FILES}.paths.deny")
    for code in (None, "not_found"):
        assert bound.deciding(builtin()["git_diff"], who, code) == "policy:groups.dev_tools"
