"""``archive`` and ``unpack``: many files as one."""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING

from sandbox_sdk._archive_calls import ENDINGS

from ..args import quote
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Table
from ..results import Notice, Rows
from ..text import count, size
from .download import ours, state_of
from .transfers import missing, regular, row

if TYPE_CHECKING:
    from sandbox_sdk import ArchiveFormat


def archive(call: Invocation) -> Outcome:
    paths, local = call.parsed.many("path"), os.path.expanduser(call.parsed.text("to"))
    folder = not local or os.path.isdir(local)
    kind = _format(call.parsed.text("format"), "" if folder else local)
    name = posixpath.basename(posixpath.normpath(paths[0])).strip(".") or "sandbox"
    if folder:
        local = os.path.join(local, f"{name}.{kind}")
    asked = call.settings.confirm_overwrite and not call.parsed.flag("overwrite")
    if asked and os.path.lexists(local) and not ours(call.session, local):
        raise Mistake(f'"{local}" is here already', "%sandbox archive --overwrite … replaces it")
    progress = call.progress(f"packing {name}")
    try:
        receipt = call.entry().sandbox.files.archive(paths, local, format=kind, progress=progress)
    finally:
        progress.close()
    call.session.downloaded[os.path.realpath(local)] = state_of(local)
    return Outcome(receipt, Rows([receipt], Table([row(", ".join(paths), local, receipt)])))


def unpack(call: Invocation) -> Outcome:
    local = os.path.expanduser(call.parsed.text("file"))
    if not os.path.lexists(local):
        raise missing(call.parsed.text("file"))
    if os.path.isdir(regular(local)):
        raise Mistake(f'"{local}" is a directory', f"%sandbox upload {quote(local)} brings it in as it is")
    overwrite = call.parsed.flag("overwrite") or not call.settings.confirm_overwrite
    progress = call.progress(f"unpacking {os.path.basename(local)}")
    entry = call.entry()
    from sandbox_sdk import ConflictError

    try:
        unpacked = entry.sandbox.files.unpack(
            local, call.parsed.text("to") or ".", overwrite=overwrite, progress=progress
        )
    except ConflictError as error:
        if error.code != "file_exists":
            raise
        raise Mistake(error.message.partition(";")[0], "%sandbox unpack --overwrite … replaces it") from error
    finally:
        progress.close()
    what = f"{count(unpacked.files, 'file')}, {size(unpacked.bytes)}"
    return Outcome(unpacked, Notice(f"{local}  →  {entry.relative(unpacked.path)}/  {what}"))


def _format(asked: str, local: str) -> ArchiveFormat:
    told: ArchiveFormat | None = next((kind for end, kind in ENDINGS.items() if local.endswith(end)), None)
    wanted: ArchiveFormat | None = next((kind for kind in ENDINGS.values() if kind == asked), None)
    if told and wanted and told != wanted:
        raise Mistake(
            f'"{local}" is no name for a {wanted} archive', f"%sandbox archive … --to {quote('FILE.' + wanted)}"
        )
    if local and not (wanted or told):
        raise Mistake(
            f'"{local}" does not say which kind of archive', "end it in .zip, .tar or .tar.gz, or add --format"
        )
    return wanted or told or "tar.gz"
