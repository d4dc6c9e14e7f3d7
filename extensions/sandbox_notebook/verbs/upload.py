"""``upload``: files from this side into the sandbox."""

from __future__ import annotations

import glob
import os
import posixpath
from collections.abc import Iterable
from importlib.util import find_spec

from sandbox_sdk import (
    ConflictError,
    EndpointNotAvailableError,
    NotFoundError,
    PolicyDeniedError,
    Receipt,
    SandboxError,
    ServerAPIError,
    TransferError,
)
from sandbox_sdk.transfer.layout import scan

from ..args import quote
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Table
from ..results import Rows, Still
from ..session import Entry
from .piped import from_input
from .transfers import missing, regular, row, verify

_COMPARED = 16 << 20


def upload(call: Invocation) -> Outcome:
    entry = call.entry()
    patterns = call.parsed.many("path")
    if not patterns or call.parsed.flag("pick"):
        return _picker(call, entry)
    if "-" in patterns:
        return from_input(call, entry)
    pick = "%sandbox upload alone lets you choose" if call.front.views is not None else ""
    sources = [found for place, pattern in enumerate(patterns) for found in _found(pattern, patterns[place:], pick)]
    receipts = [_one(call, entry, source) for source in sources]
    rows = [
        row(source, entry.relative(receipt.path), receipt) for source, receipt in zip(sources, receipts, strict=True)
    ]
    shown = Rows(receipts, Table(rows))
    return Outcome(receipts[0] if len(receipts) == 1 else receipts, shown)


def _picker(call: Invocation, entry: Entry) -> Outcome:
    """A place to drop files on; what it stores is remembered as any upload is."""
    to, shown = call.parsed.text("to"), None
    if call.front.views is not None:
        picker = call.front.views.upload(entry.sandbox, to=to)
    elif find_spec("anywidget"):
        from ..widgets.upload import UploadPicker

        picker = UploadPicker(entry.sandbox, to=to)
        shown = Still(*picker.still())
    else:
        raise Mistake("path is missing", "%sandbox upload data.csv; a picker needs anywidget")
    picker.on_upload(lambda receipt: entry.remember(receipt.path, receipt.bytes, receipt.mtime))
    return Outcome(picker, shown)


def _found(pattern: str, words: list[str], otherwise: str) -> list[str]:
    """The files a pattern, the first of these words, stands for. A name that exists is itself, whatever is in it."""
    path = os.path.expanduser(pattern)
    if os.path.lexists(path):
        return [regular(path)]
    found = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
    if found:
        return [regular(path) for path in found]
    for length in range(len(words), 1, -1):
        if os.path.lexists(os.path.expanduser(whole := " ".join(words[:length]))):
            raise Mistake(f'no file "{pattern}" on this side', f"a name with blanks needs quotes: {quote(whole)}")
    raise missing(pattern, otherwise=otherwise)


def _one(call: Invocation, entry: Entry, source: str) -> Receipt:
    name = os.path.basename(os.path.abspath(source))
    target = posixpath.join(call.parsed.text("to"), name)
    sizes = [file.size for file in scan(source).files] if os.path.isdir(source) else ()
    progress = call.progress(f"uploading {name}", sizes)

    def send(overwrite: bool) -> Receipt:
        return entry.sandbox.files.upload(
            source + "/" if os.path.isdir(source) else source,  # its content, wherever the target is there already
            target,
            overwrite=overwrite,
            progress=progress,
            verify=verify(call),
        )

    try:
        if call.parsed.flag("overwrite") or not call.settings.confirm_overwrite:
            receipt = send(True)
        else:
            try:
                receipt = send(False)
            except (ConflictError, PolicyDeniedError, TransferError) as error:
                _only_ours(entry, dict(_in_the_way(error, source, target)), error)
                receipt = send(True)
    finally:
        progress.close()
    for path, one in _files(receipt, target):
        entry.remember(path, one.bytes, one.mtime)
    return receipt


def _in_the_way(error: SandboxError, source: str, target: str) -> Iterable[tuple[str, str]]:
    """The targets that exist already, where that is what went wrong, and what would go there."""
    if isinstance(error, TransferError):
        return [(outcome.target, outcome.source) for outcome in error.outcomes if _exists(outcome.error)]
    return [(target, source)] if _exists(error) else []


def _exists(error: SandboxError | None) -> bool:
    return isinstance(error, ServerAPIError) and error.code == "file_exists"


def _only_ours(entry: Entry, there: dict[str, str], error: SandboxError) -> None:
    """Let go on when everything in the way (remote path → local file) is ours, or the same anyway."""
    if not there:
        raise error
    for path, source in there.items():
        if not _ours(entry, path, source):
            raise Mistake(f'"{path}" is in the sandbox already', "%sandbox upload --overwrite … replaces it") from error


def _ours(entry: Entry, path: str, source: str) -> bool:
    files = entry.sandbox.files
    try:
        info = files.stat(path)
        if entry.unchanged(path, info.size, info.modified):
            return True
        with open(source, "rb") as file:
            return info.size == os.path.getsize(source) <= _COMPARED and files.read(path) == file.read()
    except (PolicyDeniedError, EndpointNotAvailableError):
        return entry.uploaded(path)  # nobody may look, so what we remember must do
    except NotFoundError:
        return True


def _files(receipt: Receipt, target: str) -> Iterable[tuple[str, Receipt]]:
    if not receipt.files:
        return [(target, receipt)]
    return [(one.target, one.receipt) for one in receipt.files if one.receipt is not None]
