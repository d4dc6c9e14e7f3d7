"""Identities, admission and explanation: one decision, whoever asks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_server.access import OPS, Identity, PathRule
from sandbox_server.guards.paths import PathGuards
from sandbox_server.messages import Refusal
from sandbox_server.policy import PolicyConfigError, ServerPolicy
from sandbox_server.policy.rules import narrowed
from tests.server.policy.helpers import ENDPOINTS, bound

DIGEST = "ab" * 32
READER = {"id": "reader", "scopes": ["files:read"], "token_sha256": DIGEST}


def test_tokens_are_kept_as_digests_only() -> None:
    policy = bound(
        {"auth": {"tokens": [READER, {"id": "ci", "scopes": ["*"], "token_env": "CI_TOKEN"}]}},
        environ={"CI_TOKEN": "s3cret-\udcff "},
    )
    assert [(t.identity.id, t.digest) for t in policy.tokens] == [
        ("reader", bytes.fromhex(DIGEST)),
        ("ci", hashlib.sha256(b"s3cret-\xff").digest()),  # blanks around it cannot be sent in a header
    ]
    assert "s3cret" not in repr(policy)
    assert policy.secret_names == {"ABX_SERVER_TOKEN", "ABX_SERVER_POLICY", "ABX_SERVER_POLICY_FILE", "CI_TOKEN"}


@pytest.mark.parametrize("environ", [{}, {"CI_TOKEN": ""}, {"CI_TOKEN": " \n"}])
@pytest.mark.parametrize(("name", "shown"), [("ci", "ci"), ("a\nb", '"a\\nb"')])
def test_a_token_variable_must_be_set(environ: dict[str, str], name: str, shown: str) -> None:
    with pytest.raises(PolicyConfigError) as caught:
        bound({"auth": {"tokens": [{"id": name, "scopes": [], "token_env": "CI_TOKEN"}]}}, environ=environ)
    assert str(caught.value) == f'policy.auth.tokens[{shown}]: environment variable "CI_TOKEN" is not set'


def test_a_lone_server_token_becomes_an_identity_and_part_of_the_document() -> None:
    policy = bound({}, environ={"ABX_SERVER_TOKEN": "legacy"})
    (token,) = policy.tokens
    assert token.identity == Identity("server", frozenset({"*"}))
    assert token.digest == hashlib.sha256(b"legacy").digest()
    assert policy.configured
    assert policy.revision != "2430f1a2ad2982d0"
    assert policy.document["auth"] == {"tokens": [{"id": "server", "scopes": ["*"], "token_env": "ABX_SERVER_TOKEN"}]}
    assert policy.anonymous is None


def test_a_server_token_is_ignored_beside_tokens_of_the_policy() -> None:
    policy = bound({"auth": {"tokens": [READER]}}, environ={"ABX_SERVER_TOKEN": "legacy"})
    assert [token.identity.id for token in policy.tokens] == ["reader"]


@pytest.mark.parametrize(
    ("auth", "flag", "scopes"),
    [
        ({}, False, None),
        ({}, True, {"*"}),
        ({"anonymous_scopes": ["files:read"]}, False, None),
        ({"anonymous_scopes": ["files:read"]}, True, {"files:read"}),
        ({"allow_anonymous": True}, False, {"*"}),
        ({"allow_anonymous": False}, True, {"*"}),
        ({"tokens": [READER]}, False, None),
        ({"tokens": [READER]}, True, set()),  # beside tokens, nothing unless it was written
        ({"tokens": [READER], "allow_anonymous": True}, False, set()),
        ({"tokens": [READER], "allow_anonymous": True, "anonymous_scopes": ["a:b"]}, False, {"a:b"}),
    ],
)
def test_who_a_caller_without_a_credential_is(auth: dict[str, Any], flag: bool, scopes: set[str] | None) -> None:
    policy = bound({"auth": auth}, allow_anonymous=flag)
    expected = None if scopes is None else Identity("anonymous", frozenset(scopes))
    assert policy.anonymous == expected
    assert policy.revision == bound({"auth": auth}).revision  # the flag is no part of the document


def test_the_base_directory_comes_from_the_document_the_caller_the_environment_or_the_default() -> None:
    environ = {"ABX_SERVER_BASE_DIR": "/env"}
    assert bound({"base_dir": "/doc"}, base_dir="/given", environ=environ).base_dir == "/doc"
    assert bound({}, base_dir="/given", environ=environ).base_dir == "/given"
    assert bound({}, base_dir="here").base_dir == os.path.abspath("here")
    assert bound({}, environ=environ).base_dir == "/env"
    assert bound({}).base_dir == "/home/user"
    for wrong in ("here", "/a\0"):
        with pytest.raises(PolicyConfigError, match="^ABX_SERVER_BASE_DIR: .* is no absolute path; start it with /$"):
            bound({}, environ={"ABX_SERVER_BASE_DIR": wrong})


@pytest.mark.parametrize(("text", "size"), [("1234", 1234), (" 0 ", 0), ("", None), ("1 MB", None), ("9" * 19, None)])
def test_the_environment_may_give_uploads_another_default_size(text: str, size: int | None) -> None:
    environ = {"ABX_MAX_UPLOAD_SIZE": text}
    found, usual = bound({}, environ=environ).rules, bound({}).rules
    changed = {endpoint for endpoint in ENDPOINTS if found[endpoint].limits != usual[endpoint].limits}
    assert changed == ({"files_upload_stream"} if size is not None else set())
    assert size in (None, found["files_upload_stream"].limits["max_bytes"])
    written = {"endpoints": {"files_upload_stream": {"limits": {"max_bytes": 7}}}}
    assert bound(written, environ=environ).rule("files_upload_stream").limits["max_bytes"] == 7


def test_groups_of_the_environment_are_split_at_commas_and_blanks_dropped() -> None:
    policy = bound({}, environ={"ABX_SERVER_ENABLED_GROUPS": " dev_tools, ,core,"})
    assert policy.rule("code_run").rule == "env:ABX_SERVER_ENABLED_GROUPS:dev_tools"
    assert not policy.rule("browser_navigate").enabled


def test_a_refusal_names_the_rule_or_the_scope_and_whom_it_met() -> None:
    policy = bound({"preset": "read-only", "auth": {"tokens": [READER]}})
    reader = policy.tokens[0].identity
    with pytest.raises(Refusal) as caught:
        policy.admit(reader, ENDPOINTS["files_delete"])
    assert (caught.value.status, caught.value.code) == (404, "endpoint_disabled")
    assert caught.value.facts == {"rule": "preset:read-only:endpoints.files_delete"}
    assert caught.value.message == '"files_delete" is switched off by preset:read-only:endpoints.files_delete'
    with pytest.raises(Refusal) as caught:
        policy.admit(reader, ENDPOINTS["env_get"])
    assert (caught.value.status, caught.value.code) == (403, "missing_scope")
    assert caught.value.facts == {"scope": "system:read", "identity": "reader"}


def test_scopes_are_required_in_their_order_and_all_of_them() -> None:
    policy = bound({})
    move = ENDPOINTS["files_move"]

    def missing(*held: str) -> object:
        try:
            policy.admit(Identity("x", frozenset(held)), move)
        except Refusal as refusal:
            return refusal.facts["scope"]
        return None

    assert missing() == "files:write"
    assert missing("files:write") == "files:delete"
    assert missing("files:delete") == "files:write"
    assert missing("files:write", "files:delete") is None
    assert missing("files:*") is None


def test_a_grant_carries_the_effective_rule() -> None:
    document = {
        "auth": {"tokens": [{**READER, "paths": {"allow": ["/a/b"], "deny": ["y"], "hardlinks": "deny"}}]},
        "endpoints": {
            "files_list": {
                "enabled": True, "audit": "all", "limits": {"max_entries": 5},
                "paths": {"allow": ["/a"], "deny": ["x"], "symlinks": "never"},
            }
        },
    }  # fmt: skip
    policy = bound(document)
    grant = policy.admit(policy.tokens[0].identity, ENDPOINTS["files_list"])
    assert grant.paths == PathRule(("/a",), ("x", "y"), False, "never", "deny", (("/a/b",),))
    assert (grant.limits["max_entries"], grant.limits["max_depth"]) == (5, 3)
    assert grant.configured_limits == {"max_entries"}
    assert (grant.audit, grant.rule) == ("all", "policy:endpoints.files_list")


def test_grants_are_remembered_for_the_policys_identities_only() -> None:
    policy = bound({"auth": {"tokens": [READER], "allow_anonymous": True, "anonymous_scopes": ["*"]}})
    endpoint = ENDPOINTS["files_list"]
    for identity in (policy.tokens[0].identity, policy.anonymous):
        assert identity is not None
        assert policy.admit(identity, endpoint) is policy.admit(identity, endpoint)
    stranger = Identity("reader", frozenset({"*"}))  # has the name, is somebody else
    assert policy.admit(stranger, endpoint) is not policy.admit(stranger, endpoint)
    assert policy.admit(stranger, endpoint).identity is stranger
    assert policy.admit(policy.tokens[0].identity, endpoint).identity is policy.tokens[0].identity


@pytest.mark.finding("R1-U5")
def test_an_explanation_is_the_check_document() -> None:
    policy = bound({"preset": "transfer-only"})
    assert policy.explain("shell") == {
        "endpoint": "shell",
        "allowed": False,
        "code": "endpoint_disabled",
        "reason": '"shell" is switched off by preset:transfer-only:endpoints.*',
        "rule": "preset:transfer-only:endpoints.*",
    }
    assert policy.explain("file_list") == {
        "endpoint": "file_list",
        "allowed": False,
        "code": "unknown_endpoint",
        "reason": 'no endpoint "file_list"; did you mean "files_list"?',
    }
    with pytest.raises(ValueError, match='^"chmod" is no operation; use one of read, write, delete, exec$'):
        policy.explain("files_upload_stream", path="x", op="chmod")


@pytest.mark.finding("R1-U5")
def test_a_policy_explains_itself_without_a_server() -> None:
    policy = ServerPolicy.only("files_download_stream", paths={"allow": ["/srv/out"]})
    assert policy.explain("files_download_stream", path="/srv/out/x")["allowed"]
    assert policy.explain("files_download_stream", path="/etc/passwd")["code"] == "path_not_allowed"
    assert policy.explain("files_download_stream", scopes=["files:write"])["code"] == "missing_scope"
    named = policy.with_options(auth={"tokens": [{"id": "a", "scopes": [], "token_env": "T"}]})
    assert named.explain("files_download_stream", environ={"T": "x"})["allowed"]


@pytest.mark.finding("R1-F5")
def test_the_first_refused_path_is_reported_and_the_single_one_comes_first() -> None:
    policy = bound({"endpoints": {"files_archive": {"paths": {"allow": ["/srv"], "deny": ["*.pem"]}}}})

    def code(**asked: Any) -> object:
        return policy.explain("files_archive", **asked)["code"]

    assert code(paths=["/srv/a", "/srv/k.pem", "/etc"]) == "path_denied"
    assert code(path="/etc", paths=["/srv/k.pem"]) == "path_not_allowed"
    assert code(path="", paths=["/srv/k.pem"]) == "invalid_path"
    assert code(path=5) == "invalid_path"
    assert code(paths=[]) is None


@pytest.mark.finding("R1-F5")
def test_an_explanation_says_nothing_about_what_exists(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    policy = bound({}, base_dir=str(tmp_path))
    with_file = policy.explain("files_stat", path=str(tmp_path / "there"))
    without = policy.explain("files_stat", path=str(tmp_path / "gone"))
    assert with_file == without
    outside = [policy.explain("files_stat", path=path) for path in ("/etc/passwd", "/etc/passwe")]
    assert outside[0]["reason"].replace("passwd", "passwe") == outside[1]["reason"]


def test_paths_of_an_endpoint_without_path_rules_are_judged_by_the_base_directory() -> None:
    policy = bound({"defaults": {"paths": {"allow": ["/srv"], "read_only": True}}}, base_dir="/base")
    assert policy.explain("ports", path="/base/x", op="write")["allowed"]
    assert policy.explain("ports", path="/srv/x")["code"] == "path_not_allowed"


@pytest.mark.finding("R2-S16")
@pytest.mark.parametrize("place", ["/proc/self/environ", "/sys/x", "/dev/mem"])
def test_kernel_interfaces_are_refused_even_where_everything_is_allowed(place: str) -> None:
    policy = bound({"endpoints": {"files_*": {"paths": {"allow": ["/"]}}}})
    assert policy.explain("files_download_stream", path=place)["code"] == "path_denied"


@pytest.mark.finding("R2-S16")
@pytest.mark.parametrize(
    "name", [".ssh/known_hosts", ".env", ".env.local", "a/server.pem", "id_rsa", "x/id_ed25519.pub"]
)
def test_the_hardened_preset_denies_secrets_by_name(name: str) -> None:
    policy = bound({"preset": "hardened"})
    assert policy.explain("files_download_stream", path=f"/home/user/{name}")["code"] == "path_denied"
    assert policy.explain("files_download_stream", path="/home/user/plain.txt")["allowed"]


@pytest.mark.finding("R1-F2")
def test_a_move_is_a_delete_at_its_source_unless_asked_otherwise() -> None:
    policy = bound({"endpoints": {"files_move": {"paths": {"read_only": True}}}})
    assert policy.explain("files_move", path="x")["code"] == "read_only"
    assert policy.explain("files_move", path="x", op="read")["allowed"]
    assert [field.op for field in ENDPOINTS["files_move"].path_fields] == ["delete", "write"]


def test_rows_show_what_is_in_force() -> None:
    policy = bound(
        {"endpoints": {"files_list": {"limits": {"max_entries": 5}, "paths": {"deny": ["x"]}}}}, base_dir="/base"
    )
    rows = {row["endpoint"]: row for row in policy.rows()}
    assert [row["endpoint"] for row in policy.rows()] == sorted(ENDPOINTS)
    assert rows["files_list"] == {
        "endpoint": "files_list",
        "group": "file_ops",
        "enabled": True,
        "rule": None,
        "scopes": ["files:read"],
        "limits": {"max_entries": 5},
        "paths": {"allow": ["/base"], "deny": ["x"], "read_only": False},
    }
    nothing = bound({"endpoints": {"files_list": {"paths": {"allow": []}}}}).rows()
    assert next(row for row in nothing if row["endpoint"] == "files_list")["paths"]["allow"] == []


def test_a_bound_policy_tells_where_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text('{"require_landlock": true}')
    policy = ServerPolicy.from_file(str(file)).bind(ENDPOINTS, environ={"ABX_SERVER_TOKEN": "x"})
    assert policy.source == str(file)
    assert policy.require_landlock


# A token's own paths only ever narrow.

NAMES = st.sampled_from(["a", "b", "ab", "k.pem", ".env"])
PLACES = st.lists(NAMES, max_size=3).map(lambda parts: "/t/" + "/".join(parts))
ALLOW = st.none() | st.lists(PLACES, max_size=3).map(tuple)
DENY = st.lists(st.sampled_from(["*.pem", ".env", "/t/a", "a/b", "**/ab", "b"]), max_size=2).map(tuple)
SYMLINKS, HARDLINKS = st.sampled_from(["within", "never"]), st.sampled_from(["allow", "deny"])
RULES = st.builds(PathRule, ALLOW, DENY, st.booleans(), SYMLINKS, HARDLINKS, st.just(()))


@pytest.fixture(scope="module")
def guards() -> Iterator[PathGuards]:
    guards = PathGuards("/t")
    yield guards
    guards.close()


def admitted(guards: PathGuards, rule: PathRule, path: str, op: Any) -> bool:
    try:
        guards.of(rule).check(path, op)
    except Refusal:
        return False
    return True


@pytest.mark.finding("R1-F7")
@pytest.mark.field(157)
@settings(max_examples=500, deadline=None)
@given(rule=RULES, own=RULES, path=PLACES, op=st.sampled_from(OPS))
def test_field_157_narrowing_never_admits_what_either_rule_refuses(
    guards: PathGuards, rule: PathRule, own: PathRule, path: str, op: Any
) -> None:
    both = admitted(guards, narrowed(rule, own), path, op)
    one = admitted(guards, rule, path, op)
    # A token without a list of its own says nothing about places.
    other = admitted(guards, own if own.allow is not None else PathRule(("/",), own.deny, own.read_only), path, op)
    assert both is (one and other)


@pytest.mark.finding("R1-F7")
@given(rule=RULES, own=RULES)
def test_narrowing_takes_the_stricter_of_every_key(rule: PathRule, own: PathRule) -> None:
    both = narrowed(rule, own)
    assert set(both.deny) == {*rule.deny, *own.deny}
    assert both.read_only is (rule.read_only or own.read_only)
    assert (both.symlinks == "never") is ("never" in (rule.symlinks, own.symlinks))
    assert (both.hardlinks == "deny") is ("deny" in (rule.hardlinks, own.hardlinks))
    assert narrowed(rule, None) is rule


@pytest.mark.finding("R1-F7")
@pytest.mark.field(157)
def test_field_157_two_identities_and_two_paths_make_no_new_pair() -> None:
    tokens = [
        {"id": "in", "scopes": ["files:*"], "token_sha256": "11" * 32, "paths": {"allow": ["/srv/in"]}},
        {"id": "out", "scopes": ["files:*"], "token_sha256": "22" * 32, "paths": {"allow": ["/srv/out"]}},
    ]
    rule = {"paths": {"allow": ["/srv/in", "/srv/out"]}}
    policy = bound({"auth": {"tokens": tokens}, "endpoints": {"files_*": rule}})
    pairs = {
        (token.identity.id, place): policy.explain("files_stat", identity=token.identity, path=f"{place}/x")["allowed"]
        for token in policy.tokens
        for place in ("/srv/in", "/srv/out", "/srv", "/home/user")
    }
    assert {pair for pair, allowed in pairs.items() if allowed} == {("in", "/srv/in"), ("out", "/srv/out")}


@pytest.mark.finding("R1-F7")
def test_a_tokens_own_list_does_not_open_what_the_endpoint_keeps_shut() -> None:
    token = {"id": "t", "scopes": ["*"], "token_sha256": DIGEST, "paths": {"allow": ["/etc"]}}
    policy = bound({"auth": {"tokens": [token]}})
    identity = policy.tokens[0].identity
    assert policy.explain("files_stat", identity=identity, path="/etc/passwd")["code"] == "path_not_allowed"
    assert policy.explain("files_stat", identity=identity, path="/home/user/x")["code"] == "path_not_allowed"


# Explanation and enforcement are one thing.

SCOPES = st.lists(st.sampled_from(["files:read", "files:*", "process:run", "*", "system:read"]), max_size=3)


@pytest.mark.finding("R1-U5")
@settings(max_examples=300, deadline=None)
@given(
    endpoint=st.sampled_from(sorted(ENDPOINTS)),
    scopes=SCOPES,
    preset=st.sampled_from(["default", "read-only", "transfer-only", "hardened"]),
    path=st.none() | st.sampled_from(["x", "/home/user/.env", "/etc", "", "/home/user/../user/x"]),
    op=st.none() | st.sampled_from(OPS),
)
def test_an_explanation_decides_as_admission_and_the_path_guard_do(
    guards: PathGuards, endpoint: str, scopes: list[str], preset: str, path: str | None, op: Any
) -> None:
    policy = bound({"preset": preset}, base_dir="/home/user")
    identity = Identity("someone", frozenset(scopes))
    found = policy.explain(endpoint, identity=identity, path=path, op=op, guards=guards)
    try:
        grant = policy.admit(identity, ENDPOINTS[endpoint])
        if path is not None:
            guards.of(grant.paths).check(path, op or ENDPOINTS[endpoint].default_op or "read")
    except Refusal as refusal:
        assert (found["allowed"], found["code"], found["reason"]) == (False, refusal.code, refusal.message)
    else:
        assert found == {"endpoint": endpoint, "allowed": True, "code": None, "reason": None}
