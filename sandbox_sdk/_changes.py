"""Watching: the call, and the changes it tells."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import _wire as wire
from ._call import Call, call, nothing
from ._display.shown import Shown
from ._public import public
from ._wire import Json

EVENTS = "text/event-stream"


@public
@dataclass(frozen=True)
class FileChange(Shown):
    """One change below a watched directory.

    ``type`` is ``created``, ``modified``, ``deleted``, ``renamed`` (from ``old_path``), or ``overflow``: something
    was missed, look at all of ``path`` again. With ``cursor`` another watch goes on right behind this change.
    """

    type: str
    path: str
    is_dir: bool = False
    old_path: str | None = None
    cursor: str = field(default="", repr=False)

    @classmethod
    def from_wire(cls, data: Json, type: str = "") -> FileChange:
        return cls(
            type=type or wire.text(data, "type"),
            path=wire.text(data, "path"),
            is_dir=wire.flag(data, "is_dir", type == "overflow"),
            old_path=wire.text_or_none(data, "from"),
            cursor=wire.text(data, "cursor"),
        )


def watch(
    path: str, *, recursive: bool, interval: float | None, seconds: float | None, cursor: str, ours: bool
) -> Call[None]:
    """`ours`: the server knows renames as such, and cursors."""
    return call(
        "files_watch",
        nothing,
        headers={"Accept": EVENTS},
        path=path,
        recursive=recursive or None,
        interval=interval,
        timeout=seconds,
        renames=True if ours else None,
        cursor=cursor or None if ours else None,
    )
