"""One search below a directory: by name, by text, by both. It answers hits as it finds them, and counts what it skips.

A search is a generator of steps: a hit, or a `Wait` when it is a good moment to look whether anybody still listens.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from ..guards.below import Below, Level
from ..guards.globs import compile_glob
from ..messages import Wait
from .lines import Find, Hit, hits, literal
from .matcher import Gone, Matcher

#: A larger file is skipped, and counted.
LARGEST_FILE = 32 << 20
_SNIFFED = 8192  # bytes in which a NUL says that this is no text
_LOOK_UP = 0.1  # seconds between two looks at whoever listens
#: A message to the helper: files and bytes at most.
_BATCH_FILES, _BATCH_BYTES = 100, 1 << 18


class Found(NamedTuple):
    """One result: a file, or one line of it."""

    name: str
    path: str
    hit: Hit | None = None


Step = Found | Wait


class Search:
    """`name_glob` None takes every name. When the steps end, the facts are all there: what was skipped, and why."""

    def __init__(self, below: Below, *, name_glob: str | None, depth: int, most: int, context: int,
                 seconds: float) -> None:  # fmt: skip
        self._below = below
        self._matches: Callable[[str], object] | None = None if name_glob is None else compile_glob(name_glob).match
        self._depth = depth
        self._most = most
        self._context = context
        self.deadline = time.monotonic() + seconds
        self.skipped = {"binary": 0, "large": 0, "unreadable": 0}
        self.timed_out = False

    def names(self) -> Iterator[Step]:
        """Files whose name fits. A link counts where it leads to no directory and nowhere forbidden."""
        for level in self._levels():
            if isinstance(level, Wait):
                yield level
                continue
            for name, _, target in self._fitting(level):
                path = _joined(level.path, name)
                if target is None or not self._below.leads_to_directory(path):
                    yield Found(name, self._below.at(path))

    def text(self, text: bytes) -> Iterator[Step]:
        """Lines that hold these bytes."""
        find = literal(text)
        for step in self._files():
            if isinstance(step, Wait):
                yield step
            else:
                yield from _told(step, self._look(step.data, find))

    def expression(self, matcher: Matcher) -> Iterator[Step]:
        """Lines that match what `matcher` has compiled."""
        batch: list[_File] = []
        size = 0
        try:
            for step in self._files():
                if not isinstance(step, Wait):
                    batch.append(step)
                    size += len(step.data)
                    if len(batch) < _BATCH_FILES and size < _BATCH_BYTES:
                        continue
                else:
                    yield step
                yield from self._matched(matcher, batch)
                batch, size = [], 0
            yield from self._matched(matcher, batch)
        except Gone:
            self.timed_out = True

    def _matched(self, matcher: Matcher, batch: list[_File]) -> Generator[Step, None, None]:
        if batch:
            answers = yield from matcher.match([file.data for file in batch], self._most)
            for file, found in zip(batch, answers, strict=True):
                yield from _told(file, found)

    def _look(self, data: bytes, find: Find) -> list[Hit]:
        return hits(data, find, self._context, self._most)

    def _levels(self) -> Iterator[Level | Wait]:
        """The directories, as long as there is time."""
        look_up = time.monotonic() + _LOOK_UP
        for level in self._below.levels(self._depth):
            now = time.monotonic()
            if now >= self.deadline:
                self.timed_out = True
                return
            if now >= look_up:
                look_up = now + _LOOK_UP
                yield Wait(until=now)
            if level.descriptor < 0:
                self.skipped["unreadable"] += 1
            else:
                yield level

    def _fitting(self, level: Level) -> Iterator[tuple[str, os.stat_result, str | None]]:
        names = level.names if self._matches is None else filter(self._matches, level.names)
        try:
            yield from self._below.visible(level.path, level.descriptor, names)
        except PermissionError:  # the names may be read, but the directory may not be entered to look at them
            self.skipped["unreadable"] += 1

    def _files(self) -> Iterator[_File | Wait]:
        """The content of each regular file whose name fits and that looks like text."""
        look_up = time.monotonic() + _LOOK_UP
        for level in self._levels():
            if isinstance(level, Wait):
                yield level
                continue
            for name, facts, _ in self._fitting(level):
                if not stat.S_ISREG(facts.st_mode):
                    continue
                now = time.monotonic()
                if now >= self.deadline:
                    self.timed_out = True
                    return
                if now >= look_up:
                    look_up = now + _LOOK_UP
                    yield Wait(until=now)
                data = self._content(level.descriptor, name)
                if data:
                    yield _File(name, self._below.at(_joined(level.path, name)), data)

    def _content(self, directory: int, name: str) -> bytes:
        """The whole file; nothing when it is skipped."""
        descriptor = self._below.open_file(directory, name)
        if descriptor < 0:
            self.skipped["unreadable"] += 1
            return b""
        try:
            return self._read(descriptor)
        except OSError:
            self.skipped["unreadable"] += 1
            return b""
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int) -> bytes:
        data = os.read(descriptor, 8 * _SNIFFED)
        if b"\0" in data[:_SNIFFED]:
            self.skipped["binary"] += 1
            return b""
        if len(data) < 8 * _SNIFFED and os.fstat(descriptor).st_size <= len(data):
            return data
        parts, size = [data], len(data)
        while size <= LARGEST_FILE and (piece := os.read(descriptor, 1 << 20)):
            parts.append(piece)
            size += len(piece)
        if size > LARGEST_FILE:  # or one that grows as fast as it is read
            self.skipped["large"] += 1
            return b""
        return b"".join(parts)


class _File(NamedTuple):
    name: str
    path: str
    data: bytes


def _told(file: _File, found: list[Hit]) -> Iterator[Found]:
    return (Found(file.name, file.path, hit) for hit in found)


def _joined(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name
