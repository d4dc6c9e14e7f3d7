"""Lists of what the server answers, which a notebook shows as tables."""

from __future__ import annotations

from ._display.shown import Listing
from ._models import FileEntry, ProcessInfo
from ._public import public


@public
class FileList(Listing[FileEntry]):
    """The entries of a directory: a list with `to_pandas`."""


@public
class ProcessList(Listing[ProcessInfo]):
    """Background processes: a list with `to_pandas`."""
