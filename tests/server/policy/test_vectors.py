"""Every recorded case about policy documents, layers, presets, sizes, scopes, explanations and lint."""

from __future__ import annotations

from typing import Any

import pytest

from sandbox_server.access import Identity, covers
from sandbox_server.catalogue import builtin
from sandbox_server.policy import PolicyConfigError, ServerPolicy, parse_size
from tests.server.policy.deviations import DEVIATIONS
from tests.server.policy.helpers import ENDPOINTS, bound, codes, vectors

Case = dict[str, Any]

#: What the recorded server had and this one has not, or the other way round.
OURS_ONLY = ("code_contexts_", "files_unpack", "files_edit", "files_chmod", "openapi", "metrics")


def cases(file: str, *, deviating: bool = False) -> Any:
    """The cases of a file that are decided as recorded."""
    kept = [case for case in vectors(file) if (f"{file}:{case['name']}" in DEVIATIONS) is deviating]
    return pytest.mark.parametrize("case", kept, ids=[case["name"] for case in kept])


def load(case: Case) -> ServerPolicy:
    return ServerPolicy.from_json(case["policy"]) if case.get("as_text") else ServerPolicy.from_dict(case["policy"])


def test_every_deviation_names_a_recorded_case() -> None:
    known = {
        f"{file}:{case['name']}" for file in {key.partition(":")[0] for key in DEVIATIONS} for case in vectors(file)
    }
    assert set(DEVIATIONS) <= known


@cases("sizes")
def test_a_size_is_read_as_recorded(case: Case) -> None:
    if case["bytes"] is None:
        with pytest.raises(ValueError, match="is no size"):
            parse_size(case["input"])
    else:
        assert parse_size(case["input"]) == case["bytes"]


@pytest.mark.parametrize("case", vectors("scopes"), ids=lambda case: case["name"])
def test_a_scope_covers_what_was_recorded(case: Case) -> None:
    identity = Identity("someone", frozenset(case["granted"]))
    assert covers(case["granted"], case["required"]) is case["granted_covers"]
    assert identity.can(case["required"]) is case["identity_can"]


@cases("policy_errors")
def test_a_document_is_accepted_or_refused_as_recorded(case: Case) -> None:
    environ = case.get("env", {})
    if case["valid"]:
        load(case).bind(ENDPOINTS, environ=environ)
        return
    if case["stage"] == "load":
        with pytest.raises(PolicyConfigError) as caught:
            load(case)
    else:
        policy = load(case)
        with pytest.raises(PolicyConfigError) as caught:
            policy.bind(ENDPOINTS, environ=environ)
    text = str(caught.value)
    if case["error_path"] is None:  # recorded without a path; ours always has one
        assert text.startswith("policy.endpoints.files_download_stream.limits.max_bytes: ")
    else:
        assert text.startswith(case["error_path"] + ": ")
    if "suggestion" in case:
        assert f'did you mean "{case["suggestion"]}"' in text
    elif case["name"] != "unknown_group_selector":  # ours suggests groups too
        assert "did you mean" not in text


@pytest.mark.parametrize("case", [c for c in vectors("layers") if "expect" in c], ids=lambda case: case["name"])
@pytest.mark.finding("R2-C5", "R2-C10")
def test_layers_switch_endpoints_as_recorded(case: Case) -> None:
    policy = bound(case["policy"], environ=case.get("env", {}), code_groups=case.get("code_groups", {}))
    rules = {endpoint: policy.rule(endpoint) for endpoint in case["expect"]}
    found = {e: {"enabled": r.enabled, "disabled_by": None if r.enabled else r.rule} for e, r in rules.items()}
    assert found == case["expect"]


@pytest.mark.parametrize("case", [c for c in vectors("layers") if "effective" in c], ids=lambda case: case["name"])
def test_layers_merge_values_as_recorded(case: Case) -> None:
    rule = bound(case["policy"]).rule(case["endpoint"])
    found: dict[str, Any] = {
        "allow": None if rule.paths.allow is None else list(rule.paths.allow),
        "deny": list(rule.paths.deny),
        "read_only": rule.paths.read_only,
        "symlinks": rule.paths.symlinks,
        "limits": {name: rule.limits[name] for name in rule.configured_limits},
        "params": {name: list(value) for name, value in rule.params.items()},
        "scopes": list(rule.scopes),
        "audit": rule.audit,
    }
    assert {key: found[key] for key in case["effective"]} == case["effective"]


@pytest.mark.parametrize("case", [c for c in vectors("presets") if "preset" in c], ids=lambda case: case["name"])
def test_a_preset_is_what_was_recorded(case: Case) -> None:
    policy = ServerPolicy.preset(case["preset"]).bind(ENDPOINTS, environ={})
    recorded = [e for e in ENDPOINTS if not e.startswith(OURS_ONLY)]
    assert sorted(e for e in recorded if policy.rule(e).enabled) == case["enabled"]
    disabled = {e: policy.rule(e).rule for e in recorded if not policy.rule(e).enabled}
    assert disabled == case["disabled"]


CONSTRUCTED = {
    "only_transfer": lambda: ServerPolicy.only("transfer"),
    "only_group": lambda: ServerPolicy.only("group:terminal"),
    "only_with_paths_limits": lambda: ServerPolicy.only(
        "files_download_stream", "system_info", paths={"allow": ["/srv/out"]}, limits={"max_bytes": 10}
    ),
    "only_nothing": lambda: ServerPolicy.only(),
    "with_endpoint_merges": lambda: (
        ServerPolicy.preset("transfer-only")
        .with_endpoint("files_download_stream", paths={"allow": ["/a"]})
        .with_endpoint("files_download_stream", paths={"deny": ["x"]})
    ),
    "with_options_replaces": lambda: ServerPolicy.from_dict({"groups": ["process"]}).with_options(groups=["browser"]),
    "preset_overrides_are_top_level": lambda: ServerPolicy.preset(
        "transfer-only", endpoints={"files_list": {"enabled": True}, "files_upload_stream": {"enabled": False}}
    ),
}


@pytest.mark.parametrize("case", [c for c in vectors("presets") if "document" in c], ids=lambda case: case["name"])
@pytest.mark.finding("R1-F1", "R1-U9")
def test_a_constructor_makes_the_recorded_document(case: Case) -> None:
    policy = CONSTRUCTED[case["name"]]()
    assert policy.document == case["document"]
    in_force = policy.bind(ENDPOINTS, environ={})
    enabled = sorted(e for e in ENDPOINTS if not e.startswith(OURS_ONLY) and in_force.rule(e).enabled)
    assert enabled == case["enabled"]


@pytest.mark.parametrize("case", [c for c in vectors("presets") if "revision" in c], ids=lambda case: case["name"])
@pytest.mark.finding("R1-F6")
def test_a_revision_is_what_was_recorded(case: Case) -> None:
    policy = ServerPolicy.from_dict(case["policy"])
    assert policy.document == case["normalised"]
    assert policy.revision == case["revision"]
    assert policy.configured is case["configured"]


def test_every_recorded_preset_case_is_replayed() -> None:
    assert all({"preset", "document", "revision"} & set(case) for case in vectors("presets"))


@pytest.mark.parametrize("case", vectors("explain"), ids=lambda case: case["name"])
@pytest.mark.finding("R1-U5")
def test_an_explanation_is_what_was_recorded(case: Case) -> None:
    arguments = dict(case["args"])
    endpoint = arguments.pop("endpoint")
    found = bound(case["policy"]).explain(endpoint, **arguments)
    expected = dict(case["result"])
    if expected["reason"] == "<str>":
        assert isinstance(found["reason"], str)
        assert found["reason"]
        expected["reason"] = found["reason"]
    assert found == expected


@cases("lint")
def test_lint_reports_the_recorded_codes(case: Case) -> None:
    assert codes(case["policy"]) == case["codes"]


@cases("lint", deviating=True)
def test_the_contracts_own_lint_codes_hold_even_where_ours_are_added(case: Case) -> None:
    found = codes(case["policy"])
    assert [code for code in found if code in ("L1", "L2", "L3", "L4", "L5")] == case["codes"]
    assert found != case["codes"]


# What is decided otherwise, one test per entry of DEVIATIONS.


def test_a_preset_that_is_a_list_is_refused_with_its_path() -> None:
    with pytest.raises(PolicyConfigError, match="^policy.preset: must be one of .* not a list$"):
        ServerPolicy.from_dict({"preset": []})


@pytest.mark.finding("R1-U9")
@pytest.mark.parametrize(("old", "new"), [("upload", "files_upload_stream"), ("download", "files_download_stream")])
def test_an_old_endpoint_name_is_accepted_with_a_warning(old: str, new: str) -> None:
    policy = ServerPolicy.from_dict({"endpoints": {old: {"enabled": False}}})
    in_force = policy.bind(ENDPOINTS, environ={})
    assert not in_force.rule(new).enabled
    assert in_force.rule(new).rule == f"policy:endpoints.{old}"
    assert policy.warnings == in_force.warnings == [f'policy.endpoints.{old}: an old name; write "{new}"']
    assert [warning.code for warning in in_force.lint()] == ["L12"]


@pytest.mark.finding("R1-U9")
def test_transfer_stands_for_both_endpoints_in_a_document_too() -> None:
    policy = bound({"endpoints": {"*": {"enabled": False}, "transfer": {"enabled": True}}})
    on = [e for e in ENDPOINTS if policy.rule(e).enabled and not ENDPOINTS[e].core]
    assert on == ["files_upload_stream", "files_download_stream"]
    assert policy.warnings == []


def test_a_repeated_json_key_is_refused_with_its_path() -> None:
    with pytest.raises(PolicyConfigError, match="^policy.preset: is given twice$"):
        ServerPolicy.from_json('{"preset":"locked","preset":"read-only"}')


def test_an_unknown_group_of_the_environment_is_refused() -> None:
    with pytest.raises(PolicyConfigError, match='^ABX_SERVER_ENABLED_GROUPS: unknown group "agent"$'):
        bound({}, environ={"ABX_SERVER_ENABLED_GROUPS": "agent"})


def test_other_scripts_digits_are_no_size() -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size("\u0665MB")


@pytest.mark.field(152)
def test_field_152_an_empty_allow_list_a_null_and_an_absent_one_mean_three_things() -> None:
    def allowed(exact: dict[str, Any]) -> object:
        document = {"endpoints": {"files_*": {"paths": {"allow": ["/a"]}}, "files_list": {"paths": exact}}}
        return bound(document).rule("files_list").paths.allow

    assert allowed({}) == ("/a",)  # absent: the less specific list holds
    assert allowed({"allow": None}) is None  # null: back to the base directory
    assert allowed({"allow": []}) == ()  # empty: nothing at all


def test_the_read_only_preset_switches_off_whatever_writes_or_deletes() -> None:
    policy = bound({"preset": "read-only"})
    for endpoint in builtin().values():
        if endpoint.ops & {"write", "delete"}:
            rule = policy.rule(endpoint.id)
            assert (rule.enabled, rule.rule) == (False, f"preset:read-only:endpoints.{endpoint.id}")
    assert {"files_unpack", "files_edit", "files_chmod"} <= {e for e in ENDPOINTS if not policy.rule(e).enabled}
    assert policy.rule("openapi").enabled
    assert policy.rule("metrics").enabled
