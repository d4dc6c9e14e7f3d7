"""What editing a file answers, and how far an upload in parts is."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from . import _wire as wire
from ._display.shown import Shown
from ._public import public
from ._wire import Json


@public
@dataclass(frozen=True)
class EditResult(Shown):
    """What a list of edits made of a file, or would make of it (``dry_run``).

    ``bytes``, ``sha256`` and ``diff`` are those of the edited text, ``etag`` is the version of the file as it is now,
    ``replacements`` how many places each edit changed. A long ``diff`` is cut: then ``diff_truncated`` is true.
    """

    path: str
    bytes: int
    sha256: str = ""
    etag: str | None = None
    replacements: tuple[int, ...] = ()
    changed: bool = True
    dry_run: bool = False
    diff: str = ""
    diff_truncated: bool = False

    @classmethod
    def from_wire(cls, data: Json) -> EditResult:
        counts = data.get("replacements")
        return cls(
            path=wire.text(data, "path"),
            bytes=wire.whole(data, "bytes"),
            sha256=wire.text(data, "sha256"),
            etag=wire.text_or_none(data, "etag"),
            replacements=tuple(n for n in counts if isinstance(n, int)) if isinstance(counts, list) else (),
            changed=wire.flag(data, "changed"),
            dry_run=wire.flag(data, "dry_run"),
            diff=wire.text(data, "diff"),
            diff_truncated=wire.flag(data, "diff_truncated"),
        )


@dataclass
class UploadState:
    """Of one upload in parts; its handle and the blocking twin of that share it."""

    place: str  # where it goes on
    path: str
    offset: int  # how much has arrived
    size: int | None = None
    over: bool = False  # finished or cancelled
    digest: hashlib._Hash | None = None
    _hashed: int = field(default=0, repr=False)

    def take(self, at: int, piece: bytes) -> None:
        """Hash what has not been yet; what is sent again is not hashed again."""
        if self.digest is not None and at + len(piece) > self._hashed:
            self.digest.update(memoryview(piece)[self._hashed - at :])
            self._hashed = at + len(piece)
