"""The page about policies: its documents are policies, its sessions run, its tables are complete."""

from __future__ import annotations

import doctest
import re
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.catalogue import PARAMS
from sandbox_server.policy import PRESETS, ServerPolicy, lint
from sandbox_server.policy import document as documents
from tests.server.policy.helpers import ENDPOINTS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "topics" / "policies.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def table(heading: str) -> list[str]:
    """The first column of the first table under a heading, without its quotation marks."""
    section = TEXT.split(f"{heading}\n", 1)[1]
    rows = re.search(r"^\| --- .*\n((?:\|.*\n)+)", section, re.MULTILINE)
    assert rows is not None
    return [row.split("|")[1].strip().strip("`") for row in rows[1].splitlines()]


@pytest.mark.parametrize("text", blocks("json"))
def test_every_document_on_the_page_is_a_policy(text: str) -> None:
    ServerPolicy.from_json(text).bind(ENDPOINTS, environ={"AGENT_TOKEN": "secret"})


def test_every_session_on_the_page_runs_as_printed() -> None:
    names: dict[str, Any] = {}
    failures: list[str] = []
    for number, text in enumerate(blocks("python")):
        session = doctest.DocTestParser().get_doctest(text, names, f"block {number}", str(PAGE), 0)
        assert session.examples
        runner = doctest.DocTestRunner()
        runner.run(session, out=failures.append, clear_globs=False)
        names = session.globs
    assert not failures, "".join(failures)


def test_the_tables_name_every_word_there_is() -> None:
    assert sorted(table("## The document")) == sorted(documents.TOP_KEYS)
    assert sorted(table("## Rules")) == sorted(documents.RULE_KEYS)
    assert sorted(table("### Paths")) == sorted(documents.PATH_KEYS)
    assert table("## Presets") == list(PRESETS)
    codes = {code for code, _ in (*lint._CHECKS, *lint._NOTES)} | {"L5", "L6", "L12"}
    assert set(table("## Lint")) == codes


def test_the_page_names_no_parameter_that_does_not_exist() -> None:
    used = re.findall(r'"params": \{"(\w+)"', TEXT)
    assert used
    assert set(used) <= set(PARAMS)
