"""The helper that matches regular expressions: a process of its own, because `re` lets nothing else run meanwhile.

It is given text and answers places; it opens nothing. A hostile expression costs it its life, when time is up, and the
server nothing. In: one JSON object with the expression, then messages of files. Out: one line of JSON for each.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, BinaryIO

from .lines import expression, hits

MEMORY = 1 << 30  # bytes of address space; text takes up to four times its size on the way


def main() -> None:
    import resource

    for limit, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, MEMORY)):
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))
    with suppress(BrokenPipeError):  # the search is over
        serve(sys.stdin.buffer, sys.stdout.buffer)


def serve(given: BinaryIO, told: BinaryIO) -> None:
    """Compile, then look through one message of files after the other until there are no more."""

    def answer(value: Any) -> None:
        told.write(json.dumps(value, separators=(",", ":")).encode() + b"\n")
        told.flush()

    order = json.loads(given.readline())
    try:
        pattern = re.compile(order["expression"], re.IGNORECASE if order["ignore_case"] else 0)
    except re.error as error:
        answer({"place": error.pos})
        return
    except (OverflowError, RecursionError, MemoryError, ValueError):
        answer({"place": None})
        return
    answer({})
    _look_through(given, answer, pattern, order["context"])


def _look_through(given: BinaryIO, answer: Callable[[Any], None], pattern: re.Pattern[str], context: int) -> None:
    find = expression(pattern)
    while head := given.read(8):
        count, most = int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")
        files = [given.read(int.from_bytes(given.read(4), "big")) for _ in range(count)]  # all, before any is matched
        answer([hits(data, find, context, most) for data in files])
