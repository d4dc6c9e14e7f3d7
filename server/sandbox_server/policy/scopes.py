"""Scopes: the grammar of what an identity may hold. What a scope covers is `access.covers`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from ..access import covers
from .wording import shown, suggestion

_SCOPE = re.compile(
    r"\*"
    r"|[a-z][a-z0-9_]*:(?:\*|[a-z][a-z0-9_:.-]*)"  # a namespace, and everything or something in it
    r"|[a-z][a-z0-9_.-]*"  # a bare word
)


def is_scope(text: str) -> bool:
    """True for ``*``, ``files:*``, ``files:read``, ``files:read:fast`` and bare words such as ``deploy``."""
    return _SCOPE.fullmatch(text) is not None


def idle(granted: Iterable[str], asked: Collection[str]) -> Iterator[tuple[str, str]]:
    """The granted scopes that cover nothing of what is asked for, each with what may have been meant."""
    for scope in sorted(granted):
        if not any(covers((scope,), one) for one in asked):
            choices = sorted({*asked, *(f"{one.partition(':')[0]}:*" for one in asked if ":" in one)})
            known = ", ".join(sorted(asked))
            yield shown(scope), suggestion(scope, choices) or f"; known ones are {known}, and what --commands brings"
