"""A namespace that lasts: one program after another that keeps it, at most one run at a time, and what comes between.

Between runs, and when whoever started a run has left, the supervisor reads in place of a reader. Output that comes
between runs is kept, the last of it, and told with the next run.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

from ..messages import Refusal, Wait, quoted
from ..process.ring import Block, Cursor, Gap, Ring
from ..process.spawn import Launch
from ..process.table import ProcessTable
from .execution import SOON, Event, Execution
from .interpreter import Interpreter
from .showing import Begun, Died, Ended, Output, Piece, Shown

#: How much output between two runs is kept.
_LEFTOVER_BYTES = 1 << 18
#: How often one context is looked at before others have their turn.
_AT_ONCE = 16


class Context:
    """Thread-safe. `close` must be called; it ends the program."""

    def __init__(self, launch: Launch, source: bytes, processes: ProcessTable, *, owner: str, name: str) -> None:
        self.id = os.urandom(16).hex()
        self.owner = owner
        self.name = name
        self.cwd = launch.cwd_path
        self.scope = launch.scope
        self.created_at = self.last_used_at = time.time()
        self.used = time.monotonic()
        self.execution_count = 0
        self._source = source
        self._processes = processes
        self._supervisor = processes.supervisor
        self._turn = threading.Lock()  # of those who change which program it is
        self._lock = threading.Lock()
        self._execution: Execution | None = None
        self._interpreter: Interpreter | None = None
        self._leftover = Ring(_LEFTOVER_BYTES)
        self._expired = False
        self._closed = False
        self._launch = launch._replace(cwd=os.dup(launch.cwd))
        try:
            self._start()
        except BaseException:
            os.close(self._launch.cwd)
            raise

    @property
    def state(self) -> str:
        with self._lock:
            if self._interpreter is None:
                return "dead"
            return "idle" if self._execution is None else "busy"

    @property
    def pid(self) -> int | None:
        interpreter = self._interpreter
        return None if interpreter is None else interpreter.child.pid

    def run(self, code: str, *, timeout: float | None, limit: int | None) -> tuple[Execution, Iterator[Event | Wait]]:
        """Begin a run; `Refusal` while another one goes on, or when the program is gone."""
        with self._lock:
            if self._expired:
                raise Refusal("context_not_found", f"context {quoted(self.id)} was not used for long, and is closed")
            if self._interpreter is None:
                raise Refusal("conflict", f"context {quoted(self.id)} has died; restart it", state="dead")
            if self._execution is not None:
                message = f"context {quoted(self.id)} is busy; wait for its run to end, or interrupt it"
                raise Refusal("conflict", message, state="busy")
            self.execution_count += 1
            execution = self._execution = Execution(
                self, self._interpreter, self.execution_count, limit=limit, supervisor=self._supervisor
            )
            leftover, dropped = _told(self._leftover)
            self._leftover = Ring(_LEFTOVER_BYTES)
            self._touch()
        return execution, execution.events(code, leftover, dropped, timeout)

    def expire(self, seconds: float) -> float:
        """How long until it may have been unused for so many seconds; 0 when it has, and then it is used no more."""
        with self._lock:
            left = seconds if self._execution is not None else self.used + seconds - time.monotonic()
            self._expired = self._expired or left <= 0
        return max(0.0, left)

    def interrupt(self) -> bool:
        """False when nothing runs."""
        with self._lock:
            execution = self._execution
        if execution is None:
            return False
        execution.interrupt()
        return True

    def restart(self) -> None:
        """End the program and everything it started, and begin again with nothing. A run that goes on dies."""
        with self._turn:
            self._end("restart")
            if self._closed:
                raise Refusal("context_not_found", f"context {quoted(self.id)} is closed")
            self._start()

    def close(self, cause: str) -> None:
        """End it for good."""
        with self._turn:
            self._end(cause)
            if not self._closed:
                self._closed = True
                os.close(self._launch.cwd)

    def leave(self, execution: Execution) -> None:
        """Nobody reads this run any more. If it is not over, it is interrupted."""
        with self._lock:
            execution.attached = False
            interpreter = execution.interpreter
            if interpreter is not self._interpreter:
                interpreter.dispose()
                return
            self._touch()
            if execution.ended:
                self._execution = None
                if interpreter.child.exit() is not None:
                    self._die(interpreter)
        if not execution.ended:
            execution.interrupt()
        self._supervisor.soon(lambda: self._mind(interpreter))

    def _start(self) -> None:
        interpreter = Interpreter.start(self._launch, self._source, self._processes)
        with self._lock:
            self._interpreter = interpreter
            self.execution_count = 0
            self._leftover = Ring(_LEFTOVER_BYTES)
            self._touch()
        self._supervisor.soon(lambda: self._mind(interpreter))

    def _end(self, cause: str) -> None:
        with self._lock:
            interpreter, self._interpreter = self._interpreter, None
            execution, self._execution = self._execution, None
        if interpreter is None:
            return
        interpreter.child.cause = cause
        interpreter.child.kill()
        with self._lock:
            if execution is None or not execution.attached:
                interpreter.dispose()  # else whoever reads does it

    def _touch(self) -> None:
        self.last_used_at, self.used = time.time(), time.monotonic()

    def _mind(self, interpreter: Interpreter) -> None:
        """On the supervisor's thread, like `_tend`."""
        with self._lock:
            if interpreter is self._interpreter and not self._read_by_others():
                interpreter.mind(lambda: self._tend(interpreter))
                self._supervisor.soon(lambda: self._tend(interpreter))
                if not interpreter.flush():
                    self._supervisor.after(SOON, lambda: self._mind(interpreter))

    def _tend(self, interpreter: Interpreter) -> None:
        with self._lock:
            if interpreter is not self._interpreter or self._read_by_others():
                interpreter.unmind()
                return
            for _ in range(_AT_ONCE):
                pieces = interpreter.take()
                for piece in pieces:
                    self._keep(interpreter, piece)
                if not pieces or interpreter is not self._interpreter:
                    break
            else:  # no descriptor need tell of messages that were read already
                self._supervisor.soon(lambda: self._tend(interpreter))
            interpreter.unmind(interpreter.descriptors)

    def _read_by_others(self) -> bool:
        return self._execution is not None and self._execution.attached

    def _keep(self, interpreter: Interpreter, piece: Piece) -> None:
        if isinstance(piece, Output):
            if self._execution is None:
                self._leftover.append(piece.stream, piece.data)
        elif isinstance(piece, Shown):
            interpreter.acknowledge(piece.number)
        elif isinstance(piece, Begun):
            if self._execution is not None:
                self._execution.begin()
        elif isinstance(piece, (Ended, Died)):
            if self._execution is not None:
                self._execution.end()
                self._execution = None
                self._touch()
            if isinstance(piece, Died):
                self._die(interpreter)

    def _die(self, interpreter: Interpreter) -> None:
        self._interpreter = None
        interpreter.dispose()


def _told(ring: Ring) -> tuple[list[Output], int]:
    """What a ring holds, and how many bytes it does not hold any more."""
    cursor, pieces, lost = Cursor(), [], 0
    while parts := ring.take(cursor):
        for part in parts:
            match part:
                case Block(stream, _, data):
                    pieces.append(Output(stream, data))
                case Gap(_, start, end):
                    lost += end - start
    return pieces, lost
