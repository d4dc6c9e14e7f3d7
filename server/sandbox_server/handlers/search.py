"""Search: the files and lines found, as one JSON object, or line by line as they are found."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Generator, Iterator
from typing import Any

from ..call import Call
from ..guards.paths import Location
from ..messages import Aborted, Peer, Refusal, Response, Wait, compact, json_response
from ..process.caller import Caller
from ..searching.lines import MOST_TEXT, MOST_TEXT_TOLD
from ..searching.matcher import Gone, Matcher
from ..searching.search import LARGEST_FILE, Found, Search, Step

NDJSON_TYPE = "application/x-ndjson"
#: When neither caller nor policy says; and what no caller can exceed.
_DEPTH, _RESULTS, _SECONDS = 5, 100, 10.0
_MOST_RESULTS, _MOST_CONTEXT = 100_000, 20
_MOST_PATTERN, _MOST_CONTENTS = 1024, 4096  # characters
#: Lines go out together when they come quickly, in seconds and in hits.
_TOGETHER, _BLOCK = 0.05, 200


def files_search(
    call: Call,
    *,
    path: Location,
    pattern: str | None,
    contents: str | None,
    regex: bool,
    ignore_case: bool,
    context: int,
    max_depth: int | None,
    max_results: int | None,
) -> Response:
    """Files by name, or lines by their text in the files of that name. What the guard keeps back is never named."""
    if not pattern and contents is None:
        raise Refusal("invalid_argument", '"pattern" is required when there is no "contents"', field="pattern")
    _check_length("pattern", pattern, _MOST_PATTERN)
    _check_contents(contents)
    os.close(path.open_directory())  # a refusal when it is none
    depth, most, seconds = _limits(call, max_depth, max_results)
    search = Search(
        path.inside(), name_glob=pattern or None, depth=depth, most=most + 1,
        context=max(0, min(context, _MOST_CONTEXT)), seconds=seconds,
    )  # fmt: skip
    answer = _Answer(search, most, depth, seconds)
    peer = call.request.peer
    if contents is None:
        steps = search.names()
    elif regex or ignore_case:
        matcher = Matcher(call.services.processes, search.deadline)
        call.defer(matcher.close)
        expression = contents if regex else _escaped(contents)
        try:
            for wait in matcher.compile(expression, ignore_case, max(0, min(context, _MOST_CONTEXT))):
                _settle(wait, peer)
        except Gone:
            if time.monotonic() < search.deadline:
                raise Refusal("busy", "the process that matches expressions has ended; try again") from None
            search.timed_out = True
            steps = iter(())
        else:
            steps = search.expression(matcher)
    else:
        steps = search.text(contents.encode("utf-8", "surrogateescape"))
    if call.accepts(NDJSON_TYPE):
        return Response(200, answer.lines(steps), [("Content-Type", NDJSON_TYPE)])
    return json_response(answer.whole(steps, peer))


def _check_length(field: str, text: str | None, most: int) -> None:
    if text is not None and len(text) > most:
        raise Refusal("invalid_argument", f'"{field}" has more than {most} characters', field=field)


def _check_contents(contents: str | None) -> None:
    _check_length("contents", contents, _MOST_CONTENTS)
    if contents == "":
        raise Refusal("invalid_argument", '"contents" must be text that is not empty', field="contents")
    if contents is not None and "\n" in contents:
        raise Refusal(
            "invalid_argument", '"contents" is looked for line by line; leave out line ends', field="contents"
        )


def _escaped(text: str) -> str:
    import re

    return re.escape(text)


def _limits(call: Call, max_depth: int | None, max_results: int | None) -> tuple[int, int, float]:
    """What the caller asks for, or the defaults; lowered where a policy says so. At least one hit is answered."""
    configured, grant = call.grant.configured_limits, call.grant

    def at_most(name: str, asked: int | None, default: int) -> int:
        wanted = default if asked is None else asked
        limit = grant.size(name) if name in configured else None
        return wanted if limit is None else min(wanted, limit)

    seconds = grant.seconds("timeout_seconds")
    return (
        at_most("max_depth", max_depth, _DEPTH),
        max(1, min(at_most("max_results", max_results, _RESULTS), _MOST_RESULTS)),
        _SECONDS if seconds is None else seconds,
    )


class _Answer:
    """What is told of a search: at most `most` hits, then the facts about it."""

    def __init__(self, search: Search, most: int, depth: int, seconds: float) -> None:
        self._search = search
        self._most = most
        self._limits = {
            "max_results": most, "max_depth": depth, "timeout_seconds": seconds,
            "max_file_bytes": LARGEST_FILE, "max_line_characters": MOST_TEXT,
        }  # fmt: skip
        self._truncated = False

    def whole(self, steps: Iterator[Step], peer: Peer) -> dict[str, Any]:
        """All of it as one object."""
        results = []
        for step in self._bounded(steps):
            if isinstance(step, Wait):
                _settle(step, peer)
            else:
                results.append(_row(step))
        return {"results": results, **self._facts()}

    def lines(self, steps: Iterator[Step]) -> Generator[bytes | Wait, None, None]:
        """One object per line: every hit when it is found, at the end the facts, with ``"done": true``."""
        block: list[bytes] = []
        since, count = 0.0, 0  # so that the first hit goes out at once
        for step in self._bounded(steps):
            if isinstance(step, Found):
                block.append(_line(_row(step)))
                count += 1
                if len(block) < _BLOCK and time.monotonic() - since < _TOGETHER:
                    continue
            if block:
                yield b"".join(block)
                block, since = [], time.monotonic()
            if isinstance(step, Wait):
                yield step
        yield b"".join([*block, _line({"done": True, "hits": count, **self._facts()})])

    def _bounded(self, steps: Iterator[Step]) -> Iterator[Step]:
        """One hit more than is told is looked for, to know whether there are more."""
        left, text = self._most, MOST_TEXT_TOLD
        for step in steps:
            if isinstance(step, Found):
                text -= step.hit.size if step.hit else 0
                if not left or text < 0:
                    self._truncated = True
                    return
                left -= 1
            yield step

    def _facts(self) -> dict[str, Any]:
        search = self._search
        return {
            "timed_out": search.timed_out,
            "truncated": self._truncated,
            "skipped": search.skipped,
            "limits": self._limits,
        }


def _settle(wait: Wait, peer: Peer) -> None:
    """Wait on this thread, and notice when the caller leaves."""
    if not wait.descriptors:
        if peer.gone():
            raise Aborted
        return
    poll = select.poll()
    for descriptor in wait.descriptors:
        poll.register(descriptor, select.POLLIN)
    Caller(peer, poll).poll(max(0.0, wait.until - time.monotonic()) * 1000)


def _row(found: Found) -> dict[str, Any]:
    row: dict[str, Any] = {"name": found.name, "path": found.path}
    if (hit := found.hit) is None:
        return row
    row |= {"line": hit.line, "column": hit.column, "text": hit.text, "before": hit.before, "after": hit.after}
    if hit.cut:
        row |= {"cut": True, "start": hit.start}
    if hit.damaged:
        row["encoding_errors"] = True
    return row


def _line(value: dict[str, Any]) -> bytes:
    return compact(value).encode("ascii") + b"\n"
