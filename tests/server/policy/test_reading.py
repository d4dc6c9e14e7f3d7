"""Where a policy comes from: JSON text, files, YAML, the environment."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_server.policy import PolicyConfigError, ServerPolicy, reading
from sandbox_server.policy.reading import LARGEST_FILE


def refusal(text: str | bytes) -> str:
    with pytest.raises(PolicyConfigError) as caught:
        ServerPolicy.from_json(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("{", "policy: is not JSON, see line 1, column 2"),
        ('{"a": 1\n"b"}', "policy: is not JSON, see line 2, column 1"),
        ("", "policy: is not JSON, see line 1, column 1"),
        (b"\xff", "policy: is not UTF-8 text"),
        ('{"version": NaN}', "policy: is not JSON: a number is out of range, or it is nested too deeply"),
        ("[" * 200_000, "policy: is not JSON: a number is out of range, or it is nested too deeply"),
        (" " * (LARGEST_FILE + 1), f"policy: is larger than {LARGEST_FILE} bytes"),
        ("[]", "policy: must be an object, not a list"),
        (
            '{"endpoints": {"files_list": {"enabled": false, "enabled": true}}}',
            "policy.endpoints.files_list.enabled: is given twice",
        ),
        (
            '{"auth": {"tokens": [{}, {"id": "a", "x": 1, "id": "a"}]}}',
            "policy.auth.tokens[1].id: is given twice",
        ),
        ('{"a": {"b": 1, "b": 2}, "a": 3, "c": 4}', "policy.a: is given twice"),
        ('{"b": {"e": 1, "e": 2}, "z": 5}', "policy.b.e: is given twice"),
        ('{"a": [1, {"d": {}}], "b": {"c": [[], {"e": 1, "e": 2}]}}', "policy.b.c[1].e: is given twice"),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_text_that_is_no_policy_is_refused(text: str | bytes, refused: str) -> None:
    assert refusal(text) == refused


def test_a_byte_order_mark_is_no_obstacle() -> None:
    assert ServerPolicy.from_json(b'\xef\xbb\xbf{"preset": "locked"}') == ServerPolicy.preset("locked")


def test_a_file_is_json_or_yaml_by_its_name(tmp_path: Path) -> None:
    json_file, yaml_file = tmp_path / "p.json", tmp_path / "p.YAML"
    json_file.write_text('{"preset": "locked"}')
    yaml_file.write_text("preset: locked\nendpoints:\n  '*': &off {enabled: false}\n  files_list: *off\n")
    policy = ServerPolicy.from_file(str(json_file))
    assert policy.document == {"version": 1, "preset": "locked"}
    assert policy.source == str(json_file)
    off = {"enabled": False}
    assert ServerPolicy.from_file(str(yaml_file)).document["endpoints"] == {"*": off, "files_list": off}
    assert policy == ServerPolicy.preset("locked")  # where it came from does not matter
    assert policy != ServerPolicy() and len({policy, ServerPolicy.preset("locked"), ServerPolicy()}) == 2
    assert policy.with_options(mode="observe").source == str(json_file)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("preset: [locked\n", "policy: is not YAML, see line 2, column 1"),
        ("a: 1\nb: 2\na: 3\n", "policy: a key is given twice, see line 3"),
        ("x: [{k: 1, k: 2}]\n", "policy: a key is given twice, see line 1"),
        ("a: &a\n  b: *a\n", 'policy.a: unknown key; known ones are version, description, preset, base_dir, groups, '
         "defaults, auth, endpoints, mode, require_landlock"),
        ("", "policy: must be an object, not null"),
        ("a: 2001-99-99\n", "policy: is not YAML"),
        ("a: \x07\n", "policy: is not YAML"),
        ("? [1, 2]\n: 3\n", "policy: is not YAML"),
        ("1: 2\n", "policy: keys must be text, not 1"),
        ("base_dir: 2001-01-01\n", "policy.base_dir: must be text, not a value of type date"),
        ("defaults: {audit: off}\n", 'policy.defaults.audit: must be one of "off", "deny", "all", not false'),
        ("--- 1\n--- 2\n", "policy: is not YAML, see line 2, column 1"),
        (" " * (LARGEST_FILE + 2), f"policy: is larger than {LARGEST_FILE} bytes"),
    ],
    ids=lambda value: repr(value[:30]),
)  # fmt: skip
def test_yaml_that_is_no_policy_is_refused(tmp_path: Path, text: str, refused: str) -> None:
    file = tmp_path / "p.yml"
    file.write_text(text)
    with pytest.raises(PolicyConfigError) as caught:
        ServerPolicy.from_file(str(file))
    assert str(caught.value) == refused or (refused == "policy: is not YAML" and str(caught.value).startswith(refused))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab:-{}[]&*!?|> \n'\"#1.", max_size=40))
def test_no_yaml_text_ends_in_another_exception(text: str) -> None:
    try:
        ServerPolicy.from_dict(reading.read_yaml(text))
    except PolicyConfigError as error:
        assert str(error).startswith(("policy.", "policy:"))


@pytest.mark.finding("R2-C7")
def test_without_pyyaml_a_yaml_file_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(
        PolicyConfigError, match="^policy: YAML needs PyYAML, which is not installed; write JSON instead$"
    ):
        reading.read_yaml("preset: locked")


@pytest.mark.parametrize(
    ("name", "why"),
    [("none.json", "no such file or directory"), ("", "is a directory"), ("a\0b", "not a path")],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(PolicyConfigError, match=f'^policy: file ".*" cannot be read: {why}$'):
        ServerPolicy.from_file(os.path.join(tmp_path, name))


def test_inline_text_beats_a_file_beats_the_well_known_place(tmp_path: Path) -> None:
    file, well_known = tmp_path / "file.json", tmp_path / "known.json"
    file.write_text('{"preset": "hardened"}')
    well_known.write_text('{"preset": "locked"}')

    def preset(**environ: str) -> object:
        policy = ServerPolicy.from_environment(environ, well_known=str(well_known))
        return policy.document.get("preset")

    assert preset(ABX_SERVER_POLICY='{"preset": "read-only"}', ABX_SERVER_POLICY_FILE="/none") == "read-only"
    assert preset(ABX_SERVER_POLICY_FILE=str(file)) == "hardened"
    assert preset(ABX_SERVER_POLICY="", ABX_SERVER_POLICY_FILE="") == "locked"
    assert preset() == "locked"
    well_known.unlink()
    assert ServerPolicy.from_environment({}, well_known=str(well_known)) == ServerPolicy()
    assert not ServerPolicy().configured
    assert ServerPolicy.from_environment({}, well_known=str(file / "below")) == ServerPolicy()


def test_a_well_known_policy_that_cannot_be_seen_is_an_error_and_not_no_policy(tmp_path: Path) -> None:
    loop = tmp_path / "loop.json"
    loop.symlink_to(loop)
    with pytest.raises(PolicyConfigError, match="cannot be read"):
        ServerPolicy.from_environment({}, well_known=str(loop))
