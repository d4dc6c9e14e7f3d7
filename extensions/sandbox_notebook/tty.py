"""A terminal of the sandbox in the terminal of this program: raw, resized along, left with Ctrl-]."""

from __future__ import annotations

import codecs
import os
import select
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from .grammar import Mistake
from .invocation import Invocation

if TYPE_CHECKING:
    from sandbox_sdk import SandboxError, Terminal

_LEAVE = b"\x1d"  # Ctrl-]
_MOST = 1000
_RESIZED, _ENDED = b"r", b"e"


def attach(call: Invocation, program: str = "nbsandbox") -> int:
    """Until the shell ends, whose exit code it answers, or until it is left."""
    import termios
    import tty

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Mistake("term needs a terminal", "%sandbox run runs a command without one")
    terminals, known = call.entry().sandbox.pty, call.parsed.text("id")
    columns, lines = _size()
    terminal = terminals.connect(known) if known else terminals.create(cols=columns, rows=lines)
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    with terminal:
        try:
            tty.setraw(stdin, termios.TCSADRAIN)  # what was typed ahead is kept
            session = _Session(terminal, stdin)
            session.run()
        finally:
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)
        if session.failure is not None:
            raise session.failure
        if session.left:
            call.front.out.write(f"\nleft; {program} term --id {terminal.id} comes back\n")
            return 0
        call.front.out.write("\n")
        code = terminal.exit_code
    return 0 if code is None else 128 - code if code < 0 else code


def _size() -> tuple[int, int]:
    """Of this terminal; one that does not know tells zeros."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return min(size.columns, _MOST) or 80, min(size.lines, _MOST) or 24


class _Session:
    """Carries bytes both ways."""

    def __init__(self, terminal: Terminal, stdin: int) -> None:
        self.left = False
        self.failure: SandboxError | None = None
        self._terminal = terminal
        self._stdin = stdin
        self._news, self._bell = os.pipe()

    def run(self) -> None:
        previous = signal.signal(signal.SIGWINCH, lambda *_: self._ring(_RESIZED))
        thread = threading.Thread(target=self._show, daemon=True)
        try:
            self._resize()
            thread.start()
            self._type()
        finally:
            signal.signal(signal.SIGWINCH, previous)
            self._terminal.close()
            thread.join()
            os.close(self._news)
            os.close(self._bell)

    def _type(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            ready, _, _ = select.select([self._stdin, self._news], [], [])
            if self._news in ready:
                if _ENDED in (news := os.read(self._news, 1024)):
                    return
                if _RESIZED in news:
                    self._resize()
            if self._stdin in ready:
                typed = os.read(self._stdin, 65536)
                typed, leave, _ = typed.partition(_LEAVE) if typed else (b"", _LEAVE, b"")
                if text := decoder.decode(typed):
                    self._terminal.send(text)
                if leave:
                    self.left = True
                    return

    def _show(self) -> None:
        from sandbox_sdk import SandboxError

        try:
            for text in self._terminal:
                sys.stdout.buffer.write(text.encode("utf-8", "replace"))
                sys.stdout.buffer.flush()
        except SandboxError as error:
            self.failure = None if self.left else error
        finally:
            self._ring(_ENDED)

    def _resize(self) -> None:
        self._terminal.resize(*_size())

    def _ring(self, bell: bytes) -> None:
        with suppress(OSError):
            os.write(self._bell, bell)
