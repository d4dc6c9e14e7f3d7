"""The kernel's end of the sandbox panel: what a tab is told when its question fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sandbox_notebook.widgets.panel import SandboxPanel
from sandbox_sdk import (
    EndpointNotAvailableError,
    PolicyDeniedError,
    SandboxConnectionError,
    SandboxError,
    ServerAPIError,
)


def told(error: SandboxError, *, running: bool) -> list[str]:
    def fails(**_: object) -> None:
        raise error

    sandbox: Any = SimpleNamespace(
        name="one", root="/w", running=running, info=dict, _facts=dict, process=SimpleNamespace(list=fails)
    )
    panel = SandboxPanel(sandbox)
    kinds: list[str] = []
    panel.tell = lambda kind, **_: kinds.append(kind)  # type: ignore[method-assign]
    panel._hear(panel, {"kind": "tick", "tab": "processes"}, [])
    panel.close()
    return kinds


@pytest.mark.parametrize("error", [PolicyDeniedError("denied"), EndpointNotAvailableError("off")])
def test_a_refusal_is_told_as_one_for_the_tab_asks_no_more(error: SandboxError) -> None:
    assert told(error, running=True) == ["refused"]


@pytest.mark.parametrize("error", [SandboxConnectionError("no answer"), ServerAPIError("busy", status_code=503)])
def test_a_passing_failure_is_none_and_the_tab_asks_again(error: SandboxError) -> None:
    assert told(error, running=True) == ["failed"]


@pytest.mark.parametrize(
    ("error", "running"), [(SandboxConnectionError("gone", gone=True), True), (SandboxError("closed"), False)]
)
def test_the_end_of_the_sandbox_is_told_as_its_end(error: SandboxError, running: bool) -> None:
    assert told(error, running=running) == ["ended"]
