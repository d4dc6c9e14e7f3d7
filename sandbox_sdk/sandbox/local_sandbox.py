"""One sandbox of this machine, running or kept: what it is, and how it ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._display.shown import Listing, Shown, frame
from .._public import public
from .boxes import Box, State

if TYPE_CHECKING:
    from .._display.table import Row, Table

STOP_SECONDS, POLL_SECONDS = 20.0, 0.005
LANDLOCK_TCP_ABI = 4


@public
@dataclass(slots=True, repr=False)
class LocalSandbox(Shown):
    """A server, its box and its state. Any process of the same user may hold one and end it."""

    box: Box
    state: State
    isolation: str = ""  # "" while it does not run
    refused: tuple[str, ...] = ()  # why better isolation was not to be had
    process: subprocess.Popen[bytes] | None = None
    owner: int = field(default_factory=os.getpid)
    stopped: bool = False  # by us

    def __repr__(self) -> str:
        state = f"{self.isolation}, network {self.network}" if self.running else "stopped"
        return f"<LocalSandbox {self.name!r} {state}{', kept' if self.kept else ''}, root {self.state.root!r}>"

    def _table(self) -> Table:
        return SandboxList([self])._table()

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def kept(self) -> bool:
        return self.box.kept

    @property
    def running(self) -> bool:
        return self.box.is_alive()

    @property
    def socket(self) -> str:
        return self.box.entrance

    @property
    def network(self) -> str:
        """``off``, ``no tcp`` or ``shared``: what is in force, whatever was asked for."""
        if self.isolation == "bubblewrap":
            return "shared" if self.state.network else "off"
        cut_off = self.isolation == "landlock" and not self.state.network and landlock_abi() >= LANDLOCK_TCP_ABI
        return "no tcp" if cut_off else "shared"

    def stop(self, *, remove: bool = True) -> None:
        """End everything inside and return when that is done. Files that are ours go too, unless not `remove` and kept.

        Where nothing runs any more, only the files go; a second call does nothing.
        """
        self.stopped = True
        mine = self.process is not None and os.getpid() == self.owner
        if mine:
            self.let_go()
        if self.running:
            if remove:
                self.box.end()
            # When the supervisor is killed, bubblewrap or a plain server dies with its parent.
            _ = self._ended_by(signal.SIGTERM) or self._ended_by(signal.SIGKILL)
        if (remove or not self.kept) and self.box.try_lock():
            self.box.remove()
            self.box.unlock()
        if self.process is not None and mine:
            self.process.wait()

    def let_go(self) -> None:
        """Close the pipes to the supervisor. One that does not outlive this process ends everything then."""
        for pipe in (self.process.stdin, self.process.stdout) if self.process else ():
            if pipe is not None:
                pipe.close()

    def _ended_by(self, number: signal.Signals) -> bool:
        """Signal the supervisor, as soon as it has said who it is, and wait for its end."""
        deadline, sent = time.monotonic() + STOP_SECONDS, False
        while self.running:
            if time.monotonic() > deadline:
                return False
            sent = sent or self._signal(number)
            time.sleep(POLL_SECONDS)
        return True

    def _signal(self, number: signal.Signals) -> bool:
        """Signal the supervisor, and nobody who has got its process id meanwhile: while the box is locked, it lives."""
        pid, _ = self.box.supervisor()
        if not pid:
            return False
        with contextlib.suppress(ProcessLookupError):
            if not hasattr(os, "pidfd_open"):
                os.kill(pid, number)
                return True
            descriptor = os.pidfd_open(pid)
            try:
                if self.running:
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)
        return True


@public
class SandboxList(Listing[LocalSandbox]):
    """The sandboxes of this machine: a list with `to_pandas`."""

    def to_pandas(self) -> Any:
        names = ("name", "running", "isolation", "network", "kept")
        return frame([{name: getattr(one, name) for name in names} | {"root": one.state.root} for one in self])

    def _table(self) -> Table:
        from .._display.forms import clipped
        from .._display.table import Table

        whole: list[Row] = []
        for one in self:
            state = ["running", one.isolation, one.network] if one.running else ["stopped", "", ""]
            whole.append([one.name, *state, "yes" if one.kept else ""])
        rows, notes = clipped(whole, "sandbox", "sandboxes")
        if not self:
            return Table(notes=["no sandbox"])
        return Table(rows, ("name", "state", "isolation", "network", "kept"), notes=notes)


def landlock_abi() -> int:
    """The version of Landlock that this kernel offers; 0 for none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(ctypes.c_long(444), None, ctypes.c_size_t(0), ctypes.c_uint(1))))
