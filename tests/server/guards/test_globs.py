"""Deny patterns: what they match, and that no path makes them slow."""

from __future__ import annotations

import fnmatch
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sandbox_server.guards.globs import DenyRules, compile_glob

from .conftest import STEADY

VECTORS = Path(__file__).parents[2] / "vectors" / "deny_globs.jsonl"


def vectors() -> list[dict[str, Any]]:
    return [json.loads(line) for line in VECTORS.read_text().splitlines()]


@pytest.mark.parametrize("vector", vectors(), ids=lambda vector: vector["name"])
def test_a_deny_pattern_matches_as_recorded(vector: dict[str, Any]) -> None:
    assert DenyRules([vector["pattern"]]).matches(vector["path"]) is vector["denied"]


_patterns = st.text(st.sampled_from("ab/.*?[]!-"), max_size=12)
_texts = st.text(st.sampled_from("ab.-]!*"), max_size=8)


@given(pattern=_patterns, text=_texts)
@settings(STEADY, max_examples=500)
def test_a_glob_matches_as_the_standard_library_would(pattern: str, text: str) -> None:
    try:
        expected = fnmatch.fnmatchcase(text, pattern)
    except re.error:  # some versions cannot compile a range that runs backwards
        assume(False)
    assert (compile_glob(pattern).match(text) is not None) == expected


_paths = st.lists(st.text(st.sampled_from("ab.k"), min_size=1, max_size=3), max_size=5).map(lambda n: "/" + "/".join(n))


@given(pattern=_patterns, path=_paths)
@settings(STEADY, max_examples=500)
def test_a_deny_pattern_matches_as_its_definition_says(pattern: str, path: str) -> None:
    """Tried the slow way: every run of components, every ancestor."""

    def matches(text: str, pattern: str) -> bool:
        return compile_glob(pattern).match(text) is not None

    components = path.split("/")[1:] if path != "/" else []
    text = pattern.rstrip("/")
    text = text[3:] if text.startswith("**/") else text
    if not text:
        expected = False
    elif "/" not in text:
        expected = any(matches(component, text) for component in components)
    elif text.startswith("/"):
        expected = any(matches("/" + "/".join(components[:end]), text) for end in range(len(components) + 1))
    else:
        runs = [(start, end) for start in range(len(components)) for end in range(start + 1, len(components) + 1)]
        expected = any(matches("/".join(components[start:end]), text) for start, end in runs)
    rules = DenyRules([pattern])
    assert rules.matches(path) is expected
    if expected is False and len(components) > 1:
        assert rules.matches_within("/".join(["", *components[:-1]]))(components[-1]) is False


@pytest.mark.field(148)
def test_field_148_a_pattern_for_everywhere_holds_everywhere() -> None:
    rules = DenyRules(["**/.env"])
    assert all(rules.denies(path) for path in ("/.env", "/w/.env", "/elsewhere/deep/.env", "/w/.env/below"))
    assert not rules.denies("/w/.environment")


@pytest.mark.finding("R2-S10")
def test_a_pattern_distinguishes_capitals_and_whole_components() -> None:
    rules = DenyRules(["/a/b", "Key"])
    assert [rules.denies(path) for path in ("/a/b", "/a/b/c", "/a/bc", "/x/Key", "/x/key")] == [
        True, True, False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("path", ["/proc", "/proc/1", "/sys/x", "/dev/null"])
def test_the_kernels_own_directories_need_no_pattern(path: str) -> None:
    assert DenyRules([]).denies(path)
    assert not DenyRules([]).denies(path + "ess") or "/" in path[1:]
    assert DenyRules([]).within("/")(path.split("/")[1])


@pytest.mark.finding("R2-S17")
@pytest.mark.parametrize(
    "pattern",
    ["*a" * 60 + "b", "**/" * 60 + "x", "a/" * 60 + "b", "/" + "*a*/" * 60 + "b", "[ab]*" * 100 + "c", "?" * 400 + "*b",
     "*?" * 100 + "b", "a/*" * 50 + "/b", "(a+)+" * 20 + "*$", "[" * 200, "[]" * 100, "[!" * 100],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/" + "a" * 4095, "/a" * 2047, "/" + "ab" * 2000, "/" + "a/b" * 1300])
def test_no_pattern_and_no_path_take_long_together(pattern: str, path: str) -> None:
    """Without the bound, one of these would outlive the universe; the limit of the test run would stop it."""
    rules = DenyRules([pattern, "/" + pattern, "x/" + pattern])
    assert rules.denies(path) in (True, False)
    assert (compile_glob(pattern).match(path) is None) in (True, False)
