"""What transfers show, and what they say of a file that is not there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..args import quote
from ..grammar import Mistake, nearest
from ..render import Cell, Row
from ..text import count, size

if TYPE_CHECKING:
    from sandbox_sdk import Receipt
    from sandbox_sdk.transfer.options import Verify

    from ..invocation import Invocation


def row(source: str, target: str, receipt: Receipt) -> Row:
    moved = [outcome for outcome in receipt.files if outcome.receipt is not None]
    skipped = [outcome for outcome in receipt.files if outcome.skipped]
    amount = size(receipt.bytes)
    if receipt.files:
        amount = f"{count(len(moved), 'file')}, {amount}"
    if skipped:
        amount += f"; left out: {', '.join(f'{outcome.source} ({outcome.skipped})' for outcome in skipped)}"
    digest = f"sha256 {receipt.sha256}" if receipt.sha256 else ""
    return [Cell(source, "good"), "→", Cell(target, "strong"), amount, *([digest] if digest else [])]


def verify(call: Invocation) -> Verify:
    return "sha256" if call.parsed.flag("verify") else "size"


def regular(path: str) -> str:
    """The path itself; refused is what is there and could keep one waiting for its content, as a pipe."""
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise Mistake(
            f'"{path}" is neither a file nor a directory',
            "nbsandbox upload - --to NAME takes what comes through a pipe, as files.upload of the client does",
        )
    return path


def missing(path: str, *, otherwise: str = "") -> Mistake:
    """No such file on this side: what was probably meant, or from where it was looked for, and another way."""
    directory, name = os.path.split(os.path.expanduser(path))
    there = os.listdir(directory or ".") if os.path.isdir(directory or ".") else []
    if near := nearest(name, there):
        hint = f"did you mean {quote(os.path.join(directory, near))}?"
    else:
        start = "" if os.path.isabs(directory) else f", which counts from {os.getcwd()}"
        hint = f"check the path{start}{'; ' * bool(otherwise)}{otherwise}"
    return Mistake(f'no file "{path}" on this side', hint)
