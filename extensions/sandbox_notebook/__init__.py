"""Magics for sandboxes: ``%load_ext sandbox_sdk`` or ``%load_ext sandbox_notebook``, then ``%sandbox``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["allow_nested", "load_ipython_extension", "unload_ipython_extension"]


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
