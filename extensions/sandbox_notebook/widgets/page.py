"""What a widget needs of the kernel: messages that come through while a cell is busy, and threads that may send.

ipykernel handles a message of the page on the thread that last spoke on that channel. Where that was a cell, clicks
wait until the cell has ended. So our widgets are made, and fed, in a context that belongs to no cell.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any


def detached() -> Context:
    """A copy of this context in which no cell is the parent of what is sent; a plain copy where that cannot be had."""
    context = copy_context()
    kernel = _kernel()
    if kernel is None:
        return context
    try:
        identity, parent = kernel._parent_ident["shell"], kernel.get_parent("shell")
    except (AttributeError, KeyError, TypeError):
        return context  # ipykernel 6, where nothing helps, or one that has changed
    context.run(kernel.set_parent, [b""], {}, "shell")
    kernel.set_parent(identity, parent, "shell")
    return context


def start_thread(context: Context, work: Callable[[], None], name: str) -> threading.Thread:
    """A daemon thread in that context: without one, ipykernel 7.0 lets no thread send anything."""
    thread = threading.Thread(target=context.run, args=(work,), name=name, daemon=True)
    thread.start()
    return thread


def _kernel() -> Any:
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None)
