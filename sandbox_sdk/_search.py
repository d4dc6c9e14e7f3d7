"""Searching: the call, and what it finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from . import _wire as wire
from ._call import Call, call
from ._display.shown import Listing, Shown
from ._public import public
from ._wire import Json

#: What a server takes for a search when its policy says nothing.
_SECONDS = 10.0


@public
@dataclass(frozen=True)
class SearchHit(Shown):
    """One file that a search has found, or one line of it.

    ``line`` and ``column`` count from 1; None when only names were searched. ``text`` is the line, or the part of a
    long one that begins at column ``start``. ``encoding_errors``: bytes that are not UTF-8 became U+FFFD.
    """

    name: str
    path: str
    line: int | None = None
    column: int | None = None
    text: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    cut: bool = False
    start: int = 1
    encoding_errors: bool = False

    @classmethod
    def from_wire(cls, data: Json) -> SearchHit:
        return cls(
            name=wire.text(data, "name"),
            path=wire.text(data, "path"),
            line=wire.whole_or_none(data, "line"),
            column=wire.whole_or_none(data, "column"),
            text=wire.text(data, "text"),
            before=wire.texts(data, "before"),
            after=wire.texts(data, "after"),
            cut=wire.flag(data, "cut"),
            start=wire.whole(data, "start", 1),
            encoding_errors=wire.flag(data, "encoding_errors"),
        )


@public
class SearchResult(Listing[SearchHit]):
    """The hits of a search, as a list that also says how complete it is.

    ``truncated``: there are more hits than were asked for. ``timed_out``: the server's time was up before it had
    looked everywhere. ``skipped``: how many files were left out, by reason: ``binary``, ``large``, ``unreadable``.
    """

    def __init__(
        self,
        hits: Iterable[SearchHit] = (),
        *,
        timed_out: bool = False,
        truncated: bool = False,
        skipped: dict[str, int] | None = None,
    ) -> None:
        super().__init__(hits)
        self.timed_out = timed_out
        self.truncated = truncated
        self.skipped = skipped or {}

    @property
    def complete(self) -> bool:
        """Every file was looked at, but for those that were skipped, and every hit is here."""
        return not (self.timed_out or self.truncated)

    @classmethod
    def from_wire(cls, data: Json) -> SearchResult:
        skipped = wire.mapping(data, "skipped")
        return cls(
            map(SearchHit.from_wire, wire.objects(data, "results")),
            timed_out=wire.flag(data, "timed_out"),
            truncated=wire.flag(data, "truncated"),
            skipped={reason: wire.whole(skipped, reason) for reason in skipped},
        )


def search(
    path: str,
    pattern: str | None,
    *,
    contents: str | None = None,
    regex: bool = False,
    ignore_case: bool = False,
    context: int = 0,
    max_depth: int | None = None,
    max_results: int | None = None,
) -> Call[SearchResult]:
    if not pattern and contents is None:
        where, names = (".", path) if any(character in path for character in "*?[") else (path, "*")
        raise ValueError(
            f"search() needs a pattern or contents=; the directory comes first: search({where!r}, {names!r})"
        )
    return call(
        "files_search",
        SearchResult.from_wire,
        patience=_SECONDS,
        path=path,
        pattern=pattern,
        contents=contents,
        regex=regex or None,
        ignore_case=ignore_case or None,
        context=context or None,
        max_depth=max_depth,
        max_results=max_results,
    )
