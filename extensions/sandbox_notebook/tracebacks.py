"""A call of the client that was stopped, shown as short as its errors are."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING

from sandbox_sdk._tracebacks import left_a_call, short

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .magics import SandboxMagics


def stops() -> tuple[type[BaseException], ...]:
    """What a stopped call ends with. asyncio takes a tenth of a second to import, and every front end has it."""
    asyncio = sys.modules.get("asyncio")
    return (KeyboardInterrupt,) if asyncio is None else (KeyboardInterrupt, asyncio.CancelledError)


class ShortInterrupts:
    """Takes the place that a shell has for showing exceptions of one's own, unless somebody else has it."""

    def __init__(self, magics: SandboxMagics) -> None:
        self._magics = magics
        self._installed: object = None

    def add(self, shell: InteractiveShell) -> None:
        if not shell.custom_exceptions:
            shell.set_custom_exc(stops(), self._show)
            self._installed = shell.CustomTB

    def remove(self, shell: InteractiveShell) -> None:
        if self._installed is shell.CustomTB:
            shell.set_custom_exc((), None)

    def _show(
        self,
        shell: InteractiveShell,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType,
        tb_offset: int | None = None,
    ) -> None:
        if type(error) in stops() and left_a_call(error) and not self._magics.tracebacks:
            lines = short(error, "the call was stopped", "")
            vars(error)["_render_traceback_"] = lambda: lines
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def _stops() -> tuple[type[BaseException], ...]:
    """What ■ raises: in a cell that awaits, which nobody does without asyncio; to import it here would bring ssl."""
    loops = sys.modules.get("asyncio")
    return (KeyboardInterrupt, loops.CancelledError) if loops is not None else (KeyboardInterrupt,)
