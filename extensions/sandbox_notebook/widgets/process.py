"""A running process in the notebook: its output as it comes, a line to type into, and a stop button that works."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from IPython.display import DisplayHandle, display
from traitlets import Bool, Int, Unicode

from ..config import ui_of
from ..render import Cell, Table, pairs
from .base import STATIC, Message, Widget
from .messages import worded
from .page import start_thread
from .snapshot import as_seen, snapshot, state_of
from .transcript import Transcript

if TYPE_CHECKING:
    from sandbox_sdk import Process

_RATE = 0.05  # seconds between two batches: the server of the notebook drops what comes more often than it likes
_BATCH = 1500  # lines of one batch; a page shows no more in that time, and the newest are what one wants to see
_KEPT = 5000
_SLICE = 0.5  # seconds
_GRACE = 5.0  # seconds between asking a process to end and ending it


class ProcessPane(Widget):
    """Follows one background process until its end. Closing the page, or the pane, does not touch the process.

    ``pane.process`` is the handle. `wait_shown` is for programs: True once the end is on the page.
    """

    _esm = STATIC / "process.js"
    _css = STATIC / "pane.css"

    title = Unicode().tag(sync=True)
    state = Unicode("running").tag(sync=True)
    done = Bool(False).tag(sync=True)
    started = Int().tag(sync=True)  # milliseconds since 1970
    ended = Int(0).tag(sync=True)
    takes_input = Bool(False).tag(sync=True)

    def __init__(self, process: Process, *, title: str = "", takes_input: bool = False) -> None:
        self.process = process
        self._transcript = Transcript(_KEPT)
        self._sent = 0
        self._open_sent: list[Any] = []
        self._stopping = self._following = False
        self._end = threading.Event()
        self._handle: DisplayHandle | None = None
        super().__init__(
            {"sync": self._sync, "stop": self._stop, "kill": self._kill, "type": self._type, "eof": self._eof},
            title=title or process.command,
            takes_input=takes_input,
            started=int(time.time() * 1000),
        )

    def show(self) -> None:
        """Display it, and follow the process from its first kept byte; where outputs are compared, as it is now."""
        if ui_of(os.environ) == "html":
            display(self)
            return
        self._handle = display(self, display_id=True)
        self.follow()

    def follow(self) -> None:
        """Follow the process, wherever this is displayed; a pane that is shown does so by itself."""
        with self._mutex:
            if self._following:
                return
            self._following = True
        start_thread(self.context.copy(), self._follow, "process pane")
        start_thread(self.context.copy(), self._flush_often, "process pane sender")

    def wait_shown(self, timeout: float | None = None) -> bool:
        """In slices: what interrupts just before one long wait would be heard at the end of it."""
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._end.wait(max(0.0, min(_SLICE, end - time.monotonic()))):
            if time.monotonic() >= end:
                return False
        return True

    def face(self) -> Table:
        return Table(pairs([("state", self.state)]), headline=Cell(self.title, "strong"))

    def still(self) -> tuple[str, str]:
        from sandbox_sdk import SandboxError

        if self._following:
            with self._mutex:
                return snapshot(self.title, self.state, self._transcript)
        try:
            return as_seen(self.title, self.process)
        except SandboxError:  # it is gone, or the client is closed: only what is known can be told
            return super().still()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        if ui_of(os.environ) != "html":
            self.follow()
        return super()._repr_mimebundle_(**options)

    def _follow(self) -> None:
        from sandbox_sdk import SandboxConnectionError, SandboxError

        gone = False
        try:
            with self.process.follow() as events:
                for event in events:
                    with self._mutex:
                        if event.kind == "gap":
                            self._transcript.note(f"{event.lost:,} bytes of {event.stream} are gone")
                        elif event.kind == "output":
                            self._transcript.feed("stderr" if event.stream == "stderr" else "stdout", event.data)
            self.process.refresh()
        except SandboxError as error:
            with self._mutex:
                self._transcript.note(worded(error))
            gone = isinstance(error, SandboxConnectionError) and error.gone
        with self._mutex:
            self._transcript.end()
            self._finish(gone)
        self._end.set()

    def _finish(self, gone: bool) -> None:
        info = self.process.info
        if info.running:
            what = "the sandbox is gone" if gone else "the output broke off, and whether it goes on is not known"
            self.state = f"lost: {what}"
        elif info.signal and self._stopping:
            self.state = "stopped"
        else:
            self.state = state_of(info)
        self.ended = int(time.time() * 1000)
        self.done = True
        self._flush()
        if self._handle is not None:
            # A notebook opened again has no kernel that holds the widget; plain HTML it can always show.
            html, text = snapshot(self.title, self.state, self._transcript, (self.ended - self.started) / 1000)
            self._handle.update({"text/html": html, "text/plain": text}, raw=True)

    def _flush_often(self) -> None:
        while not self._end.wait(_RATE):
            with self._mutex:
                self._flush()

    def _flush(self) -> None:
        opened = [list(line) for line in self._transcript.open_lines()]
        if self._transcript.count > self._sent or opened != self._open_sent:
            self._send_since(self._sent, "lines")
        self._open_sent = opened

    def _send_since(self, number: int, kind: str) -> None:
        batch = self._transcript.since(number, _KEPT if kind == "snapshot" else _BATCH)
        self.tell(kind, first=batch.first, lines=batch.lines, open=self._transcript.open_lines())
        self._sent = max(self._sent, batch.first + len(batch.lines))

    def _sync(self, message: Message, _: Sequence[memoryview]) -> None:
        """A page begins to show it, or has missed something."""
        number = message.get("from")
        self._send_since(number if isinstance(number, int) else 0, "snapshot")

    def _stop(self, _: Message, __: Sequence[memoryview]) -> None:
        self.tell("heard")
        if not self._stopping:
            self._stopping = True
            self.state = "stopping"
            start_thread(self.context.copy(), self._bring_down, "process pane stopper")

    def _bring_down(self) -> None:
        from sandbox_sdk import SandboxError

        try:
            self.process.terminate()
            if not self._end.wait(_GRACE):
                self.process.kill()
        except SandboxError as error:
            self.tell("failed", message=worded(error))

    def _kill(self, _: Message, __: Sequence[memoryview]) -> None:
        self.tell("heard")
        self.process.kill()

    def _type(self, message: Message, _: Sequence[memoryview]) -> None:
        text = message.get("text")
        if isinstance(text, str):
            self.process.stdin.write(text + "\n")
            self._transcript.note(f"❯ {text}")

    def _eof(self, _: Message, __: Sequence[memoryview]) -> None:
        self.process.stdin.close()
        self.takes_input = False
