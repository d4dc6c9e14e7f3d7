"""``-`` as the name of a file: standard input and standard output, byte for byte, where there are such."""

from __future__ import annotations

import os
import shutil
import tempfile

from ..args import quote
from ..grammar import Mistake
from ..invocation import Invocation, Outcome
from ..render import Table
from ..results import Rows
from ..session import Entry
from .transfers import row, verify


def from_input(call: Invocation, entry: Entry) -> Outcome:
    """Store what comes by standard input, under the name that ``--to`` gives."""
    from sandbox_sdk import ConflictError

    if call.front.stdin is None:
        raise Mistake(
            '"-" is standard input, and only nbsandbox has one', "%sandbox upload ./- for a file of that name"
        )
    target = call.parsed.text("to")
    if call.parsed.many("path") != ["-"]:
        raise Mistake('"-", standard input, goes alone', "%sandbox upload - --to in/data.csv")
    if not target or target.endswith("/"):
        raise Mistake("standard input has no name", "%sandbox upload - --to in/data.csv gives it one")
    overwrite = call.parsed.flag("overwrite") or not call.settings.confirm_overwrite
    progress = call.progress("uploading standard input")
    try:
        receipt = entry.sandbox.files.upload(
            call.front.stdin, target, overwrite=overwrite, progress=progress, verify=verify(call)
        )
    except ConflictError as error:
        if error.code != "file_exists":
            raise
        raise Mistake(f'"{target}" is in the sandbox already', "%sandbox upload --overwrite … replaces it") from error
    finally:
        progress.close()
    return Outcome(receipt, Rows([receipt], Table([row("-", entry.relative(receipt.path), receipt)])))


def to_output(call: Invocation) -> Outcome:
    """Write a file to standard output, once all of it is here, and not a word beside it."""
    remote = call.parsed.text("remote")
    if call.front.stdout is None:
        raise Mistake(
            '"-" is standard output, and only nbsandbox has one',
            f"text = %sandbox cat {quote(remote)}, or %sandbox download {quote(remote)} ./- for a file of that name",
        )
    with tempfile.TemporaryDirectory(prefix="nbsandbox-") as beside:
        local = os.path.join(beside, "file")
        receipt = call.entry().sandbox.files.download(remote, local, verify=verify(call))
        if os.path.isdir(local):
            raise Mistake(f'"{remote}" is a directory', f"%sandbox archive {quote(remote)} brings it as one file")
        with open(local, "rb") as file:
            shutil.copyfileobj(file, call.front.stdout)
        call.front.stdout.flush()
    return Outcome(receipt)
