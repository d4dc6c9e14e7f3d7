"""What a document may say, and how anything else is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_server.catalogue import GROUPS, LIMITS, PARAMS
from sandbox_server.policy import PRESETS, PolicyConfigError, ServerPolicy
from sandbox_server.policy.document import LONGEST_SELECTOR, MOST_SELECTORS
from sandbox_server.policy.shapes import LONGEST_LIST, LONGEST_TEXT
from tests.server.policy.helpers import ENDPOINTS

DIGEST = "0" * 64
TOKEN = {"id": "a", "scopes": ["*"], "token_sha256": DIGEST}


def refusal(document: object) -> str:
    with pytest.raises(PolicyConfigError) as caught:
        ServerPolicy.from_dict(document)
    error = caught.value
    assert str(error) == f"{error.path}: {error.problem}"
    return str(error)


@pytest.mark.finding("R1-U1")
@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"endpoint": {}}, 'policy.endpoint: unknown key; did you mean "endpoints"?'),
        (
            {"endpoints": {"files_list": {"paths": {"zzz": []}}}},
            "policy.endpoints.files_list.paths.zzz: unknown key; "
            "known ones are allow, deny, read_only, symlinks, hardlinks",
        ),
        ({"preset": "lockd"}, 'policy.preset: must be one of "default", "transfer-only", "read-only", "hardened", '
         '"locked", "workspace", not "lockd"; did you mean "locked"?'),
        ({"groups": {"nonsense": True}}, f"policy.groups.nonsense: unknown group; known ones are {', '.join(GROUPS)}"),
        ({"mode": "obsreve"}, 'policy.mode: must be one of "enforce", "observe", not "obsreve"; '
         'did you mean "observe"?'),
        ({"require_landlock": 1}, "policy.require_landlock: must be true or false, not 1"),
        ({"defaults": {"paths": {"hardlinks": "never"}}},
         'policy.defaults.paths.hardlinks: must be one of "allow", "deny", not "never"'),
        ({"auth": {"tokens": [{**TOKEN, "paths": {"alow": []}}]}},
         'policy.auth.tokens[0].paths.alow: unknown key; did you mean "allow"?'),
        ({"auth": {"tokens": [{**TOKEN, "paths": {"allow": ["in"]}}]}},
         'policy.auth.tokens[0].paths.allow: "in" is no absolute path; start it with /'),
        ({"auth": {"tokens": [TOKEN, TOKEN]}}, 'policy.auth.tokens[1].id: "a" is taken by an earlier token'),
        ({"base_dir": "/\ud800"}, 'policy.base_dir: "/\\ud800" cannot name a file'),
        ({"description": "a\0"}, f'policy.description: must have no NUL and at most {LONGEST_TEXT} characters, '
         'not "a\\u0000"'),
        ({"endpoints": {"x\ny": 1}}, 'policy.endpoints."x\\ny": must be an object, not 1'),
        ({3: 1}, "policy: keys must be text, not 3"),
        ({"endpoints": {"shell": False}},
         'policy.endpoints.shell: must be an object, not false; write {"enabled": false}'),
        ({"endpoints": {"files_*": True}},
         'policy.endpoints.files_*: must be an object, not true; write {"enabled": true}'),
        ({"defaults": False}, 'policy.defaults: must be an object, not false; write {"enabled": false}'),
        (5.5, "policy: must be an object, not 5.5"),
        (float("nan"), "policy: must be an object, not nan"),
        (2**70, "policy: must be an object, not a number beyond 64 bits"),
        (b"{}", "policy: must be an object, not a value of type bytes"),
        (None, "policy: must be an object, not null"),
        ("x" * 100, f'policy: must be an object, not "{"x" * 80}…"'),
        ({"groups": {"process": {}}}, "policy.groups.process: must be true or false, not an object"),
        ({"auth": {"tokens": [{"id": "a", "scopes": ["a:"], "token_env": "X"}]}},
         'policy.auth.tokens[0].scopes: "a:" is no scope; use "*", "files:*" or "files:read", lower case'),
        ({"auth": {"anonymous_scopes": ["a" * 5000]}},
         f'policy.auth.anonymous_scopes: "{"a" * 80}…" is no scope; '
         'use "*", "files:*" or "files:read", lower case'),
        ({"endpoints": {"x" * (LONGEST_SELECTOR + 1): {}}},
         f'policy.endpoints."{"x" * 80}…": must have at most {LONGEST_SELECTOR} characters'),
        ({"endpoints": {f"{n}*": {} for n in range(MOST_SELECTORS + 1)}},
         f"policy.endpoints: must have at most {MOST_SELECTORS} selectors, not {MOST_SELECTORS + 1}"),
        ({"defaults": {"paths": {"deny": [""] * (LONGEST_LIST + 1)}}},
         f"policy.defaults.paths.deny: must have at most {LONGEST_LIST} entries, not {LONGEST_LIST + 1}"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_a_wrong_document_is_refused_by_path_reason_and_remedy(document: object, text: str) -> None:
    assert refusal(document) == text


@pytest.mark.parametrize("key", ["x" * 65, "endpoints" * 1000])
def test_a_key_too_long_to_be_a_slip_costs_no_search_for_a_similar_one(key: str) -> None:
    assert "did you mean" not in refusal({key: 1})


@pytest.mark.parametrize(
    "value",
    [0, -1, True, 1.0, "5", None, [], 1 << 128],
    ids=repr,
)
def test_an_integer_limit_is_a_positive_integer(value: object) -> None:
    path = "policy.endpoints.files_list.limits.max_entries"
    text = refusal({"endpoints": {"files_list": {"limits": {"max_entries": value}}}})
    assert text.startswith(f"{path}: must be an integer above 0, not ")


@pytest.mark.parametrize("value", [0.0, -0.5, float("inf"), float("nan"), True, "1", None])
def test_a_number_limit_is_positive_and_finite(value: object) -> None:
    text = refusal({"endpoints": {"files_search": {"limits": {"timeout_seconds": value}}}})
    assert text.startswith("policy.endpoints.files_search.limits.timeout_seconds: must be ")


@pytest.mark.parametrize("value", [True, 1.5, "9", None, 1 << 128])
def test_a_list_of_signals_holds_integers(value: object) -> None:
    text = refusal({"endpoints": {"process_signal": {"params": {"allowed_signals": [9, value]}}}})
    assert text.startswith("policy.endpoints.process_signal.params.allowed_signals: must hold integers, not ")


@pytest.mark.finding("R1-U6")
@pytest.mark.parametrize(
    ("text", "size"),
    [("5MB", 5_000_000), ("5MiB", 5_242_880), ("1.5 kib", 1536), (7, 7), ("0.9999999999999999999999KB", 999)],
)
def test_sizes_become_bytes(text: object, size: int) -> None:
    policy = ServerPolicy.from_dict({"defaults": {"limits": {"max_request_bytes": text}}})
    assert policy.document["defaults"]["limits"] == {"max_request_bytes": size}


@pytest.mark.finding("R1-U6")
@pytest.mark.parametrize("value", ["5 parsecs", "9" * 31, 1 << 128, "", 0, -1, True, 1.5, None, "1\n"])
def test_what_is_no_size_is_refused_with_its_path(value: object) -> None:
    text = refusal({"endpoints": {"files_archive": {"limits": {"max_bytes": value}}}})
    assert text.startswith("policy.endpoints.files_archive.limits.max_bytes: ")
    assert text.endswith(' is no size; use bytes as an integer above 0, or text such as "5MB" or "64KiB"')


@pytest.mark.field(149)
@pytest.mark.parametrize(("written", "meant"), [("/w/**", "/w"), ("/w/*", "/w"), ("/w/**/", "/w"), ("/**", "/")])
def test_field_149_an_allow_entry_that_ends_in_a_pattern_is_an_error(written: str, meant: str) -> None:
    assert refusal({"defaults": {"paths": {"allow": [written]}}}) == (
        f'policy.defaults.paths.allow: "{written}" is a pattern; '
        f'a directory covers all below it, so write "{meant}"'
    )  # fmt: skip


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"), (None, "null"), (True, "true"), ("x", "x"), ("", ""), (["a", {"b": 1.5}], '["a", {"b": 1.5}]'),
        (float("inf"), "Infinity"),
    ],
)  # fmt: skip
def test_any_description_becomes_text(value: object, text: str) -> None:
    assert ServerPolicy.from_dict({"description": value}).document["description"] == text


def _cyclic() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


def _deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return deep


def _bomb() -> list[Any]:
    bomb: list[Any] = ["x" * 100]
    for _ in range(60):
        bomb = [bomb, bomb]
    return bomb


@pytest.mark.parametrize("value", [object(), _cyclic(), _deep(), _bomb(), {(1,): 2}, ["x" * 5000]])
def test_a_description_that_cannot_be_text_is_refused(value: object) -> None:
    assert refusal({"description": value}).startswith("policy.description: must ")


def test_lists_and_tuples_are_both_lists() -> None:
    policy = ServerPolicy.from_dict({"defaults": {"paths": {"deny": ("x",)}}, "groups": ("browser",)})
    assert policy.document == {"version": 1, "defaults": {"paths": {"deny": ["x"]}}, "groups": {"browser": True}}


def test_words_of_ours_are_kept_when_written_and_never_filled_in() -> None:
    written = {
        "mode": "enforce",
        "require_landlock": False,
        "defaults": {"paths": {"hardlinks": "allow", "allow": None}},
        "auth": {"tokens": [{**TOKEN, "paths": {"read_only": True}}]},
    }
    assert ServerPolicy.from_dict(written).document == {"version": 1, **written}
    assert ServerPolicy.from_dict({"defaults": {"paths": {}}}).document == {"version": 1, "defaults": {"paths": {}}}


@pytest.mark.finding("R1-F6")
def test_a_revision_depends_on_what_is_said_and_not_on_how() -> None:
    one = {"preset": "locked", "groups": ["browser"], "defaults": {"limits": {"max_bytes": "1KiB"}}}
    other = {"defaults": {"limits": {"max_bytes": 1024}}, "groups": {"browser": True}, "preset": "locked", "version": 1}
    assert ServerPolicy.from_dict(one).revision == ServerPolicy.from_dict(other).revision
    assert ServerPolicy.from_dict({}).revision == "2430f1a2ad2982d0"
    upper = {"auth": {"tokens": [{**TOKEN, "token_sha256": "AB" * 32}]}}
    lower = {"auth": {"tokens": [{**TOKEN, "token_sha256": "ab" * 32}]}}
    assert ServerPolicy.from_dict(upper).revision == ServerPolicy.from_dict(lower).revision


@pytest.mark.finding("R1-F6")
def test_a_policy_cannot_be_changed() -> None:
    policy = ServerPolicy.from_dict({"groups": ["browser"]})
    policy.document["groups"]["browser"] = False
    assert policy.document["groups"] == {"browser": True}
    with pytest.raises(AttributeError):
        policy.text = "{}"  # type: ignore[misc]
    bound = policy.bind(ENDPOINTS, environ={})
    bound.document["groups"]["browser"] = False
    assert bound.document["groups"] == {"browser": True}
    with pytest.raises(AttributeError):
        bound.mode = "observe"  # type: ignore[misc]
    with pytest.raises(TypeError):
        bound.rules["shell"] = bound.rules["health"]  # type: ignore[index]
    with pytest.raises(TypeError):
        bound.rule("shell").limits["max_bytes"] = 1  # type: ignore[index]


# No document whatsoever ends in anything but a policy or a PolicyConfigError.

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.binary(max_size=4)
    | st.sampled_from(["/", "/a", "*", "5MB", "deny", "files_*", "group:process", "@defaults", DIGEST, "["])
)  # fmt: skip
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def near(shape: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Objects with some of the right keys, and sometimes anything else."""
    return st.fixed_dictionaries({}, optional=shape) | ANYTHING


PATHS = near({key: st.lists(LEAVES, max_size=3) | LEAVES for key in ("allow", "deny", "read_only", "symlinks")})
RULES = near(
    {
        "enabled": LEAVES,
        "scopes": st.lists(LEAVES, max_size=3),
        "paths": PATHS,
        "limits": near({key: LEAVES for key in LIMITS}),
        "params": near({key: st.lists(LEAVES, max_size=3) | LEAVES for key in PARAMS}),
        "audit": LEAVES,
    }
)
TOKENS = near({"id": LEAVES, "scopes": st.lists(LEAVES), "token_sha256": LEAVES, "token_env": LEAVES, "paths": PATHS})
DOCUMENTS = near(
    {
        "version": st.just(1) | LEAVES,
        "description": ANYTHING,
        "preset": st.sampled_from(PRESETS) | LEAVES,
        "base_dir": LEAVES,
        "groups": st.lists(st.sampled_from(GROUPS)) | ANYTHING,
        "defaults": RULES,
        "auth": near({"tokens": st.lists(TOKENS, max_size=3), "allow_anonymous": LEAVES, "anonymous_scopes": LEAVES}),
        "endpoints": st.dictionaries(st.sampled_from([*ENDPOINTS]) | st.text(max_size=8), RULES, max_size=3),
        "mode": LEAVES,
        "require_landlock": LEAVES,
    }
)


@settings(max_examples=400, deadline=None)
@given(DOCUMENTS | ANYTHING)
def test_no_document_ends_in_another_exception(document: Any) -> None:
    try:
        policy = ServerPolicy.from_dict(document)
        assert ServerPolicy.from_dict(policy.document) == policy  # the normal form is its own normal form
        bound = policy.bind(ENDPOINTS, environ={})
        bound.lint()
        bound.notes()
        bound.rows()
    except PolicyConfigError as error:
        assert str(error).startswith(("policy.", "policy:"))
        assert str(error).isprintable()


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=60) | DOCUMENTS.map(lambda document: json.dumps(document, default=repr)) | st.binary(max_size=60)
)
def test_no_text_ends_in_another_exception(text: str | bytes) -> None:
    try:
        ServerPolicy.from_json(text)
    except PolicyConfigError as error:
        assert str(error).startswith(("policy.", "policy:"))


@pytest.mark.parametrize("pattern", ["echo 'x", "", '""', "a ... b ... c ... d ...", "ls \\"])
@pytest.mark.parametrize("param", ["allow_commands", "deny_commands"])
def test_a_malformed_command_pattern_is_found_at_start(param: str, pattern: str) -> None:
    text = refusal({"endpoints": {"shell*": {"params": {param: ["ls", pattern]}}}})
    assert text.startswith(f"policy.endpoints.shell*.params.{param}: ")
    assert text.endswith('is no command pattern; name a program, close quotations, use "..." at most three times')
