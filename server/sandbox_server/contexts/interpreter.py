"""One Python process that runs what it is sent: its output, its channel, its end."""

from __future__ import annotations

import os
from collections.abc import Callable

from ..process.children import Child
from ..process.pipes import READ_BYTES, waiting
from ..process.ring import STDERR, STDOUT
from ..process.spawn import Launch, spooled
from ..process.stopping import destroy, stop
from ..process.supervisor import Supervisor
from ..process.table import ProcessTable
from .channel import Broken, Channel, pair
from .showing import Died, Output, Piece, understood

#: Runs the program that descriptor {0} holds. The working directory is no place to import from before that is done.
_LOADER = """\
import sys
if sys.path[:1] == [""]: del sys.path[0]
with open({0}, "rb") as file: source = compile(file.read(), "<sandbox runner>", "exec")
exec(source, {{"__name__": "sandbox_runner"}})
"""


class Interpreter:
    """Whoever reads it calls `take` when one of `descriptors` is readable; one thread at a time."""

    def __init__(self, child: Child, channel: Channel, supervisor: Supervisor) -> None:
        self.child = child
        self._channel = channel
        self._supervisor = supervisor
        self._pipes = {STDOUT: child.pipes.stdout, STDERR: child.pipes.stderr}
        self._ended: list[int] = []  # pipes that tell nothing any more
        self._broken = False
        self._disposed = False
        self._minded: set[int] = set()  # descriptors that the supervisor watches; only its thread touches it

    @classmethod
    def start(cls, launch: Launch, source: bytes, processes: ProcessTable) -> Interpreter:
        """Begin to start one. `launch.argv` names the Python alone."""
        channel, theirs = pair()
        program = -1
        try:
            program = spooled(source)
            words = (*launch.argv, "-c", _LOADER.format(program), str(theirs))
            child = processes.spawn(launch._replace(argv=words, inherit=(program, theirs)))
        except BaseException:
            channel.close()
            raise
        finally:
            os.close(theirs)
            if program >= 0:
                os.close(program)
        return cls(child, channel, processes.supervisor)

    @property
    def descriptors(self) -> tuple[int, ...]:
        channel = () if self._broken else (self._channel.fileno(),)
        return (*channel, self.child.exit_descriptor, *self._pipes.values())

    def run(self, code: str, count: int) -> None:
        self._channel.send(op="run", code=code, count=count)

    def acknowledge(self, number: int) -> None:
        """What was shown has been taken: the code may go on."""
        self._channel.send(number=number)

    def flush(self) -> bool:
        """True once everything that was sent is on its way."""
        return self._channel.flush()

    def take(self) -> list[Piece]:
        """What has come, in its order. Whatever the program says comes behind the output that it wrote before."""
        exit = self.child.exit()  # asked first: what it wrote before its end is there by now
        said = self._said()
        if said is None and exit is not None:
            said = Died()
        if said is None:
            return [Output(stream, data) for stream in list(self._pipes) if (data := self._read(stream, READ_BYTES))]
        pieces: list[Piece] = []
        for stream, descriptor in list(self._pipes.items()):
            owed = waiting(descriptor)
            while owed > 0 and (data := self._read(stream, owed)):
                owed -= len(data)
                pieces.append(Output(stream, data))
        return [*pieces, said]

    def mind(self, call: Callable[[], None]) -> None:
        """Let the supervisor watch, and `call` when there is something; only from the supervisor's thread."""
        for descriptor in set(self.descriptors) - self._minded:
            self._supervisor.watch(descriptor, call)
            self._minded.add(descriptor)

    def unmind(self, but: tuple[int, ...] = ()) -> None:
        """No longer; only from the supervisor's thread."""
        for descriptor in self._minded - set(but):
            self._supervisor.unwatch(descriptor)
        self._minded &= set(but)

    def dispose(self) -> None:
        """Let go of it, whatever state it is in. Nobody reads any more; what still runs is ended. Never waits."""
        self._supervisor.soon(self._dispose)

    def _dispose(self) -> None:
        if self._disposed:
            return
        self._disposed = True
        self.unmind()
        self._channel.close()
        for descriptor in (*self._pipes.values(), *self._ended):
            os.close(descriptor)
        stop(self.child, self._supervisor, grace=0)

    def _said(self) -> Piece | None:
        if self._broken:
            return None
        try:
            message = self._channel.receive()
            if message is None:
                return None
            if (said := understood(*message)) is None:
                raise Broken
            return said
        except Broken:  # closed by the code, or by the death that is about to be told
            self._broken = True
            destroy(self.child, self._supervisor)
            return None

    def _read(self, stream: int, most: int) -> bytes:
        try:
            data = os.read(self._pipes[stream], most)
        except BlockingIOError:
            return b""
        if not data:  # nobody can write any more
            self._ended.append(self._pipes.pop(stream))
        return data
