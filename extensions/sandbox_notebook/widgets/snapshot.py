"""A finished process as plain HTML: no script, no reference to anything, the colours of whatever page it is on."""

from __future__ import annotations

import html

from ..text import printable
from .sgr import spans
from .transcript import Line, Transcript

_SHOWN = 200
_PRE = (
    "flex:none;margin:0;padding:.4em .6em;white-space:pre-wrap;overflow-wrap:anywhere;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px);line-height:1.35"
)
# Upside down, so that a browser begins at the end, where the news is.
_SCROLLER = "max-height:24em;overflow:auto;display:flex;flex-direction:column-reverse"
_BOX = "border:1px solid rgba(128,128,128,.4);border-radius:4px;margin:.3em 0"
_HEAD = "padding:.3em .6em;border-bottom:1px solid rgba(128,128,128,.3);font-size:var(--jp-ui-font-size1,13px)"


def snapshot(title: str, state: str, transcript: Transcript, seconds: float) -> tuple[str, str]:
    """HTML and text: the title, how it ended and after how long, and its last lines."""
    first, lines = transcript.since(0, _SHOWN)
    sign = "✓ " if state == "exit code 0" else "" if state == "stopped" else "✗ "
    head = f"{sign}{printable(title)} · {state} · {seconds:.1f} s"
    skipped = [f"… {first:,} earlier lines not shown …"] if first else []
    body = [f'<span style="opacity:.7">{skipped[0]}</span>'] if skipped else []
    page = (
        f'<div style="{_BOX}"><div style="{_HEAD}">{html.escape(head)}</div>'
        f'<div style="{_SCROLLER}"><pre style="{_PRE}">{chr(10).join([*body, *map(_line, lines)])}</pre></div></div>'
    )
    text = "\n".join([head, *skipped, *("".join(part for part, _ in spans(line.text)) for line in lines)])
    return page, text


def _line(line: Line) -> str:
    inner = "".join(
        f'<span style="{style}">{html.escape(text)}</span>' if style else html.escape(text)
        for text, style in spans(line.text)
    )
    if line.stream == "stdout":
        return inner
    edge = "#dc4a43" if line.stream == "stderr" else "#888"
    return f'<span style="border-left:3px solid {edge};padding-left:.4em">{inner}</span>'
