"""One call of a magic, as the verbs see it: what was asked, by whom, and where to write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from .config import Settings
from .grammar import Mistake, Parsed
from .live import LiveText, Sink
from .progress import Progress, Status
from .render import Row
from .results import Shown
from .session import Entry, Session
from .widgets.views import Views

Show = Callable[[Mapping[str, Any], Mapping[str, Any]], object]
"""Takes representations (MIME type → value) and their metadata."""


@dataclass(frozen=True, slots=True)
class Front:
    """Where output goes."""

    out: Sink
    err: Sink
    terminal: bool = False
    views: Views | None = None
    """Live widgets, where there is a page to show them."""
    show: Show | None = None
    """Shows a bundle of representations as an output of its own, where that can be done."""
    status: Status | None = None
    """Says what is waited for, where that can be taken away again."""
    quiet: bool = False
    """Nothing but results: no progress."""
    stdin: IO[bytes] | None = None
    stdout: IO[bytes] | None = None
    """What the file name ``-`` stands for, where there are such."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``value`` is what an assignment gets, ``shown`` what a bare magic displays."""

    value: object = None
    shown: Shown | None = None


@dataclass(frozen=True, slots=True)
class Invocation:
    parsed: Parsed
    session: Session
    settings: Settings
    front: Front
    namespace: MutableMapping[str, object] = field(default_factory=dict)
    body: str | None = None
    change: Callable[[str, object], None] = lambda name, value: None
    """Changes a setting for good."""

    def entry(self) -> Entry:
        """The sandbox that is meant, running."""
        entry = self.named(self.parsed.text("in"))
        if not entry.sandbox.running:
            raise Mistake(f'sandbox "{entry.name}" has ended', f"%sandbox {entry.again}")
        return entry

    def named(self, name: str) -> Entry:
        """The sandbox of this name (or the current one), running or not."""
        return self.session.find(name, self.namespace)

    def progress(self, what: str, sizes: Iterable[int] = ()) -> Progress:
        quiet = self.front.quiet or self.settings.ui == "html"
        return Progress(self.front.out, what, terminal=self.front.terminal, quiet=quiet, sizes=sizes)

    def clipped(self, rows: Sequence[Row]) -> tuple[Sequence[Row], list[str]]:
        """As many as a cell shows, and a word about the others."""
        more = len(rows) - self.settings.max_lines
        if more <= 0:
            return rows, []
        return rows[:-more], [f"and {more:,} more: found = %sandbox {self.parsed.line} takes all of them"]

    def live(self, sink: Sink) -> LiveText:
        return LiveText(sink, max_lines=self.settings.max_lines, flush=self.front.terminal)
