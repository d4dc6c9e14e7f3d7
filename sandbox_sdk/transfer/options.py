"""How a transfer is to be done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

#: "size" compares the number of bytes; "sha256" also their digest, which costs more than the transfer itself.
Verify: TypeAlias = Literal["size", "sha256"]

#: Largest file that is read into memory unless the caller says otherwise.
READ_LIMIT = 256 << 20


@dataclass(frozen=True)
class Options:
    overwrite: bool = True
    verify: Verify = "size"
    mode: str | None = None  # permission bits as octal text
    durable: bool = False  # flushed to disk before the receipt
