"""Widgets whose sandbox is gone: the page is told that, and never where the sandbox was."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from sandbox_notebook.widgets.base import Widget
from sandbox_notebook.widgets.caps import CapabilityTable
from sandbox_notebook.widgets.files import FileBrowser
from sandbox_notebook.widgets.messages import worded
from sandbox_notebook.widgets.panel import SandboxPanel
from sandbox_notebook.widgets.process import ProcessPane
from sandbox_notebook.widgets.terminal import TerminalPane
from sandbox_notebook.widgets.upload import UploadPicker
from sandbox_sdk import NotFoundError, Sandbox, SandboxConnectionError, StreamInterruptedError
from tests.support.waiting import eventually

GONE = "the sandbox is gone"


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox.local() as sandbox:
        yield sandbox


def end(sandbox: Sandbox) -> None:
    os.kill(sandbox._local.box.supervisor()[0], signal.SIGKILL)
    eventually(lambda: not sandbox.running)


def heard(widget: Widget, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: told.append(content))
    return told


def test_every_widget_says_so_and_no_more(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.files.write("a.txt", "a")
    process = sandbox.process.start(["sleep", "600"])
    asked: list[tuple[Widget, dict[str, Any]]] = [
        (UploadPicker(sandbox), {"kind": "open", "id": "1", "name": "x", "size": 1}),
        (FileBrowser(sandbox), {"kind": "list", "ask": 1, "path": ""}),
        (CapabilityTable(sandbox), {"kind": "refresh"}),
        (SandboxPanel(sandbox), {"kind": "tick", "tab": "processes"}),
        (ProcessPane(process), {"kind": "kill"}),
    ]
    pane, terminal = asked[-1][0], TerminalPane(sandbox)
    assert isinstance(pane, ProcessPane)
    pane.follow()
    told = {widget: heard(widget, monkeypatch) for widget, _ in [*asked, (terminal, {})]}
    end(sandbox)
    assert pane.wait_shown(60) and pane.state == f"lost: {GONE}"
    eventually(lambda: terminal.state == GONE)
    for widget, message in asked:
        widget._hear(None, message, ())
        assert any(GONE in (one.get("message"), one.get("error")) for one in told[widget]), widget
    shown = json.dumps([list(told.values()), [repr(widget) for widget in told]])
    assert GONE in shown and "unix:" not in shown and "api.sock" not in shown and "Errno" not in shown


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SandboxConnectionError("no server answers at http://here:1", gone=True), GONE),
        (
            StreamInterruptedError("broke off; the sandbox at http://here:1 is up"),
            "the connection to the sandbox broke",
        ),
        (NotFoundError('no file "x"'), 'no file "x"'),
    ],
)
def test_an_error_of_a_connection_is_told_without_its_address(error: Any, words: str) -> None:
    assert worded(error) == words
