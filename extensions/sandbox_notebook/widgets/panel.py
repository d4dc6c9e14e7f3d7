"""A sandbox at a glance: what it is, its files, processes and rules, how busy it is, and what it has refused."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from traitlets import Dict

from sandbox_sdk import (
    AuthenticationError,
    EndpointNotAvailableError,
    PolicyDeniedError,
    SandboxConnectionError,
    SandboxError,
    ServerAPIError,
)

from ..audit_log import AuditTail, Line, local_of, verdict, what, when
from ..render import Cell, Table, pairs
from ..text import signal_name, size
from .base import STATIC, Message, Widget
from .messages import worded

if TYPE_CHECKING:
    from sandbox_sdk import ProcessInfo, Sandbox, SystemMetrics

    from .caps import CapabilityTable

_SAMPLES = 120
_MIB, _GIB = 1 << 20, 1 << 30
# What is refused now is refused in a second, too.
_LASTING = (AuthenticationError, EndpointNotAvailableError, PolicyDeniedError)


class SandboxPanel(Widget):
    """Tabs about one sandbox. What a tab shows is asked for when it is looked at, and only while it is.

    Files and rules are widgets of their own (`FileBrowser`, `CapabilityTable`), which the page puts into their tab.
    """

    _esm = STATIC / "panel.js"
    _css = STATIC / "panel.css"

    about: Any = Dict().tag(sync=True)

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._samples: deque[tuple[float, float, float]] = deque(maxlen=_SAMPLES)
        self._processors: float | None = None
        self._audit: AuditTail | None = None
        self._local = local_of(sandbox)
        self._counts = True
        self._children: dict[str, Widget] = {}
        self._rules: CapabilityTable | None = None
        self._ticks: dict[str, Callable[[], None]] = {
            "overview": self._tick_overview,
            "processes": self._tick_processes,
            "rules": self._tick_rules,
            "metrics": self._tick_metrics,
            "audit": self._tick_audit,
        }
        super().__init__(
            {"tick": self._tick, "open": self._open, "stop": self._stop, "follow": self._follow},
            about={"name": sandbox.name, "facts": self._facts()},
        )

    def close(self) -> None:
        for child in self._children.values():
            child.close()
        super().close()

    def face(self) -> Table:
        return Table(pairs(self._facts()), headline=Cell(f'sandbox "{self._sandbox.name}"', "strong"))

    def _facts(self) -> list[tuple[str, str]]:
        facts = [(name, str(value)) for name, value in self._sandbox._facts().items()]
        return [*facts, ("files below", self._sandbox.root)]

    # -- what the page asks for ------------------------------------------------------------------------------------

    def _tick(self, message: Message, _: Sequence[memoryview]) -> None:
        """A tab is being looked at: how are things now?"""
        tab = message.get("tab")
        work = self._ticks.get(tab) if isinstance(tab, str) else None
        if work is None:
            return
        try:
            work()
        except _LASTING as error:
            self.tell("refused", tab=tab, message=error.message)
        except SandboxError as error:  # the page asks again
            gone = isinstance(error, SandboxConnectionError) and error.gone
            self.tell("ended" if gone or not self._sandbox.running else "failed", message=worded(error))

    def _tick_overview(self) -> None:
        if not self._sandbox.running:
            raise SandboxError(f'sandbox "{self._sandbox.name}" has ended')
        facts = self._facts()
        if self._local is not None:
            with suppress(FileNotFoundError):  # it ends just now
                facts.append(("up for", _span(time.time() - os.stat(self._local.box.entrance).st_mtime)))
        if self._counts:
            try:
                running = sum(info.running for info in self._sandbox.process.list())
                facts.append(("processes", f"{running} in the background"))
            except ServerAPIError:
                self._counts = False  # asking again each second would fill the log with refusals
        self.tell("overview", facts=facts)

    def _tick_processes(self) -> None:
        found = self._sandbox.process.list(finished=True)
        self.tell("processes", rows=[_process(info) for info in reversed(found)])

    def _tick_rules(self) -> None:
        """Refusals of ours the table hears itself; those of other identities are in the log."""
        _, fresh = self._tail()
        for line in fresh:
            if self._rules is not None and verdict(line) == "denied" and line.get("identity") != self._rules.identity:
                message = " ".join([*what(line), *filter(None, [str(line.get("code") or "")])])
                self._rules.flash(str(line.get("endpoint")), f"{line.get('identity')}: {message}")

    def _tick_metrics(self) -> None:
        metrics = self._sandbox.system.metrics()
        if self._processors is None:
            self._processors = metrics.cpu_limit or 0.0
            with suppress(SandboxError):
                self._processors = self._processors or float(self._sandbox.system.info().cpu_count)
        busy = 100 * metrics.cpu_load_1m / (self._processors or 1)
        self._samples.append((round(busy, 1), metrics.memory_percent, metrics.disk_percent))
        self.tell("metrics", samples=list(self._samples), words=_words(metrics, self._processors))

    def _tick_audit(self) -> None:
        tail, _ = self._tail()
        missing = f"The log of this sandbox {tail.missing}." if tail.missing else ""
        self.tell("audit", missing=missing, rows=[_noted(line) for line in reversed(tail.lines)])

    def _tail(self) -> tuple[AuditTail, list[Line]]:
        if self._audit is None:
            self._audit = AuditTail(self._sandbox)
            self._audit.news()
            return self._audit, []
        return self._audit, self._audit.news()

    # -- widgets inside --------------------------------------------------------------------------------------------

    def _open(self, message: Message, _: Sequence[memoryview]) -> None:
        """The page wants the widget of a tab; a page loaded anew gets the same one again."""
        tab = message.get("tab")
        if tab not in ("files", "rules"):
            return
        try:
            if tab not in self._children:
                self._children[tab] = self._made(tab)
        except SandboxError as error:
            self.tell("refused", tab=tab, message=error.message)
            return
        self.tell("opened", tab=tab, model=self._children[tab].model_id)

    def _made(self, tab: str) -> Widget:
        if tab == "files":
            from .files import FileBrowser

            return FileBrowser(self._sandbox)
        from .caps import CapabilityTable

        self._rules = CapabilityTable(self._sandbox)
        return self._rules

    def _follow(self, message: Message, _: Sequence[memoryview]) -> None:
        """The output of a process, below the list."""
        from .process import ProcessPane

        id = _known(message)
        if id not in self._children:
            pane = ProcessPane(self._sandbox.process.attach(id))
            pane.follow()
            self._children[id] = pane
        self.tell("opened", tab="processes", model=self._children[id].model_id)

    def _stop(self, message: Message, _: Sequence[memoryview]) -> None:
        process = self._sandbox.process.attach(_known(message))
        if message.get("hard") is True:
            process.kill()
        else:
            process.terminate()
        self._tick_processes()


def _span(seconds: float) -> str:
    minutes = int(seconds) // 60
    if minutes < 1:
        return "less than a minute"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _known(message: Message) -> str:
    id = message.get("id")
    if not isinstance(id, str) or not id or len(id) > 100:
        raise SandboxError("the page named no process")
    return id


def _process(info: ProcessInfo) -> dict[str, Any]:
    if info.running:
        state = "running"
    else:
        state = f"ended by {signal_name(info.signal)}" if info.signal else f"exit code {info.exit_code}"
    good = info.exit_code == 0
    return {
        "id": info.id or str(info.pid),
        "command": info.command,
        "running": info.running,
        "state": state,
        "tone": "running" if info.running else "good" if good else "bad",
        "since": info.started_at.astimezone().strftime("%H:%M:%S") if info.started_at else "",
    }


def _words(metrics: SystemMetrics, processors: float) -> list[tuple[str, str]]:
    of = f" of {processors:g}" if processors else ""
    memory = f"{size(metrics.memory_used_mb * _MIB)} of {size(metrics.memory_total_mb * _MIB)}"
    disk = f"{size(int(metrics.disk_used_gb * _GIB))} of {size(int(metrics.disk_total_gb * _GIB))}"
    where = "" if metrics.memory_source == "cgroup" else " of this machine"
    return [
        (f"CPU load{where}", f"{metrics.cpu_load_1m:.2f}{of}"),
        (f"Memory{where}", memory),
        ("Disk of the root", disk),
    ]


def _noted(line: Line) -> dict[str, str]:
    return {
        "when": when(line),
        "verdict": verdict(line),
        "endpoint": str(line.get("endpoint") or ""),
        "what": " ".join(what(line)),
        "code": str(line.get("code") or ""),
        "identity": str(line.get("identity") or ""),
    }
