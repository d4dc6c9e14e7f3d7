"""Replaces ``{name}`` by a variable's value, only where the caller asked for it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .grammar import Mistake

_BRACES = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(text: str, namespace: Mapping[str, object]) -> str:
    """``{name}`` → ``str(value)``; ``{{`` and ``}}`` → one brace; every other brace stays.

    A name that is not there is an error that names it, never a silent leftover.
    """

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return match.group()[0]
        if name not in namespace:
            raise Mistake(
                f'--fill found {{{name}}}, and there is no variable "{name}"',
                f"set {name} first, or write {{{{{name}}}}} for the braces themselves",
            )
        return str(namespace[name])

    return _BRACES.sub(value, text)
