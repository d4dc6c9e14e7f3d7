"""A sandbox as the last line of a cell: its panel where a page can run one, else the same few words as ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .widgets.views import views_for

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from sandbox_sdk import AsyncSandbox, Sandbox

    from .magics import SandboxMagics

_PLACE = "sandbox_sdk"


class Displays:
    """What the shell shows for objects of the client that have a page of their own."""

    def __init__(self, magics: SandboxMagics) -> None:
        self._magics = magics
        self._printers = {"Sandbox": self._sandbox, "AsyncSandbox": self._async_sandbox}

    def add(self, shell: InteractiveShell) -> None:
        """By name: nothing of the client is imported before something is shown."""
        formatter = _formatter(shell)
        for name, printer in self._printers.items():
            formatter.for_type_by_name(_PLACE, name, printer)

    def remove(self, shell: InteractiveShell) -> None:
        for name in self._printers:
            _formatter(shell).pop(f"{_PLACE}.{name}", None)

    def _sandbox(self, sandbox: Sandbox) -> Any:
        return self._shown(sandbox, sandbox)

    def _async_sandbox(self, sandbox: AsyncSandbox) -> Any:
        return self._shown(sandbox, sandbox._twin if sandbox.running else None)

    def _shown(self, shown: Sandbox | AsyncSandbox, sandbox: Sandbox | None) -> Any:
        words = shown._repr_mimebundle_()
        if sandbox is None or not sandbox.running or self._magics.ui not in ("auto", "widget"):
            return words
        if views_for(self._magics.shell) is None:
            return words
        from .widgets.panel import SandboxPanel

        data, metadata = SandboxPanel(sandbox)._repr_mimebundle_()
        return {**data, **words}, metadata


def _formatter(shell: InteractiveShell) -> Any:
    return shell.display_formatter.mimebundle_formatter  # type: ignore[union-attr]
