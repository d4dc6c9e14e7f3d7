"""Command patterns: which program with which arguments. Compiled once, matched in bounded time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .globs import compile_glob, has_glob
from .programs import ProgramRule, SearchPath
from .words import split

_ELLIPSIS = "..."
_MOST_ELLIPSES = 3
_INT = re.compile(r"[0-9]{1,9}\Z")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+=,-]*\Z")
_PLACEHOLDER = re.compile(r"\{[a-z_]+\}\Z")
_FLAGS = re.compile(r"-[A-Za-z]{2,}\Z")

Judge = Callable[[str], bool]


class CommandPattern:
    """One entry of ``allow_commands`` or ``deny_commands``. `program` is None where any will do."""

    def __init__(self, pattern: str | Sequence[str], search: SearchPath) -> None:
        tokens = _tokens(pattern)
        first, rest = tokens[0], tokens[1:]
        self.program = None if first == _ELLIPSIS else ProgramRule(first, search)
        if first == _ELLIPSIS or (not rest and not first.startswith("{")):
            rest = [_ELLIPSIS, *rest]
        self._tokens = [None if token == _ELLIPSIS else _judge(token, pattern) for token in rest]  # None: any number
        self._paths = frozenset(place for place, token in enumerate(rest) if token == "{path}")

    @property
    def has_paths(self) -> bool:
        return bool(self._paths)

    def fit(self, arguments: Sequence[str]) -> list[int] | None:
        """The places of the arguments that stand for ``{path}``; None when the arguments do not fit.

        A table of which rest of the tokens fits which rest of the arguments keeps this from trying all ways.
        """
        tokens, count = self._tokens, len(arguments)
        fits = [False] * count + [True]
        table = [fits]
        for token in reversed(tokens):
            later = fits
            fits = [False] * (count + 1)
            for place in range(count, -1, -1):
                if token is None:
                    fits[place] = later[place] or (place < count and fits[place + 1])
                else:
                    fits[place] = place < count and later[place + 1] and token(arguments[place])
            table.append(fits)
        if not fits[0]:
            return None
        paths: list[int] = []
        place = 0
        for number, token in enumerate(tokens):
            later = table[-number - 2]
            if token is None:
                while not later[place]:
                    place += 1
                continue
            if number in self._paths:
                paths.append(place)
            place += 1
        return paths


def expand_flags(argv: Sequence[str]) -> list[str]:
    """Arguments of one dash and several letters as one flag each, so that ``-lR`` is what ``-l -R`` is."""
    expanded = list(argv[:1])
    for argument in argv[1:]:
        if _FLAGS.match(argument):
            expanded += [f"-{letter}" for letter in argument[1:]]
        else:
            expanded.append(argument)
    return expanded


def _tokens(pattern: str | Sequence[str]) -> list[str]:
    try:
        tokens = split(pattern) if isinstance(pattern, str) else list(pattern)
    except ValueError:
        raise ValueError(f'command pattern "{pattern}" leaves a quotation open; close it') from None
    if not tokens or not tokens[0]:
        raise ValueError(f'command pattern "{pattern}" names no program; write one, as in "git status ..."')
    if tokens.count(_ELLIPSIS) > _MOST_ELLIPSES:
        raise ValueError(f'command pattern "{pattern}" has more than {_MOST_ELLIPSES} "..."; use fewer')
    return tokens


def _judge(token: str, pattern: str | Sequence[str]) -> Judge:
    """What one argument must be."""
    if token == "{int}":
        return lambda argument: _INT.match(argument) is not None
    if token == "{word}":
        return lambda argument: _WORD.match(argument) is not None
    if token == "{path}":
        return lambda argument: argument != "" and not argument.startswith("-")
    if _PLACEHOLDER.match(token):
        raise ValueError(f'command pattern "{pattern}" has "{token}"; expected {{int}}, {{word}} or {{path}}')
    if not has_glob(token):
        return lambda argument: argument == token
    matches = compile_glob(token).match
    # What a wildcard may not smuggle in, unless the pattern shows it.
    hidden = [part for part in ("/", "..") if part not in token]
    dash = token.startswith("-")
    return lambda argument: (
        matches(argument) is not None
        and not any(part in argument for part in hidden)
        and (dash or not argument.startswith("-"))
    )
