"""Selectors: which endpoints a rule speaks about, and how specific that is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from ..catalogue import Endpoint
from ..guards.globs import compile_glob, has_glob

#: Names that stand for endpoints. The first two are old names of today's endpoints.
ALIASES: dict[str, tuple[str, ...]] = {
    "upload": ("files_upload_stream",),
    "download": ("files_download_stream",),
    "transfer": ("files_upload_stream", "files_download_stream"),
}
OLD_NAMES = ("upload", "download")
DEFAULTS = "@defaults"
GROUP_PREFIX = "group:"


class Kind(IntEnum):
    """How specific a selector is; the higher kind wins before anything else is looked at."""

    DEFAULTS = 0
    GROUP = 1
    GLOB = 2
    EXACT = 3


class Selector(NamedTuple):
    """One selector, ready to be asked. `matches` never raises and costs time linear in the id."""

    text: str
    kind: Kind
    ids: tuple[str, ...] = ()  # exact ones only
    group: str = ""  # group ones only
    pattern: re.Pattern[str] | None = None  # globs only, None for "*"

    @property
    def specificity(self) -> int:
        """The characters before the first ``*``: orders rules of one kind and layer."""
        star = self.text.find("*")
        return star if star >= 0 else len(self.text)

    def matches(self, endpoint: Endpoint) -> bool:
        if self.kind is Kind.DEFAULTS:
            return True
        if self.kind is Kind.GROUP:
            return endpoint.group == self.group
        if self.kind is Kind.GLOB:
            return self.pattern is None or self.pattern.match(endpoint.id) is not None
        return endpoint.id in self.ids


def parse_selector(text: str) -> Selector:
    """Read a key of ``endpoints``."""
    if text == DEFAULTS:
        return Selector(text, Kind.DEFAULTS)
    if text.startswith(GROUP_PREFIX):
        return Selector(text, Kind.GROUP, group=text[len(GROUP_PREFIX) :])
    if has_glob(text):
        return Selector(text, Kind.GLOB, pattern=None if text == "*" else compile_glob(text))
    return Selector(text, Kind.EXACT, ids=ALIASES.get(text, (text,)))


def groups_of(endpoints: Iterable[Endpoint]) -> list[str]:
    """The names of the groups, in order of first appearance."""
    return list(dict.fromkeys(endpoint.group for endpoint in endpoints))
