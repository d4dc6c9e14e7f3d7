"""The table of a terminal: the words of the plain one, in colours, within its width, and nothing of anybody else's."""

from __future__ import annotations

import re
import sys

import pytest

from sandbox_notebook.coloured import coloured
from sandbox_notebook.render import Cell, Table, as_text
from sandbox_notebook.text import width

TABLE = Table(
    [[Cell("allowed", "good"), "files_list", "12"], [Cell("denied", "bad"), "shell", "3"]],
    ("decision", "endpoint", "calls"),
    frozenset({2}),
    headline=Cell("two of them", "strong"),
    notes=["a remark"],
)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def shown(table: Table, columns: int = 80) -> str:
    text = coloured(table, columns=columns)
    assert text is not None
    return text


def bare(text: str) -> str:
    return re.sub(r"\x1b\[[\d;]*m", "", text)


def test_the_words_are_those_of_the_plain_table() -> None:
    assert bare(shown(TABLE)).split() == as_text(TABLE).split()
    assert "\x1b[32m✓" in shown(TABLE) and "\x1b[31m✗" in shown(TABLE) and "\x1b[1mtwo of them" in shown(TABLE)


def test_numbers_end_flush() -> None:
    lines = bare(shown(TABLE)).splitlines()
    assert lines[2].endswith(" 12") and lines[3].endswith("  3") and len(lines[2]) == len(lines[3])


def test_it_folds_instead_of_running_over() -> None:
    table = Table([["a" * 90, "b c " * 30]], headline=Cell("x" * 100), notes=["word " * 40])
    lines = bare(shown(table, 40)).splitlines()
    assert max(map(width, lines)) <= 40
    assert "".join(lines).count("a") == 90 and "".join(lines).count("c") == 30


def test_what_is_shown_adds_no_sequence_of_its_own() -> None:
    hostile = "\x1b]0;title\x07\x1b[31m[bold]:smile:[/]\r"
    text = shown(Table([[hostile]], headline=Cell(hostile), notes=[hostile]))
    assert bare(text).count(r"\x1b]0;title\x07\x1b[31m[bold]:smile:[/]\r") == 3
    assert "\x07" not in text and "\r" not in text and "\x1b]" not in text


def test_no_colour_means_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3\dm", shown(TABLE))
    monkeypatch.setenv("TERM", "dumb")
    assert shown(TABLE).split() == as_text(TABLE).split()


def test_without_the_library_there_is_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert coloured(TABLE) is None
