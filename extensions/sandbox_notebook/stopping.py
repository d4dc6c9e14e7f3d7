"""Lets the stop button reach cells that ``await``.

There a kernel makes a cancellation of it, which the loop of the cell carries out. But it does not wake that loop: a
cell that waits for one thing alone would see the button only when that thing happens. And a loop that is held up by a
blocking call carries out nothing: such a call is interrupted as in a cell without ``await``.
"""

from __future__ import annotations

import inspect
import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING

from IPython.core.interactiveshell import InteractiveShell

if TYPE_CHECKING:
    import asyncio

    from IPython.core.interactiveshell import ExecutionInfo

SECONDS = 0.2
_BLOCKING = ("sandbox_sdk._sync", "sandbox_notebook", "nest_asyncio")
_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class StopButton:
    """Works for each cell of a running loop, from the cell's start to its end."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._cells: dict[asyncio.AbstractEventLoop, _Cell] = {}

    def start(self, info: ExecutionInfo) -> None:
        loop = _loop()
        if loop is not None and loop not in self._cells:
            self._cells[loop] = _Cell(info, loop, self._shell.user_global_ns)

    def stop(self, info: ExecutionInfo | None = None) -> None:
        """Not for a cell that another cell ran: that one goes on."""
        loop = _loop()
        if loop in self._cells and info in (None, self._cells[loop].info):
            self._cells.pop(loop).end()


class _Cell:
    def __init__(self, info: ExecutionInfo, loop: asyncio.AbstractEventLoop, namespace: dict[str, object]) -> None:
        self.info = info
        self._loop = loop
        self._namespace = namespace
        self._beat()
        self._cancel = signal.getsignal(signal.SIGINT)
        if _signals_arrive() and callable(self._cancel) and self._cancel is not signal.default_int_handler:
            signal.signal(signal.SIGINT, self._stop)

    def end(self) -> None:
        self._next.cancel()
        if _signals_arrive() and signal.getsignal(signal.SIGINT) == self._stop:
            signal.signal(signal.SIGINT, self._cancel)

    def _beat(self) -> None:
        self._next = self._loop.call_later(SECONDS, self._beat)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        __tracebackhide__ = True  # IPython heeds it
        if self._held_up(frame):
            signal.default_int_handler(number, frame)
        elif callable(self._cancel):
            self._cancel(number, frame)

    def _held_up(self, frame: FrameType | None) -> bool:
        """Whether the cell runs code that blocks: no coroutine, or one that makes a blocking call of ours.

        Outside of the cell's own code nothing may be raised: that would end the loop, and the kernel with it.
        """
        stack: list[FrameType] = []
        while frame is not None and frame.f_code is not InteractiveShell.run_code.__code__:
            stack.append(frame)
            frame = frame.f_back
        if frame is None or not stack or stack[-1].f_globals is not self._namespace:
            return False
        ours = any(str(one.f_globals.get("__name__")).startswith(_BLOCKING) for one in stack)
        return ours or not any(one.f_code.co_flags & _ASYNC for one in stack[:-1])


def _loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs here; none in a terminal's plain cells, which Ctrl-C reaches anyway."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _signals_arrive() -> bool:
    """Not in the thread of a subshell."""
    return threading.current_thread() is threading.main_thread()
