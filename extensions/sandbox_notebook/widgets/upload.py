"""Files from the browser into the sandbox: chosen or dropped, straight through this kernel, which keeps none of them.

The page cuts files into chunks below every limit of the notebook's server and may send a few ahead; each is answered
with the offset reached, which is also how both sides find together again after the connection between them broke.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import TYPE_CHECKING

from traitlets import Dict, Int, Unicode

from ..render import Cell, Row, Table
from ..text import size
from .base import STATIC, Widget
from .uploads import CHUNK, Uploads, rules_in_words, upload_rules

if TYPE_CHECKING:
    from sandbox_sdk import Receipt, Sandbox


class UploadPicker(Widget):
    """Chooses files and folders, or takes what is dropped on it, and stores them below `to` in the sandbox.

    ``value`` is the paths stored so far, ``receipts`` their receipts, with SHA-256; `on_upload` calls a function with
    each new one.
    """

    _esm = (STATIC / "uploader.js").read_text("utf-8") + (STATIC / "upload.js").read_text("utf-8")
    _css = STATIC / "upload.css"

    place = Unicode().tag(sync=True)
    chunk = Int(CHUNK).tag(sync=True)
    rules = Dict().tag(sync=True)

    def __init__(self, sandbox: Sandbox, *, to: str = "") -> None:
        self._listeners: list[Callable[[Receipt], None]] = []
        self.receipts: tuple[Receipt, ...] = ()
        found = sandbox.discover()
        sandbox.forget_discovery()
        super().__init__(
            Uploads(sandbox, to, self.tell, self._stored).handlers(),
            place=posixpath.normpath(posixpath.join(sandbox.root, to)),
            rules=upload_rules(found),
        )

    @property
    def value(self) -> tuple[str, ...]:
        """The paths of the files stored so far."""
        return tuple(receipt.path for receipt in self.receipts)

    def on_upload(self, listener: Callable[[Receipt], None]) -> None:
        """Call `listener` with the receipt of every file that arrives from now on."""
        self._listeners.append(listener)

    def face(self) -> Table:
        rows: list[Row] = [[receipt.path, size(receipt.bytes)] for receipt in self.receipts]
        head = f"upload to {self.place}" if rows else f"upload to {self.place}: nothing yet"
        notes = [
            *rules_in_words(self.rules),
            "in a live notebook files and folders are dropped here; %sandbox upload FILE works anywhere",
        ]
        return Table(rows, ("path", "size") if rows else (), frozenset({1}), headline=Cell(head, "strong"), notes=notes)

    def _stored(self, receipt: Receipt) -> None:
        self.receipts += (receipt,)
        for listener in self._listeners:
            listener(receipt)
