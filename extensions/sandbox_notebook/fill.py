"""Replaces ``{name}`` by a variable's value, only where the caller asked for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from .args import Word
from .grammar import Mistake
from .invocation import Invocation

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


def filled(call: Invocation) -> Invocation:
    """The same call with the variables in the words of its line, which has been split, and in its body."""

    def value(given: str | float | bool | list[str]) -> str | float | bool | list[str]:
        if isinstance(given, list):
            return [fill(text, call.namespace) for text in given]
        return fill(given, call.namespace) if isinstance(given, str) else given

    def word(given: Word) -> Word:
        text = fill(given.text, call.namespace)
        return replace(given, text=text, quoted=given.quoted or text != given.text)  # a value is no operator

    parsed = call.parsed
    values = {key: value(given) for key, given in parsed.values.items()}
    parsed = replace(parsed, values=values, rest=[word(given) for given in parsed.rest])
    return replace(call, parsed=parsed, body=None if call.body is None else fill(call.body, call.namespace))


def forgotten(line: str, message: str, namespace: Mapping[str, object]) -> str:
    """The line with ``--fill``, when an error speaks of a ``{name}`` that is a variable; else nothing."""
    verb, _, rest = line.partition(" ")
    if "--fill" in rest.split() or not any(match.group(1) in namespace for match in _BRACES.finditer(message)):
        return ""
    return f"{verb} --fill {rest.strip()}"
