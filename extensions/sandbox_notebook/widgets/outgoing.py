"""Files on their way to the page: brought into this kernel first, as they are at one moment, then handed out in pieces.

A piece is asked for by its offset, so the page can ask again when the connection broke, and asks for no more than it
can take.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandbox_sdk import SandboxError

from ..args import quote
from ..text import size
from .messages import worded

if TYPE_CHECKING:
    from sandbox_sdk import Sandbox

LIMIT = 200_000_000
_BLOCK = 1 << 20


class _Cancelled(Exception):
    """Nobody waits for it any more."""


class _TooMuch(Exception):
    def __init__(self, length: int) -> None:
        self.length = length


def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="sandbox-download-", ignore_cleanup_errors=True)


@dataclass(slots=True)
class Outgoing:
    """One download, by its place on this side until the page has it."""

    name: str
    state: str = "coming"  # then ready, or failed
    error: str = ""
    done: int = 0
    length: int = 0
    sha256: str = ""
    cancelled: bool = False
    asked: float = field(default_factory=time.monotonic)
    directory: tempfile.TemporaryDirectory[str] = field(default_factory=_directory)

    @property
    def idle(self) -> float:
        """Seconds since somebody asked for a part of it."""
        return time.monotonic() - self.asked

    @property
    def path(self) -> str:
        return os.path.join(self.directory.name, "content")

    def fetch(self, sandbox: Sandbox, paths: list[str], *, archive: bool) -> None:
        """Bring it here; `state` and `error` tell what became of it."""
        try:
            if archive:
                sandbox.files.archive(paths, self.path, format="zip", progress=self._watch)
            else:
                sandbox.files.download(paths[0], self.path, progress=self._watch, verify="sha256")
            self._watch(0, os.path.getsize(self.path))
            self.sha256 = _sha256(self.path)
        except _TooMuch as much:
            self.error = (
                f"{size(much.length)} are more than a page can take ({size(LIMIT)}); in a cell, "
                f"%sandbox download {quote(paths[0])} brings it"
            )
        except SandboxError as error:
            self.error = worded(error)
        except (OSError, _Cancelled):
            self.error = "cancelled" if self.cancelled else "it cannot be kept on the notebook's side"
        if self.cancelled:
            self.directory.cleanup()  # of what came since
        self.state = "failed" if self.error else "ready"

    def _watch(self, done: int, length: int) -> None:
        if self.cancelled:
            raise _Cancelled
        self.done, self.length = done, max(done, length)
        if self.length > LIMIT:
            raise _TooMuch(self.length)

    def piece(self, offset: int, length: int) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(offset)
            return file.read(length)

    def discard(self) -> None:
        self.cancelled = True
        self.directory.cleanup()


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def archive_name(paths: list[str], fallback: str) -> str:
    """What to call the archive of these."""
    name = posixpath.basename(paths[0].rstrip("/")) if len(paths) == 1 else ""
    return f"{name if name not in ('', '.') else fallback}.zip"
