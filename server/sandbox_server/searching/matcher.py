"""A regular expression at work in a process of its own, seen from the server."""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ..messages import Refusal, Wait, quoted
from ..process.helper import Helper
from ..process.spawn import Launch
from ..process.table import ProcessTable
from .lines import Hit

_READ_BYTES = 1 << 16
#: Only this package's own folder: a server that Landlock confines cannot read the one above.
_BOOT = "import sys; sys.path.append(sys.argv[1]); from searching.program import main; main()"


class Gone(Exception):
    """The helper has ended, or was ended because the time was up."""


class Matcher:
    """One helper for one search. `close` ends it, whatever it does."""

    def __init__(self, processes: ProcessTable, deadline: float) -> None:
        self._deadline = deadline
        self._buffer = bytearray()
        root = os.open("/", os.O_PATH | os.O_DIRECTORY)
        try:
            self._helper: Helper = processes.help(_launch(root), max(0.0, deadline - time.monotonic()))
        finally:
            os.close(root)

    def compile(self, expression: str, ignore_case: bool, context: int) -> Generator[Wait, None, None]:
        """Raises `Refusal` when it is no expression."""
        order = {"expression": expression, "ignore_case": ignore_case, "context": context}
        self._send(json.dumps(order).encode() + b"\n")
        answer = yield from self._answer()
        if "place" in answer:
            place = answer["place"]
            where = "or too large" if place is None else f"see character {place + 1}"
            message = f"{quoted(expression)} is not a regular expression ({where})"
            raise Refusal("invalid_argument", message, field="contents")

    def match(self, files: list[bytes], most: int) -> Generator[Wait, None, list[list[Hit]]]:
        """The hits of each file, at most so many in each."""
        self._send(len(files).to_bytes(4, "big") + most.to_bytes(4, "big"))
        for data in files:
            self._send(len(data).to_bytes(4, "big"))
            self._send(data)
        answer = yield from self._answer()
        return [[Hit(*hit) for hit in found] for found in answer]

    def close(self) -> None:
        self._helper.close()

    def _send(self, data: bytes) -> None:
        """The helper reads a message to its end before it does anything else, so this takes no time to speak of."""
        poll = select.poll()
        poll.register(self._helper.stdin, select.POLLOUT)
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._helper.stdin, view[: 1 << 20]) :]
            except BlockingIOError:
                if not poll.poll(max(0.0, self._deadline - time.monotonic()) * 1000):
                    raise Gone from None
            except BrokenPipeError:
                raise Gone from None

    def _answer(self) -> Generator[Wait, None, Any]:
        while (end := self._buffer.find(b"\n")) < 0:
            if time.monotonic() >= self._deadline:
                raise Gone
            try:
                piece = os.read(self._helper.stdout, _READ_BYTES)
            except BlockingIOError:
                yield Wait((self._helper.stdout,), self._deadline)
                continue
            if not piece:
                raise Gone
            self._buffer += piece
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return json.loads(line)


def _launch(root: int) -> Launch:
    """The server's own interpreter, without anybody's settings or packages, in a neutral place."""
    here = str(Path(__file__).parent.parent)  # in a directory, or in the archive that the server runs from
    argv = (sys.executable, "-I", "-S", "-B", "-W", "ignore", "-X", "utf8", "-c", _BOOT, here)
    return Launch(program=sys.executable, argv=argv, cwd=root, cwd_path="/", env={}, stdin=True)
