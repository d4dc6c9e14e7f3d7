"""What all our widgets share: messages with the page under a lock, a fixed repr, and a face without a kernel."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget

from sandbox_sdk import SandboxError

from ..config import ui_of
from ..render import Table, as_html, as_text
from .messages import worded
from .page import detached

log = logging.getLogger("sandbox_notebook")

Message = Mapping[str, Any]
Handler = Callable[[Message, Sequence[memoryview]], None]

STATIC = Path(__file__).parent


class Widget(anywidget.AnyWidget):
    """Messages are objects with a ``kind``; each kind has one handler, and handlers never run at the same time.

    Handlers run on the kernel's threads, whichever they are, so they touch nothing of an event loop. What is set later
    than here must be set in `context`, too, or clicks wait for the cell that set it.
    """

    def __init__(self, handlers: Mapping[str, Handler], **traits: Any) -> None:
        self.context = detached()
        self._mutex = threading.RLock()
        self._handlers = dict(handlers)
        self.context.run(anywidget.AnyWidget.__init__, self, **traits)
        self.on_msg(self._hear)

    def tell(self, kind: str, /, *, buffers: Sequence[bytes] = (), **facts: Any) -> None:
        """Send the page a message. Without a page, or without a kernel, nothing happens."""
        self.send({"kind": kind, **facts}, list(buffers) or None)

    def face(self) -> Table:
        """What it shows where no page runs it: in a terminal, an export, a notebook without a kernel."""
        raise NotImplementedError

    def still(self) -> tuple[str, str]:
        """The same as HTML and as text."""
        face = self.face()
        return as_html(face), as_text(face)

    def _hear(self, _: object, content: object, buffers: Sequence[memoryview]) -> None:
        kind = content.get("kind") if isinstance(content, dict) else None
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        if handler is None or not isinstance(content, dict):
            return
        try:
            with self._mutex:
                # Not in the message's own context: an answer from there would bind the page's next ones to its thread.
                self.context.copy().run(handler, content, buffers)
        except Exception as error:  # nobody is there to catch it; the page shows it
            log.debug("a message of kind %s failed", kind, exc_info=True)
            self.context.copy().run(self.tell, "failed", message=_told(error))

    def __repr__(self) -> str:
        return self.still()[1]

    def _repr_mimebundle_(self, **options: Any) -> Any:
        static = dict(zip(("text/html", "text/plain"), self.still(), strict=True))
        if ui_of(os.environ) == "html":  # nothing that only a running kernel can show
            return static, {}
        bundle = super()._repr_mimebundle_(**options)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**(data or {}), **static}, metadata


def _told(error: Exception) -> str:
    return worded(error) if isinstance(error, SandboxError) else f"{type(error).__name__}: {error}"
