"""Layers, applicability and precedence beyond the recorded cases."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_server.catalogue import COMMON_LIMITS, LIMITS, PARAMS, Catalogue, Endpoint, Field
from sandbox_server.policy import PRESETS, PolicyConfigError, ServerPolicy
from sandbox_server.policy.presets import SECRET_PATHS
from sandbox_server.policy.selectors import Kind, parse_selector
from tests.server.policy.helpers import ENDPOINTS, bound


def refusal(document: object, **more: Any) -> str:
    with pytest.raises(PolicyConfigError) as caught:
        bound(document, **more)
    return str(caught.value)


@pytest.mark.finding("R1-U2")
@pytest.mark.parametrize(
    ("selector", "text"),
    [
        ("file_list", 'policy.endpoints.file_list: unknown endpoint; did you mean "files_list"?'),
        ("transfr", 'policy.endpoints.transfr: unknown endpoint; did you mean "transfer"?'),
        ("zzzz", "policy.endpoints.zzzz: unknown endpoint"),
        ("group:files", 'policy.endpoints.group:files: unknown group; did you mean "file_ops"?'),
        ("group:", "policy.endpoints.group:: unknown group"),
        ("", "policy.endpoints.: unknown endpoint"),
        ("FILES_LIST", "policy.endpoints.FILES_LIST: unknown endpoint"),
    ],
)
def test_a_selector_that_names_nothing_is_an_error(selector: str, text: str) -> None:
    assert refusal({"endpoints": {selector: {}}}) == text


@pytest.mark.finding("R1-U2")
def test_a_glob_that_matches_nothing_is_a_warning() -> None:
    policy = bound({"endpoints": {"fles_*": {}, "files_*": {}, "*": {}, "shell?": {}}})
    assert policy.warnings == [
        f"policy.endpoints.{glob}: the glob matches no endpoint, so the rule does nothing"
        for glob in ("fles_*", "shell?")
    ]
    assert [(w.code, w.message) for w in policy.lint()] == [("L6", message) for message in policy.warnings]


@pytest.mark.finding("R1-U1")
@pytest.mark.parametrize("limit", LIMITS)
def test_a_limit_applies_to_exactly_the_endpoints_that_have_it(limit: str) -> None:
    for endpoint in ENDPOINTS.values():
        document = {"endpoints": {endpoint.id: {"limits": {limit: 5}}}}
        if limit in COMMON_LIMITS or limit in endpoint.limits:
            rule = bound(document).rule(endpoint.id)
            assert rule.limits[limit] == 5
            assert rule.configured_limits == {limit}
        else:
            path = f"policy.endpoints.{endpoint.id}.limits.{limit}"
            assert refusal(document) == f'{path}: does not apply to "{endpoint.id}"'


@pytest.mark.finding("R1-U1")
@pytest.mark.parametrize("param", PARAMS)
def test_a_parameter_applies_to_exactly_the_endpoints_that_have_it(param: str) -> None:
    value = {"bool": False, "strings": ["x"], "ints": [9]}[PARAMS[param].kind]
    for endpoint in ENDPOINTS.values():
        document = {"endpoints": {endpoint.id: {"params": {param: value}}}}
        if param in endpoint.params:
            found = bound(document).rule(endpoint.id).params
            assert dict(found) == {param: tuple(value) if isinstance(value, list) else value}
        else:
            path = f"policy.endpoints.{endpoint.id}.params.{param}"
            assert refusal(document) == f'{path}: does not apply to "{endpoint.id}"'
    everywhere = bound({"defaults": {"params": {param: value}}})
    assert {e for e in ENDPOINTS if everywhere.rule(e).params} == {
        e.id for e in ENDPOINTS.values() if param in e.params
    }


def test_path_rules_apply_to_exactly_the_endpoints_that_take_paths() -> None:
    everywhere = bound({"endpoints": {"*": {"paths": {"read_only": True}}}})
    for endpoint in ENDPOINTS.values():
        assert everywhere.rule(endpoint.id).paths.read_only is endpoint.path_bearing
        document = {"endpoints": {endpoint.id: {"paths": {}}}}
        if endpoint.path_bearing:
            bound(document)
        else:
            assert refusal(document) == f'policy.endpoints.{endpoint.id}.paths: does not apply to "{endpoint.id}"'


def test_what_runs_code_without_a_path_field_takes_path_rules_too() -> None:
    taking = {"code_run", "code_contexts_create", "code_contexts_run", "pty_create_session", "shell"}
    assert {e for e in taking if ENDPOINTS[e].path_bearing} == taking


@pytest.mark.finding("R1-F8")
@pytest.mark.parametrize("endpoint", ENDPOINTS.values(), ids=lambda endpoint: endpoint.id)
def test_every_limit_of_an_endpoint_has_its_default(endpoint: Endpoint) -> None:
    rule = bound({}).rule(endpoint.id)
    assert dict(rule.limits) == {**COMMON_LIMITS, **endpoint.limits}
    assert rule.configured_limits == frozenset()


def test_the_exact_rule_of_an_alias_is_weaker_than_the_real_name() -> None:
    both = {"upload": {"enabled": True}, "files_upload_stream": {"enabled": False}}
    assert not bound({"endpoints": both}).rule("files_upload_stream").enabled
    values = {"upload": {"limits": {"max_bytes": 1}}, "files_upload_stream": {"limits": {"max_bytes": 2}}}
    assert bound({"endpoints": values}).rule("files_upload_stream").limits["max_bytes"] == 2


def test_transfer_takes_only_what_both_endpoints_have() -> None:
    assert bound({"endpoints": {"transfer": {"limits": {"max_bytes": 5}}}}).rule("files_upload_stream").limits
    text = refusal({"endpoints": {"transfer": {"params": {"overwrite": False}}}})
    assert text == 'policy.endpoints.transfer.params.overwrite: does not apply to "files_download_stream"'


def test_the_rule_that_switched_an_endpoint_on_is_known_too() -> None:
    policy = bound({"preset": "transfer-only"})
    rule = policy.rule("files_upload_stream")
    assert (rule.enabled, rule.rule) == (True, "preset:transfer-only:endpoints.files_upload_stream")
    assert policy.rule("health").rule is None


def test_the_workspace_preset_keeps_to_the_base_directory() -> None:
    policy = bound({"preset": "workspace"}, base_dir="/srv/here")
    assert policy.preset == "workspace"
    assert policy.rule("files_list").paths.allow == ("/srv/here",)
    assert policy.rule("files_list").paths.deny == SECRET_PATHS
    assert policy.rule("files_list").paths.hardlinks == "deny"
    assert policy.rule("shell").paths.allow == ("/srv/here",)
    assert policy.rule("shell").paths.deny == ()
    assert policy.rule("code_run").enabled
    assert policy.rule("pty_create_session").enabled
    assert not policy.rule("browser_navigate").enabled
    assert policy.document == {"version": 1, "preset": "workspace"}  # the directory is not part of the document


@pytest.mark.parametrize("preset", PRESETS)
def test_core_is_on_in_every_preset(preset: str) -> None:
    policy = bound({"preset": preset})
    assert all(policy.rule(e.id).enabled for e in ENDPOINTS.values() if e.core)


def test_observing_forces_the_audit_of_everything() -> None:
    policy = bound({"mode": "observe", "defaults": {"audit": "off"}})
    assert policy.mode == "observe"
    assert {policy.rule(e).audit for e in ENDPOINTS} == {"all"}
    assert policy.audit_unrouted == "all"
    assert bound({}).mode == "enforce"


def test_requests_without_a_rule_are_audited_as_the_defaults_say() -> None:
    assert bound({}).audit_unrouted == "deny"
    assert bound({"defaults": {"audit": "all"}}).audit_unrouted == "all"
    assert bound({"defaults": {"audit": "all"}, "endpoints": {"@defaults": {"audit": "off"}}}).audit_unrouted == "off"
    assert bound({"preset": "hardened", "defaults": {"audit": "off"}}).audit_unrouted == "off"
    assert bound({"endpoints": {"*": {"audit": "all"}}}).audit_unrouted == "deny"


def test_health_needs_no_scope_whatever_a_policy_says() -> None:
    assert bound({"defaults": {"scopes": ["a:b"]}}).rule("health").scopes == ()
    assert bound({"defaults": {"scopes": ["a:b"]}}).rule("files_list").scopes == ("a:b",)


def test_endpoints_of_ones_own_take_part_in_every_layer() -> None:
    own = Endpoint("POST /jobs/*", "POST", "/jobs/x", "jobs", "", fields=(Field("to", "path", "body", "", op="write"),))
    catalogue = Catalogue([*ENDPOINTS.values(), own])
    off = ServerPolicy.from_dict({"endpoints": {"group:jobs": {"enabled": False}}})
    rule = off.bind(catalogue, environ={}).rule(own.id)
    assert (rule.enabled, rule.rule) == (False, "policy:endpoints.group:jobs")
    rule = ServerPolicy.preset("read-only").bind(catalogue, environ={}).rule(own.id)
    assert (rule.enabled, rule.rule) == (False, f"preset:read-only:endpoints.{own.id}")


def test_a_group_nobody_has_cannot_be_switched_by_code() -> None:
    assert refusal({}, code_groups={"brower": True}) == (
        'code:enable_group:brower: unknown group "brower"; did you mean "browser"?'
    )


# Precedence, against a second telling of it.


SELECTORS = ("@defaults", "group:file_ops", "*", "files_*", "files_l*", "*_list", "files_list")


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(st.sampled_from(SELECTORS), st.booleans(), max_size=6),
    st.sampled_from([None, "transfer-only", "read-only", "locked"]),
    st.sampled_from([None, True, False]),
    st.booleans(),
)
def test_the_most_specific_kind_then_the_highest_layer_decides_and_false_wins(
    switches: dict[str, bool], preset: str | None, code: bool | None, by_environment: bool
) -> None:
    document: dict[str, Any] = {"endpoints": {selector: {"enabled": on} for selector, on in switches.items()}}
    votes = [(parse_selector(selector).kind, 3, on) for selector, on in switches.items()]
    if preset:
        document["preset"] = preset
        votes += [(Kind.GLOB, 2, False)] if preset in ("transfer-only", "locked") else []
    if code is not None:
        votes.append((Kind.GROUP, 1, code))
    if by_environment:
        votes.append((Kind.GROUP, 4, True))
    strongest = max((vote[:2] for vote in votes), default=None)
    expected = all(on for kind, rank, on in votes if (kind, rank) == strongest)
    policy = bound(
        document,
        code_groups={} if code is None else {"file_ops": code},
        environ={"ABX_SERVER_ENABLED_GROUPS": "file_ops"} if by_environment else {},
    )
    assert policy.rule("files_list").enabled is expected


@pytest.mark.finding("R2-S17")
@pytest.mark.parametrize("selector", ["*a" * 100 + "b", "[" * 256, "?" * 256, "*" * 256, "[!a-z]" * 40, "[z-a]"])
def test_selectors_cost_bounded_time(selector: str) -> None:
    own = Endpoint("a" * 2000, "POST", "/x", "jobs", "")
    catalogue = Catalogue([*ENDPOINTS.values(), own])
    policy = ServerPolicy.from_dict({"endpoints": {f"{selector[:250]}{n}*": {} for n in range(30)}})
    policy.bind(catalogue, environ={})  # would not end in a lifetime if a glob could backtrack


@pytest.mark.finding("R1-F1")
def test_only_takes_ids_globs_groups_and_old_names() -> None:
    def on(*ids: str) -> list[str]:
        policy = ServerPolicy.only(*ids).bind(ENDPOINTS, environ={})
        return [e for e in ENDPOINTS if policy.rule(e).enabled and not ENDPOINTS[e].core]

    assert on("upload") == ["files_upload_stream"]
    assert on("transfer", "download") == ["files_upload_stream", "files_download_stream"]
    assert on("files_[lm]*") == ["files_list", "files_mkdir", "files_move"]
    assert on("group:commands", "ports") == ["list_commands", "run_command", "ports"]


@pytest.mark.finding("R1-F1")
@pytest.mark.parametrize("name", ["files_lst", "group:nothing"])
def test_only_refuses_names_that_stand_for_nothing_when_bound(name: str) -> None:
    with pytest.raises(PolicyConfigError, match=f"^policy.endpoints.{name}: unknown "):
        ServerPolicy.only(name, paths={"read_only": True}, limits={"max_bytes": 1}).bind(ENDPOINTS, environ={})


@pytest.mark.finding("R1-F1")
def test_only_gives_each_endpoint_what_applies_to_it_and_refuses_misspelt_keys() -> None:
    policy = ServerPolicy.only(
        "files_list", "ports", paths={"allow": ["/a"]}, limits={"max_entries": 5, "rate_per_minute": 9}, audit="all"
    )
    assert policy.document["endpoints"] == {
        "*": {"enabled": False},
        "files_list": {
            "enabled": True, "audit": "all", "paths": {"allow": ["/a"]},
            "limits": {"max_entries": 5, "rate_per_minute": 9},
        },
        "ports": {"enabled": True, "audit": "all", "limits": {"rate_per_minute": 9}},
    }  # fmt: skip
    with pytest.raises(PolicyConfigError, match="^policy.endpoints.files_list.limits.max_entrys: unknown key"):
        ServerPolicy.only("files_list", limits={"max_entrys": 5})
    with pytest.raises(PolicyConfigError, match="^policy.endpoints.files_list.limits: must be an object, not 5$"):
        ServerPolicy.only("files_list", limits=5)


@pytest.mark.finding("R1-F6")
def test_with_endpoint_and_with_options_answer_new_policies() -> None:
    policy = ServerPolicy.from_dict({"endpoints": {"shell": {"params": {"allow_commands": ["ls"]}, "audit": "all"}}})
    changed = policy.with_endpoint("shell", params={"allow_commands": ["cat"], "deny_commands": ["rm"]}, enabled=True)
    assert policy.document["endpoints"]["shell"] == {"params": {"allow_commands": ["ls"]}, "audit": "all"}
    assert changed.document["endpoints"]["shell"] == {
        "params": {"allow_commands": ["cat"], "deny_commands": ["rm"]},
        "audit": "all",
        "enabled": True,
    }
    replaced = policy.with_options(endpoints={"ports": {}})
    assert replaced.document == {"version": 1, "endpoints": {"ports": {}}}
    with pytest.raises(PolicyConfigError, match="^policy.endpoints.shell.paths: must be an object, not 5$"):
        policy.with_endpoint("shell", paths=5)
    with pytest.raises(PolicyConfigError, match="^policy.endpoints.shell.paths: keys must be text, not 5$"):
        policy.with_endpoint("shell", paths={5: 5})


def test_every_pair_of_presets_and_endpoints_has_a_rule() -> None:
    for preset, endpoint in product(PRESETS, ENDPOINTS):
        assert bound({"preset": preset}).rule(endpoint).audit in ("deny", "all")
