"""One download in progress: which version of the file it is, how much has come, and whether that is all."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from .._errors import TransferError
from .._models import Receipt
from .progress import Progress
from .target import LocalTarget

_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)\Z")


class Incoming:
    """Judges the head of every response, also after an interruption, and the whole at the end."""

    def __init__(self, path: str, local: str, progress: Progress) -> None:
        self.path = path
        self.etag: str | None = None
        self._target = LocalTarget(local)
        self._progress = progress
        self._total: int | None = None
        self._sha256: str | None = None
        self._mtime: datetime | None = None
        self._opened = False

    @property
    def size(self) -> int:
        """Bytes that have come so far."""
        return self._target.size

    @property
    def resumable(self) -> bool:
        """True when the rest can be asked for without mixing two versions of the file."""
        return self._target.rewindable and self.etag is not None and not self.etag.startswith("W/")

    def accept(self, status: int, headers: Mapping[str, str]) -> None:
        """Take the head of a response: the whole file, or the rest of the version that has been begun."""
        first, total = 0, _number(headers.get("content-length"))
        if status == 206:
            match = _CONTENT_RANGE.match(headers.get("content-range", ""))
            if match is None:
                raise TransferError(f'the server answered part of "{self.path}" without saying which')
            first, total = int(match[1]), int(match[2])
        if not self._opened:
            self._target.open()
            self._opened = True
        if first != self.size:
            if first:
                raise TransferError(f'the server continues "{self.path}" at byte {first} instead of {self.size}')
            self._progress.take_back(self.size)
            self._target.restart()
        self._total = total
        self._progress.total = max(self._progress.total, self._progress.done - self.size + (total or 0))
        self.etag = headers.get("etag") or None
        self._sha256 = _digest(headers.get("repr-digest", ""))
        self._mtime = _date(headers.get("last-modified"))

    def accept_whole(self, content: bytes) -> None:
        """Take all of a file that came inside a JSON object."""
        self.accept(200, {"content-length": str(len(content))})
        self.write(content)

    def write(self, data: bytes | memoryview) -> None:
        self._target.write(data)
        self._progress.add(len(data))

    def finish(self, verify_digest: bool) -> Receipt:
        """Check that everything is here, and put the file in place."""
        if self._total is not None and self.size != self._total:
            raise TransferError(f'{self.size} of {self._total} bytes of "{self.path}" have come')
        digest = self._target.sha256() if verify_digest and self._target.rewindable else None
        if digest and self._sha256 and digest != self._sha256:
            raise TransferError(
                f'"{self.path}" arrived damaged: its SHA-256 is {digest}, on the server it is {self._sha256}'
            )
        self._target.commit()
        return Receipt(self.path, self.size, mtime=self._mtime, sha256=digest, etag=self.etag)

    def discard(self) -> None:
        self._target.discard()


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _digest(header: str) -> str | None:
    """The SHA-256 of a ``Repr-Digest`` header, in hex."""
    match = re.search(r"sha-256=:([A-Za-z0-9+/=]*):", header)
    try:
        return base64.b64decode(match[1], validate=True).hex() if match else None
    except binascii.Error:
        return None


def _date(text: str | None) -> datetime | None:
    try:
        return parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
