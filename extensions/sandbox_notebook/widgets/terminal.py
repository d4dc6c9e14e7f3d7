"""A terminal of the sandbox in the notebook: what it shows goes to the page, what is typed there goes to it.

The page never learns where the sandbox is: this kernel is connected to the terminal, and passes both ways on. xterm.js,
which draws it, goes to the page in a message, and only when one begins to show a terminal.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

from IPython.display import DisplayHandle, display
from traitlets import Bool, Unicode

from ..render import Cell, Table, pairs
from ..text import signal_name
from .base import STATIC, Message, Widget
from .messages import worded
from .page import start_thread
from .sgr import spans, without_moves
from .snapshot import snapshot
from .transcript import Transcript

if TYPE_CHECKING:
    from sandbox_sdk import Sandbox, Terminal

_RATE = 0.05  # seconds between two batches
_BATCH_BYTES = 32 << 10  # of one batch: more a second, and the notebook's server drops it. The shell waits for us.
_KEPT_BYTES = 256 << 10  # for pages that begin to show it later
_FACE_LINES = 24
_MOST_CELLS = 1000


class TerminalPane(Widget):
    """A terminal that is open in a sandbox, or a new one. Closing the page, or the kernel, leaves it open.

    ``pane.terminal`` is the connection, ``pane.session_id`` comes back to it: ``TerminalPane(sb, session_id)``.
    """

    _esm = STATIC / "terminal.js"
    _css = (STATIC / "pane.css").read_text("utf-8") + (STATIC / "terminal.css").read_text("utf-8")

    title = Unicode().tag(sync=True)
    state = Unicode("connected").tag(sync=True)
    connected = Bool(True).tag(sync=True)
    done = Bool(False).tag(sync=True)

    def __init__(
        self, sandbox: Sandbox, session_id: str | None = None, *, takeover: bool = False, title: str = ""
    ) -> None:
        terminals = sandbox.pty
        self.terminal: Terminal = (
            terminals.connect(session_id, takeover=takeover) if session_id is not None else terminals.create()
        )
        self.session_id = self.terminal.id
        self._sandbox = sandbox
        self._started = time.monotonic()
        self._forget()
        self._handle: DisplayHandle | None = None
        self._plain_title = title or "terminal"  # ids are of one run only
        super().__init__(
            {"open": self._open, "type": self._type, "size": self._size, "attach": self._attach, "close": self._close},
            title=title or f"terminal {self.session_id[:8]}",
        )
        self._begin(self.terminal)

    def show(self) -> None:
        self._handle = display(self, display_id=True)

    def face(self) -> Table:
        with self._mutex:
            lines = [*self._transcript.since(0, _FACE_LINES).lines, *self._transcript.open_lines()][-_FACE_LINES:]
        shown = ["".join(text for text, _ in spans(line.text)) for line in lines]
        return Table(
            pairs([("state", self.state), *(("screen" if not n else "", text) for n, text in enumerate(shown))]),
            headline=Cell(self._plain_title, "strong"),
        )

    def _begin(self, terminal: Terminal) -> None:
        """Carry both ways, on a thread each: a program that takes no input must still be able to write."""
        self._typed: SimpleQueue[str | None] = SimpleQueue()
        typed = self._typed
        start_thread(self.context.copy(), lambda: self._follow(terminal, typed), "terminal pane")
        start_thread(self.context.copy(), lambda: _pass_on(typed, terminal), "terminal pane typist")

    def _follow(self, terminal: Terminal, typed: SimpleQueue[str | None]) -> None:
        """Until the shell ends, or the connection does. One batch at a time, and none too soon after the last."""
        from sandbox_sdk import SandboxError

        sent, failure = 0.0, None
        try:
            while piece := terminal.read():
                pieces, size = [piece], len(piece)
                while size < _BATCH_BYTES and piece and (left := sent + _RATE - time.monotonic()) > 0:
                    try:
                        piece = terminal.read(left)
                    except TimeoutError:
                        break
                    pieces.append(piece)
                    size += len(piece)
                time.sleep(max(0.0, sent + _RATE - time.monotonic()))
                sent = time.monotonic()
                with self._mutex:
                    self._show("".join(pieces).encode("utf-8", "replace"))
        except SandboxError as error:
            failure = worded(error, alive=self._sandbox.running)
        typed.put(None)
        with self._mutex:
            if terminal is self.terminal:
                self._end(failure)

    def _show(self, data: bytes) -> None:
        at = self._end_at
        self._kept.append(data)
        self._end_at += len(data)
        self._held += len(data)
        while self._held - len(self._kept[0]) >= _KEPT_BYTES:
            self._held -= len(self._kept.popleft())
        self._transcript.feed("stdout", without_moves(data))
        self.tell("output", at=at, buffers=[data])

    def _end(self, failure: str | None) -> None:
        self.connected = False
        if failure is not None:
            self.state = failure
            return
        terminal = self.terminal
        if terminal.exit_signal:
            self.state = f"ended by {signal_name(terminal.exit_signal)}"
        else:
            self.state = "ended" if terminal.exit_code is None else f"exit code {terminal.exit_code}"
        self.done = True
        self._transcript.end()
        if self._handle is not None:
            # A notebook opened again has no kernel that holds the widget; plain HTML it can always show.
            seconds = time.monotonic() - self._started
            html, text = snapshot(self.title, self.state, self._transcript, seconds)
            self._handle.update({"text/html": html, "text/plain": text}, raw=True)

    def _forget(self) -> None:
        self._kept: deque[bytes] = deque()
        self._held = self._end_at = 0
        self._transcript = Transcript(200)

    def _tell_screen(self) -> None:
        self.tell("screen", at=self._end_at - self._held, buffers=[b"".join(self._kept)])

    def _open(self, message: Message, _: Sequence[memoryview]) -> None:
        """A page begins to show it, or has missed something."""
        if message.get("library"):
            library = STATIC / "xterm"
            self.tell("library", buffers=[(library / name).read_bytes() for name in ("xterm.mjs", "xterm.css")])
        self._tell_screen()

    def _type(self, message: Message, _: Sequence[memoryview]) -> None:
        text = message.get("text")
        if isinstance(text, str) and self.connected:
            self._typed.put(text.encode("utf-8", "replace").decode())

    def _size(self, message: Message, _: Sequence[memoryview]) -> None:
        cols, rows = message.get("cols"), message.get("rows")
        if isinstance(cols, int) and isinstance(rows, int) and self.connected:
            self.terminal.resize(min(max(cols, 1), _MOST_CELLS), min(max(rows, 1), _MOST_CELLS))

    def _attach(self, _: Message, __: Sequence[memoryview]) -> None:
        """Connect again after another viewer has taken the terminal over, or the connection broke."""
        if self.connected or self.done:
            return
        self.terminal = self._sandbox.pty.connect(self.session_id, takeover=True)
        self._forget()
        self.connected, self.state = True, "connected"
        self._tell_screen()
        self._begin(self.terminal)

    def _close(self, _: Message, __: Sequence[memoryview]) -> None:
        """End the shell, and everything that it started."""
        if not self.done:
            self.terminal.kill()


def _pass_on(typed: SimpleQueue[str | None], terminal: Terminal) -> None:
    """What was typed, in order, until the connection ends."""
    from sandbox_sdk import SandboxError

    with suppress(SandboxError):  # whoever reads the terminal hears of it too
        while (text := typed.get()) is not None:
            terminal.send(text)
