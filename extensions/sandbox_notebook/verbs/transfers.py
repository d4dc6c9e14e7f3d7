"""What upload and download show of a transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..render import Cell, Row
from ..text import count, size

if TYPE_CHECKING:
    from sandbox_sdk import Receipt


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
