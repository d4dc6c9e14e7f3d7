"""Magics for sandboxes: ``%load_ext sandbox_sdk`` or ``%load_ext sandbox_notebook``, then ``%sandbox``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from .widgets.caps import CapabilityTable
    from .widgets.files import FileBrowser
    from .widgets.matrix import PolicyMatrix
    from .widgets.panel import SandboxPanel
    from .widgets.process import ProcessPane
    from .widgets.terminal import TerminalPane
    from .widgets.upload import UploadPicker

__all__ = [
    "CapabilityTable",
    "FileBrowser",
    "PolicyMatrix",
    "ProcessPane",
    "SandboxPanel",
    "TerminalPane",
    "UploadPicker",
    "allow_nested",
    "load_ipython_extension",
    "unload_ipython_extension",
]

# Imported when first asked for: loading the extension waits for no widget.
_WIDGETS = {
    "CapabilityTable": "caps",
    "FileBrowser": "files",
    "PolicyMatrix": "matrix",
    "ProcessPane": "process",
    "SandboxPanel": "panel",
    "TerminalPane": "terminal",
    "UploadPicker": "upload",
}


def __getattr__(name: str) -> Any:
    if name not in _WIDGETS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".widgets.{_WIDGETS[name]}", __name__), name)


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Add ``%sandbox``, its completion and its settings. Loading twice is loading once."""
    from .hook import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """Take all of it away again. Sandboxes keep running, and the next load finds them."""
    from .hook import unload

    unload(shell)


def allow_nested() -> None:
    """Let ``asyncio.run()`` work inside cells; see `sandbox_notebook.nested` for what it costs."""
    from .nested import allow_nested as allow

    allow()
