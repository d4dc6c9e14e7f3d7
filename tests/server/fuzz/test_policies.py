"""Policy documents: whatever is written, the outcome is a policy or one line that says what is wrong. No traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox_server import PolicyConfigError, ServerPolicy
from sandbox_server.access import OPS
from sandbox_server.catalogue import GROUPS, LIMITS, PARAMS, builtin
from sandbox_server.cli import main
from sandbox_server.policy import PRESETS
from sandbox_server.policy.document import PATH_KEYS, RULE_KEYS, TOP_KEYS

NASTY = [
    "",
    "\0",
    "\ud800",
    "/",
    "//",
    "/..",
    "*",
    "**",
    "[",
    "🙂",
    "a" * 5000,
    "{path}",
    "...",
    "'",
    "\u202e",
    "1e999",
]
texts = st.one_of(st.text(max_size=20), st.sampled_from(NASTY))
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    texts,
    st.just(10**400),
    st.sampled_from(["5MB", "deny", "all"]),
)
anything = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


def part(keys: Any, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object whose keys are mostly known words."""
    return st.one_of(st.dictionaries(st.one_of(st.sampled_from(sorted(keys)), texts), values, max_size=4), anything)


paths = part(PATH_KEYS, st.one_of(st.lists(st.one_of(texts, st.just("/srv")), max_size=3), anything))
commands = st.lists(st.one_of(texts, st.sampled_from(["git ...", "cat {path}", "sh -c '"])), max_size=3)
rules = st.fixed_dictionaries(
    {},
    optional={
        **{key: anything for key in RULE_KEYS},
        "enabled": st.booleans(),
        "paths": paths,
        "limits": part(LIMITS, leaves),
        "params": part([*PARAMS, "allow_commands"], st.one_of(commands, anything)),
    },
)
selectors = st.one_of(st.sampled_from([*builtin(), *(f"group:{group}" for group in GROUPS), "files_*", "*"]), texts)
tokens = st.fixed_dictionaries(
    {"id": texts, "scopes": st.lists(st.sampled_from(["*", "files:read", "x"]), max_size=2)},
    optional={"token_sha256": st.sampled_from(["a" * 64, "zz"]), "token_env": st.sampled_from(["TOKEN", "NONE", ""]),
              "paths": paths},
)  # fmt: skip
documents = st.fixed_dictionaries(
    {},
    optional={
        **{key: anything for key in TOP_KEYS},
        "preset": st.sampled_from(PRESETS),
        "mode": st.sampled_from(["observe", "enforce"]),
        "groups": part(GROUPS, st.booleans()),
        "defaults": rules,
        "endpoints": st.dictionaries(selectors, rules, max_size=4),
        "auth": st.fixed_dictionaries(
            {}, optional={"tokens": st.lists(tokens, max_size=2), "allow_anonymous": st.booleans()}
        ),
    },
)
often = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


@often
@given(st.one_of(documents, anything))
def test_every_document_is_a_policy_or_an_error_with_its_place(document: Any) -> None:
    try:
        policy = ServerPolicy.from_dict(document)
        bound = policy.bind(builtin(), environ={"TOKEN": "secret"}, base_dir="/", allow_anonymous=True)
    except PolicyConfigError as error:
        assert "\n" not in str(error)
        assert str(error).isprintable() or "\\u" in str(error)
        return
    assert ServerPolicy.from_dict(policy.document).revision == policy.revision
    for warning in [*bound.lint(), *bound.notes()]:
        assert "\n" not in warning.message
    bound.rows()
    for endpoint in ("shell", "files_move", "code_run", "health"):
        for op in OPS:
            decision = bound.explain(endpoint, scopes=("files:*",), path="/a/b", op=op)
            assert decision["allowed"] in (True, False)


@pytest.mark.parametrize("name", ["policy.json", "policy.yaml", "policy"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=st.one_of(st.binary(max_size=80), documents.map(lambda d: json.dumps(d).encode())))
def test_every_file_is_checked_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    assert main(["check-config", "--policy", str(tmp_path / name)]) in (0, 1)
    told = capsys.readouterr()
    assert "Traceback" not in told.err + told.out


@pytest.mark.parametrize("depth", [100, 1000, 100_000])
@pytest.mark.parametrize("opening", ["[", '{"a":', '{"endpoints":{"shell":'])
def test_deep_documents_are_errors(depth: int, opening: str) -> None:
    with pytest.raises(PolicyConfigError):
        ServerPolicy.from_json(opening * depth)
    nested: Any = "x"
    for _ in range(min(depth, 10_000)):
        nested = {"a": nested}
    with pytest.raises(PolicyConfigError):
        ServerPolicy.from_dict({"endpoints": {"shell": {"paths": nested}}})
    with pytest.raises(PolicyConfigError):
        ServerPolicy.from_dict({"description": nested, "nonsense": 1})
