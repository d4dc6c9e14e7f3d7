"""A process or a terminal as plain HTML: no script, no reference to anything, the colours of whatever page it is on."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from ..text import printable, signal_name
from .sgr import spans
from .transcript import OUTPUT, Line, Transcript

if TYPE_CHECKING:
    from sandbox_sdk import Process, ProcessInfo

_SHOWN = 200
_GOES_ON = ("running", "open", "stopping", "stopped")  # or somebody wanted its end
_PRE = (
    "flex:none;margin:0;padding:.4em .6em;white-space:pre-wrap;overflow-wrap:anywhere;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);line-height:1.35"
)
# Upside down, so that a browser begins at the end, where the news is.
_SCROLLER = "max-height:24em;overflow:auto;display:flex;flex-direction:column-reverse"
_BOX = "border:1px solid rgba(128,128,128,.4);border-radius:4px;margin:.3em 0"
_HEAD = "padding:.3em .6em;border-bottom:1px solid rgba(128,128,128,.3);font-size:var(--jp-ui-font-size1,13px)"


def snapshot(title: str, state: str, transcript: Transcript, seconds: float | None = None) -> tuple[str, str]:
    """HTML and text: the title, how it ended and after how long, and its last lines."""
    first, lines = transcript.since(0, _SHOWN)
    sign = "✓ " if state == "exit code 0" else "" if state in _GOES_ON else "✗ "
    head = f"{sign}{printable(title)} · {state}" + ("" if seconds is None else f" · {seconds:.1f} s")
    skipped = [f"… {first:,} earlier lines not shown …"] if first else []
    body = [f'<span style="opacity:.7">{skipped[0]}</span>'] if skipped else []
    inner = chr(10).join([*body, *map(_line, lines)])
    shown = f'<div style="{_SCROLLER}"><pre style="{_PRE}">{inner}</pre></div>' if lines else ""
    page = f'<div style="{_BOX}"><div style="{_HEAD}">{html.escape(head)}</div>{shown}</div>'
    text = "\n".join([head, *skipped, *("".join(part for part, _ in spans(line.text)) for line in lines)])
    return page, text


def as_seen(title: str, process: Process) -> tuple[str, str]:
    """The snapshot of a process as it is now; nothing in it depends on when it started, or ended."""
    transcript = Transcript()
    process.refresh()
    for stream in OUTPUT:
        part = process.output(stream=stream)
        if part.lost:
            transcript.note(f"{part.lost:,} bytes of {stream} are gone")
        transcript.feed(stream, part.data)
    transcript.end()
    return snapshot(title, state_of(process.info), transcript)


def state_of(info: ProcessInfo) -> str:
    if info.running:
        return "running"
    return f"ended by {signal_name(info.signal)}" if info.signal else f"exit code {info.exit_code}"


def _line(line: Line) -> str:
    inner = "".join(
        f'<span style="{style}">{html.escape(text)}</span>' if style else html.escape(text)
        for text, style in spans(line.text)
    )
    if line.stream == "stdout":
        return inner
    edge = "#dc4a43" if line.stream == "stderr" else "#888"
    return f'<span style="border-left:3px solid {edge};padding-left:.4em">{inner}</span>'
