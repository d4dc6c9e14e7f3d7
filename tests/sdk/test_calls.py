"""Calls put every field where the contract wants it, encoded once."""

from __future__ import annotations

import json
import shlex
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_sdk import _calls as calls
from sandbox_sdk._call import call, command_line, nothing, stdin_text
from sandbox_sdk._contract import ENDPOINTS
from sandbox_sdk._search import search


def query(target: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(target).query, keep_blank_values=True, errors="surrogateescape")


@pytest.mark.field(2)
@pytest.mark.field(4)
@pytest.mark.field(5)
@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_field_002_004_005_a_path_is_encoded_exactly_once(path: str) -> None:
    target = calls.stat(path, follow=True).target
    assert query(target) == {"path": [path]}
    assert target.isascii() and " " not in target and "#" not in target


def test_names_that_are_not_utf8_keep_their_bytes() -> None:
    assert calls.stat("caf\udce9", follow=True).target == "/files/stat?path=caf%E9"


@given(st.lists(st.text(min_size=0), min_size=1))
def test_a_list_of_arguments_is_split_again_into_the_same_list(arguments: list[str]) -> None:
    assert shlex.split(command_line(arguments)) == arguments


def test_a_command_is_text_or_texts() -> None:
    assert command_line("ls -l") == "ls -l"
    with pytest.raises(TypeError, match="sequence of texts, not int"):
        command_line(7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="not int; put str"):
        command_line(["ls", 7])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="sequence of texts, not bytes"):
        command_line(b"ls")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "meant"),
    [(("*.txt",), "'.', '*.txt'"), (("data",), "'data', '*'"), (("data", ""), "'data', '*'")],
)
def test_a_search_for_nothing_is_told_that_the_directory_comes_first(words: tuple[str, ...], meant: str) -> None:
    with pytest.raises(ValueError) as refused:
        search(words[0], words[1] if words[1:] else None)
    assert str(refused.value) == (f"search() needs a pattern or contents=; the directory comes first: search({meant})")
    assert json.loads(search("data", None, contents="x").body or b"") == {"path": "data", "contents": "x"}


@pytest.mark.finding("R2-C8")
def test_what_the_caller_does_not_set_is_not_sent() -> None:
    assert json.loads(calls.shell("ls", cwd=None, env=None, timeout=None, stdin=None).body or b"") == {"command": "ls"}
    assert calls.list_page("a").target == "/files/list?path=a"
    assert calls.upload("a", size=3).target == "/files/upload-stream?path=a"
    assert json.loads(calls.start("ls", cwd=None, env=None, capture=False, stdin=False).body or b"") == {
        "command": "ls"
    }


@pytest.mark.field(97)
def test_field_097_zero_is_sent_as_zero() -> None:
    assert json.loads(calls.shell("ls", cwd=None, env={}, timeout=0, stdin="").body or b"") == {
        "command": "ls",
        "env": {},
        "timeout": 0,
        "stdin": "",
    }


def test_the_raw_form_moves_the_body_fields_into_the_query() -> None:
    upload = calls.upload("d/ü", size=5, overwrite=False, mode="600", durable=True, sha256=True)
    assert query(upload.target) == {"path": ["d/ü"], "overwrite": ["false"], "mode": ["600"], "durable": ["true"]}
    assert upload.body is None
    assert upload.headers["Content-Length"] == "5"
    assert upload.headers["Want-Repr-Digest"] == "sha-256=10"


def test_an_id_in_the_path_is_one_segment() -> None:
    assert calls.process("a/b?c").target == "/process/a%2Fb%3Fc"
    assert calls.custom("with space", {"n": 1}, None).target == "/commands/with%20space"


def test_stdin_travels_as_text_only() -> None:
    assert stdin_text("é".encode()) == "é"
    with pytest.raises(ValueError, match="byte 1"):
        stdin_text(b"a\xff")


def test_a_field_that_the_contract_does_not_know_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        call("files_stat", nothing, nonsense=1)


@given(st.sampled_from(sorted(ENDPOINTS)))
def test_every_path_parameter_is_a_field(endpoint: str) -> None:
    _, template, places = ENDPOINTS[endpoint]
    in_path = {name for name, place in places.items() if place == "path"}
    assert {part[1:-1] for part in template.split("/") if part.startswith("{")} == in_path
    assert unquote(template) == template
