"""``asyncio.run()`` inside cells: off unless asked for, because nesting loops has faults of its own.

What does not work with it: timeouts across the nesting, ``anyio.run``, ``asyncio.Runner``, one async client shared by
a cell and a widget. ``await`` in the cell has none of these faults.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_MARKS = (
    "cannot be called from a running event loop",
    "This event loop is already running",
    "Cannot run the event loop while another loop is running",
)
HINT = (
    "hint: `await` works in a cell: write `await main()` for `asyncio.run(main())`; for code you cannot change, "
    "`%config SandboxMagics.nested_asyncio = True` lets it run"
)


AWAIT_HINT = (
    "hint: an asynchronous call has no result before `await`: `result = await sb.run(…)`, "
    "`async with await AsyncSandbox.local() as sb:`"
)


def allow_nested() -> None:
    """Let ``asyncio.run()`` and ``run_until_complete()`` work where a loop runs already, as in every cell.

    Applied once however often it is called. Loops that cannot be nested, like uvloop's, are refused.
    """
    import asyncio

    loop = _loop()
    if not isinstance(loop, asyncio.BaseEventLoop):
        kind = type(loop).__module__.partition(".")[0]
        raise RuntimeError(f'"{kind}" loops cannot be nested: start the kernel with the loop of asyncio')
    if not hasattr(asyncio, "_nest_patched"):
        _module().apply(loop)


def hint_for(error: BaseException | None) -> str:
    """The advice for a cell that died of a nested loop or of a call that nobody awaited, else nothing."""
    if isinstance(error, RuntimeError) and any(mark in str(error) for mark in _MARKS):
        return HINT
    if isinstance(error, (AttributeError, TypeError)) and "'coroutine' object" in str(error):
        return AWAIT_HINT
    return ""


def _loop() -> asyncio.AbstractEventLoop:
    """The loop that runs here, else the one in which a terminal's async cells run."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        from IPython.core.async_helpers import get_asyncio_loop

        loop: asyncio.AbstractEventLoop = get_asyncio_loop()
        return loop


def _module() -> ModuleType:
    for name in ("nest_asyncio", "nest_asyncio2"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise RuntimeError('neither "nest_asyncio" nor "nest_asyncio2" is installed: pip install nest-asyncio')
