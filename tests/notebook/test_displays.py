"""What a sandbox as the last line of a cell becomes, with and without a page, and that unloading takes it back."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox_notebook.displays import Displays
from sandbox_sdk import AsyncSandbox, FileEntry, FileList, Sandbox
from tests.sdk.shown import VALUES

VIEW = "application/vnd.jupyter.widget-view+json"


class Shell:
    """As much of a shell as the displays need; with a kernel, or without one."""

    def __init__(self, kernel: bool) -> None:
        from IPython.core.formatters import DisplayFormatter

        self.display_formatter = DisplayFormatter()
        if kernel:
            self.kernel = SimpleNamespace()

    def shown(self, value: object) -> dict[str, Any]:
        data: dict[str, Any] = self.display_formatter.format(value)[0]
        return data


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.local(name="shown", isolation="none") as sandbox:
        yield sandbox


def displays(shell: Shell, ui: str) -> Displays:
    made = Displays(SimpleNamespace(shell=shell, ui=ui))  # type: ignore[arg-type]
    made.add(shell)  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize("ui", ["auto", "widget"])
def test_a_page_gets_the_panel_and_the_same_words_as_ever(sandbox: Sandbox, ui: str) -> None:
    shell = Shell(kernel=True)
    displays(shell, ui)
    shown = shell.shown(sandbox)
    assert VIEW in shown and shown["text/plain"] == repr(sandbox) and shown["text/html"] == sandbox._repr_html_()


@pytest.mark.parametrize(("kernel", "ui"), [(True, "html"), (True, "text"), (False, "auto")])
def test_without_a_page_there_are_only_the_words(sandbox: Sandbox, kernel: bool, ui: str) -> None:
    shell = Shell(kernel)
    displays(shell, ui)
    assert shell.shown(sandbox) == {"text/plain": repr(sandbox), "text/html": sandbox._repr_html_()}


def test_unloading_takes_it_back_also_when_it_was_used(sandbox: Sandbox) -> None:
    for used in (False, True):
        shell = Shell(kernel=True)
        made = displays(shell, "auto")
        assert not used or VIEW in shell.shown(sandbox)
        made.remove(shell)  # type: ignore[arg-type]
        assert VIEW not in shell.shown(sandbox)


def test_an_asynchronous_sandbox_has_the_same_panel_and_an_ended_one_none(sandbox: Sandbox) -> None:
    shell = Shell(kernel=True)
    displays(shell, "auto")
    other = AsyncSandbox(sandbox._local)
    assert VIEW in shell.shown(other) and shell.shown(other)["text/plain"].startswith("<AsyncSandbox ")
    with Sandbox.local(name="ended", isolation="none") as ended:
        pass
    assert shell.shown(ended) == {"text/plain": '<Sandbox "ended": state ended>', "text/html": ended._repr_html_()}


@pytest.mark.parametrize("name", VALUES)
def test_ipython_shows_the_text_of_a_value_and_not_what_it_has_for_lists_and_errors(name: str) -> None:
    value, text = VALUES[name]
    assert Shell(kernel=False).shown(value)["text/plain"] == text


def test_as_a_part_of_something_else_a_value_is_one_line() -> None:
    entry = FileEntry("a", "a", "file")
    for whole in ((FileList([entry]), 1), {"a": entry}):
        assert Shell(kernel=False).shown(whole)["text/plain"].replace("\n", "").replace("  ", "") == repr(whole)


def test_a_part_of_a_sandbox_shows_its_methods_under_the_name_of_the_sandbox(sandbox: Sandbox) -> None:
    shell = Shell(kernel=False)
    shown = shell.shown(sandbox.git)
    assert shown["text/plain"].splitlines()[:2] == [
        'git of sandbox "shown"',
        "  status  The branch and the changed files",
    ]
    assert "diff</span>" in shown["text/html"] and sandbox._local.socket not in str(shown)
    assert shell.shown({"git": sandbox.git})["text/plain"] == "{'git': <Git of sandbox \"shown\">}"
    for server in (sandbox.server, sandbox.server_at(token="other")):
        assert repr(server) == '<ServerClient of sandbox "shown">'
    other = AsyncSandbox(sandbox._local)
    assert repr(other.pty) == '<AsyncTerminals of sandbox "shown">' and shell.shown(other.git) == shown
