"""Is an audit log whole? Follows the chain of `audit` from line to line, over several files and several runs.

What the chain alone cannot show is a missing end. So the verdict tells the *head*, the number and hash of the last
line; whoever keeps it elsewhere can ask later whether it is still there.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from .audit import GENESIS

_HASH = re.compile(r"[0-9a-f]{64}")
_HEAD = re.compile(r"([0-9]{1,18}):([0-9a-fA-F]{64})")
_SHOWN = 200


class Head(NamedTuple):
    """One line by its number and its hash."""

    sequence: int
    digest: str

    def __str__(self) -> str:
        return f"{self.sequence}:{self.digest}"

    @classmethod
    def parse(cls, text: str) -> Head:
        match = _HEAD.fullmatch(text)
        if match is None:
            raise ValueError("a head is a number, a colon and 64 hex digits, as verify prints it")
        return cls(int(match[1]), match[2].lower())


class Broken(Exception):
    """The first place where the log is not what the server wrote. The text tells where, and what is wrong there."""


class Verdict(NamedTuple):
    """What is known about a log whose chain holds."""

    lines: int
    runs: int  # chains in it: more than one where every start of the server begins anew, as on standard error
    head: Head | None  # of the last line; None when there is none
    first: int  # sequence number of the first line; above 1 when older lines are kept elsewhere, or are lost
    lost: int  # lines that the server itself says it could not write
    other: int  # lines of other text: a line torn by a crash, or what else goes to standard error


class _Line(NamedTuple):
    place: str  # "audit.jsonl:12", for people
    text: bytes
    sequence: int
    previous: str
    facts: dict[str, Any]


def verify(files: Iterable[tuple[str, Iterable[bytes]]], kept: Head | None = None) -> Verdict:
    """Follow the chain through `files`, (name, lines) each, the oldest first. Raises `Broken`.

    `kept` is the head of an earlier verdict, which must be found again.
    """
    lines = runs = first = lost = other = 0
    found = kept is None or kept.sequence == 0
    head: Head | None = None
    for item in _lines(files):
        if item is None:
            other += 1
            continue
        if head is None or (item.sequence, item.previous) == (1, GENESIS):
            runs += 1
            first = first or item.sequence
        else:
            _follow(head, item)
        head = Head(item.sequence, hashlib.sha256(item.text).hexdigest())
        lines += 1
        found = found or head == kept
        if item.facts.get("event") == "lost" and isinstance(item.facts.get("count"), int):
            lost += item.facts["count"]
    if not found:
        gone = kept.sequence if kept else 0
        raise Broken(f"line {gone}, whose hash was kept, is not there: the end was cut off, or written anew")
    return Verdict(lines, runs, head, first, lost, other)


def _lines(files: Iterable[tuple[str, Iterable[bytes]]]) -> Iterator[_Line | None]:
    for name, lines in files:
        for number, line in enumerate(lines, 1):
            text = line.removesuffix(b"\n")
            if text:
                yield _read(f"{name}:{number}", text)


def _read(place: str, text: bytes) -> _Line | None:
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(facts, dict):
        return None
    sequence, previous = facts.get("seq"), facts.get("prev")
    if type(sequence) is not int or sequence < 1 or not isinstance(previous, str) or not _HASH.fullmatch(previous):
        return None
    return _Line(place, text, sequence, previous, facts)


def _follow(head: Head, line: _Line) -> None:
    if line.sequence == head.sequence + 1:
        if line.previous == head.digest:
            return
        what = f"it does not follow line {head.sequence} as that stands here: that line was edited, or this one"
    elif line.sequence > head.sequence + 1:
        missing = line.sequence - head.sequence - 1
        what = f"{_count(missing, 'line')} missing before it, after number {head.sequence}"
    else:
        what = f"number {line.sequence} after number {head.sequence}: lines were reordered, repeated or put in"
    shown = line.text[:_SHOWN].decode("utf-8", "replace")
    raise Broken(f"{line.place}: {what}\n  {shown if shown.isprintable() else json.dumps(shown)}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def report(paths: Sequence[str], kept: Head | None = None) -> Verdict:
    """Verify the files at `paths` and print what was found. Raises `Broken`, and `OSError` for what cannot be read."""
    with ExitStack() as stack:
        verdict = verify([(path, stack.enter_context(open(path, "rb"))) for path in paths], kept)
    print(f"the chain holds: {_count(verdict.lines, 'line')} in {_count(verdict.runs, 'run')}")
    if verdict.first > 1:
        print(f"note: it begins with line {verdict.first}; earlier ones are not in what was given")
    if verdict.runs > 1:
        print("note: a run that begins anew says nothing about how the one before it ended")
    if verdict.lost:
        print(f"note: the server says that {_count(verdict.lost, 'line')} could not be written")
    if verdict.other:
        print(f"note: passed over {_count(verdict.other, 'line')} of other text, such as one torn by a crash")
    print(f"head {verdict.head or Head(0, GENESIS)}")
    return verdict
