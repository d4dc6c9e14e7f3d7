"""One run of code in a context: what comes of it, in order, as fast as somebody takes it, and how it ends."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..messages import Wait
from ..process.stopping import GRACE, destroy
from ..process.supervisor import Supervisor, Timer
from .interpreter import Interpreter
from .showing import Begun, Died, Ended, Output, Raised, Shown

if TYPE_CHECKING:
    from .context import Context

#: Seconds of silence after which a stream says that it is alive.
HEARTBEAT = 15.0
#: How soon it is tried again to hand over code that is too long for the channel's buffer.
SOON = 0.01
#: The grace of an interrupted program comes in so many parts: a machine that stood still for longer than the whole of
#: it takes away one, and not all the variables.
_STEPS = 4


@dataclass(frozen=True, slots=True)
class Started:
    """The code goes to this process. `dropped` bytes of what came since the last run are gone."""

    pid: int
    count: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing has happened for a while."""


@dataclass(frozen=True, slots=True)
class Finish:
    """How it ended: ok, error, interrupted, timeout, output_limit, or died; the exit code of a program that is gone."""

    status: str
    count: int
    milliseconds: float
    exit_code: int | None = None
    reason: str | None = None


Event = Started | Output | Shown | Raised | Silence | Finish


class Execution:
    """`events` may be iterated once; `close` must be called, and interrupts what still runs."""

    def __init__(
        self, context: Context, interpreter: Interpreter, count: int, *, limit: int | None, supervisor: Supervisor
    ) -> None:
        self.interpreter = interpreter
        self.attached = True  # somebody reads what comes
        self.ended = False
        self._context = context
        self._count = count
        self._left = limit
        self._sent = False  # the code
        self._lock = threading.Lock()
        self._begun = False
        self._interrupted = False
        self._supervisor = supervisor
        self._cause: str | None = None  # why the server stopped it
        self._timer: Timer | None = None

    def events(self, code: str, leftover: list[Output], dropped: int, timeout: float | None) -> Iterator[Event | Wait]:
        """Everything until the end, and a `Wait` where there is nothing yet."""
        try:
            began = time.monotonic()
            if timeout is not None:
                self._timer = self._supervisor.after(timeout, lambda: self._stop("timeout"))
            yield Started(self.interpreter.child.pid, self._count, dropped)
            yield from leftover
            self._sent = True
            self.interpreter.run(code, self._count)
            yield from self._heard(began)
        finally:
            self.close()

    def interrupt(self) -> None:
        """What Ctrl-C in a terminal does, to the code and what it runs in the foreground; as soon as it has begun."""
        with self._lock, suppress(PermissionError):
            self._interrupted = True
            if self._begun:
                self.interpreter.child.signal(signal.SIGINT)

    def begin(self) -> None:
        """The code has begun; called once that is known."""
        with self._lock:
            self._begun = True
            interrupted = self._interrupted
        if interrupted:
            self.interrupt()

    def close(self) -> None:
        """Whoever reads leaves."""
        if self.attached:
            self.ended = self.ended or not self._sent
            self._context.leave(self)

    def end(self) -> None:
        """It is over; called once that is known."""
        self.ended = True
        if self._timer is not None:
            self._timer.cancel()

    def _heard(self, began: float) -> Iterator[Event | Wait]:
        heard = time.monotonic()
        while True:
            delivered = self.interpreter.flush()
            pieces = self.interpreter.take()
            now = time.monotonic()
            if not pieces:
                if now - heard >= HEARTBEAT:
                    yield Silence()
                    heard = now
                yield Wait(self.interpreter.descriptors, heard + HEARTBEAT if delivered else now + SOON)
                continue
            heard = now
            for piece in pieces:
                if isinstance(piece, (Ended, Died)):
                    self.end()
                    finish = self._finish(piece, (now - began) * 1000)
                    self.close()  # first: whoever knows that it is over may run the next code at once
                    yield finish
                    return
                if isinstance(piece, Begun):
                    self.begin()
                    continue
                if isinstance(piece, Output):
                    piece = self._within_limit(piece)
                if self._cause != "output_limit" or isinstance(piece, Output):
                    yield replace(piece, count=self._count) if isinstance(piece, Shown) else piece
                if isinstance(piece, Shown):
                    self.interpreter.acknowledge(piece.number)

    def _within_limit(self, piece: Output) -> Output:
        if self._left is None:
            return piece
        data = piece.data[: self._left]
        self._left -= len(data)
        if len(data) < len(piece.data):
            self._stop("output_limit")
        return Output(piece.stream, data)

    def _finish(self, piece: Ended | Died, milliseconds: float) -> Finish:
        if isinstance(piece, Ended):
            return Finish(self._cause or piece.status, self._count, milliseconds)
        child = self.interpreter.child
        exit = child.exit()
        return Finish(self._cause or "died", self._count, milliseconds, exit.code if exit else None, child.cause)

    def _stop(self, cause: str) -> None:
        """Interrupt it; kill the program if it does not heed that."""
        if self.ended or self._cause is not None:
            return
        self._cause = cause
        self.interrupt()
        self._give_up(_STEPS)

    def _give_up(self, steps: int) -> None:
        if self.ended:
            return
        if steps:
            self._supervisor.after(GRACE / _STEPS, lambda: self._give_up(steps - 1))
        else:
            self.interpreter.child.cause = self._cause or "exit"
            destroy(self.interpreter.child, self._supervisor)
