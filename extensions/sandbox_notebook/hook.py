"""Puts the extension into an IPython shell, and takes it out.

What must outlive ``%reload_ext`` (the sandboxes) rests in the shell's own place for such things, ``shell.meta``.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .complete import SandboxMatcher
from .displays import Displays
from .magics import SandboxMagics
from .nested import hint_for
from .questions import questions
from .session import Session
from .statements import BareMagics, mark_running_cell
from .stopping import StopButton
from .tracebacks import ShortInterrupts

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

_PLACE = "sandbox_notebook"


class Installed:
    """What one load put into the shell."""

    def __init__(self, shell: InteractiveShell, session: Session) -> None:
        self.magics = SandboxMagics(shell, session)
        self.matcher = SandboxMatcher(self.magics)
        self.transformer = BareMagics()
        self.stop_button = StopButton(shell)
        self.interrupts = ShortInterrupts(self.magics)
        self.displays = Displays(self.magics)
        self.matcher_function = self.matcher.as_matcher()

    def add(self, shell: InteractiveShell) -> None:
        shell.register_magics(self.magics)
        shell.Completer.custom_matchers.append(self.matcher_function)
        shell.input_transformers_cleanup.append(questions)
        shell.ast_transformers.append(self.transformer)
        self.displays.add(shell)
        self.interrupts.add(shell)
        shell.events.register("pre_run_cell", self.before_cell)
        shell.events.register("post_run_cell", self.after_cell)

    def remove(self, shell: InteractiveShell) -> None:
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop("sandbox", None)
        shell.magics_manager.registry.pop(SandboxMagics.__name__, None)
        shell.configurables.remove(self.magics)  # type: ignore[arg-type]
        shell.Completer.custom_matchers.remove(self.matcher_function)
        shell.input_transformers_cleanup.remove(questions)
        shell.ast_transformers.remove(self.transformer)
        self.displays.remove(shell)
        self.interrupts.remove(shell)
        shell.events.unregister("pre_run_cell", self.before_cell)
        shell.events.unregister("post_run_cell", self.after_cell)
        self.stop_button.stop()
        self.magics.tracebacks = False  # the client's errors are short again, too

    def before_cell(self, info: ExecutionInfo) -> None:
        self.stop_button.start(info)

    def after_cell(self, result: ExecutionResult | None) -> None:
        """A cell that was cancelled before it began has no result."""
        self.stop_button.stop(result.info if result else None)
        hint = hint_for(result.error_in_exec if result else None)
        if hint:
            sys.stderr.write(f"{hint}\n")


def load(shell: InteractiveShell) -> None:
    meta: dict[str, Any] = shell.meta.setdefault(_PLACE, {})
    if "installed" in meta:
        return
    installed = Installed(shell, meta.setdefault("session", Session()))
    installed.add(shell)
    mark_running_cell(installed.transformer)
    meta["installed"] = installed


def unload(shell: InteractiveShell) -> None:
    meta: dict[str, Any] = shell.meta.get(_PLACE, {})
    installed: Installed | None = meta.pop("installed", None)
    if installed is not None:
        installed.remove(shell)
