"""Where downloaded bytes go: a temporary file beside the target, renamed over it once everything has arrived."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat

from .local import on_this_side

_PIECE = 1 << 20


class LocalTarget:
    """The new content of a local file. Without `commit`, `discard` leaves everything as it was.

    A link is followed, and keeps pointing to the file that gets the content. What exists and is no regular file (a
    device, a pipe) is written to directly, because it cannot be replaced.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self._final = os.path.realpath(path)
        self._part = ""
        self._descriptor = -1

    def open(self) -> None:
        with on_this_side(self.path):
            self._open()

    def _open(self) -> None:
        try:
            mode = os.stat(self._final).st_mode
        except FileNotFoundError:
            mode = 0
        if mode and not stat.S_ISREG(mode):
            self._descriptor = os.open(self._final, os.O_WRONLY | os.O_CLOEXEC)
            return
        parent = os.path.dirname(self._final)
        os.makedirs(parent, exist_ok=True)
        self._part = os.path.join(parent, f".nsb-{secrets.token_hex(8)}.part")
        self._descriptor = os.open(self._part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        if mode:
            os.fchmod(self._descriptor, stat.S_IMODE(mode))

    @property
    def rewindable(self) -> bool:
        return bool(self._part)

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            with on_this_side(self.path):
                written = os.write(self._descriptor, view)
            self.size += written
            view = view[written:]

    def restart(self) -> None:
        """Forget what has come: the file at the other end is another one now."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.ftruncate(self._descriptor, 0)
        self.size = 0

    def sha256(self) -> str:
        """The digest of what has been written."""
        digest = hashlib.sha256()
        offset = 0
        while piece := os.pread(self._descriptor, _PIECE, offset):
            digest.update(piece)
            offset += len(piece)
        return digest.hexdigest()

    def commit(self) -> None:
        """Put the content in place, all at once."""
        self._close()
        if self._part:
            with on_this_side(self.path):
                os.replace(self._part, self._final)
            self._part = ""

    def discard(self) -> None:
        """Remove what has come, unless it has been committed."""
        self._close()
        if self._part:
            os.unlink(self._part)
            self._part = ""

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)
