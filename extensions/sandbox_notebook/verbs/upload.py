"""``upload``: files from this side into the sandbox."""

from __future__ import annotations

import glob
import os
import posixpath

from ..args import quote
from ..grammar import Mistake, nearest
from ..invocation import Invocation, Outcome
from ..render import Cell, Table
from ..results import Rows
from ..text import size


def upload(call: Invocation) -> Outcome:
    from sandbox_sdk import Receipt

    entry = call.entry()
    sources = [found for pattern in call.parsed.many("path") for found in _found(pattern)]
    receipts: list[Receipt] = []
    for source in sources:
        receipts.append(_one(call, entry, source, _target(call.parsed.text("to"), source)))
    rows = [
        [Cell(source, "good"), "→", receipt.path, size(receipt.bytes), _digest(receipt.sha256)]
        for source, receipt in zip(sources, receipts, strict=True)
    ]
    return Outcome(receipts[0] if len(receipts) == 1 else receipts, Rows(receipts, Table(rows)))


def _found(pattern: str) -> list[str]:
    """The files a pattern stands for. A name that exists is itself, whatever characters it has."""
    path = os.path.expanduser(pattern)
    if os.path.lexists(path):
        return [path]
    found = sorted(glob.glob(path)) if glob.has_magic(path) else []
    if found:
        return found
    directory, name = os.path.split(path)
    near = nearest(name, os.listdir(directory or ".")) if os.path.isdir(directory or ".") else ""
    here = directory or os.getcwd()
    raise Mistake(
        f'no file "{pattern}" on this side',
        f"did you mean {quote(os.path.join(directory, near))}?" if near else f"files are looked for from {here}",
    )


def _target(directory: str, source: str) -> str:
    return posixpath.join(directory, os.path.basename(os.path.abspath(source)))
