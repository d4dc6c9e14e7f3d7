"""Commands: which program a caller's words start, and whether the rules let it run with these arguments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from ..messages import Refusal, quoted
from .encoding import encodable
from .path_guard import PathGuard
from .patterns import CommandPattern, expand_flags
from .programs import Program, SearchPath
from .words import split

MOST_ARGUMENTS = 256
LONGEST_ARGUMENT = 4096
_LONGEST_LINE = 2 * MOST_ARGUMENTS * LONGEST_ARGUMENT  # every character quoted


class Command(NamedTuple):
    """What will run: exactly these arguments, by the file `program`."""

    argv: tuple[str, ...]
    program: str  # absolute, links resolved; "" when there is no such program
    text: str  # as the caller sent it


def split_command(raw: object) -> tuple[str, ...]:
    """The words of a command line."""
    if not isinstance(raw, str) or not raw:
        raise Refusal("invalid_argument", "command must be text that is not empty")
    if len(raw) > _LONGEST_LINE:
        raise Refusal("command_invalid", f"the command line is longer than {_LONGEST_LINE} characters; use a file")
    try:
        words = tuple(split(raw))
    except ValueError:
        raise Refusal("command_invalid", "the command line leaves a quotation or an escape open; close it") from None
    if not words or not words[0]:
        raise Refusal("process_invalid", "the command names no program; write one first")
    _judge_shape(words)
    return words


class CommandGuard:
    """Judges commands by one pair of lists. Deny wins; an empty allow list allows what is not denied."""

    def __init__(
        self, allow: Sequence[str | Sequence[str]], deny: Sequence[str | Sequence[str]], path: Sequence[str]
    ) -> None:
        """`path` is the fixed list of directories where names are looked up. A malformed pattern is a `ValueError`."""
        self._search = SearchPath(path)
        self._allow = [CommandPattern(pattern, self._search) for pattern in allow]
        self._deny = [CommandPattern(pattern, self._search) for pattern in deny]

    def admit(self, argv: Sequence[str], text: str, paths: PathGuard | None, *, cwd: str = "") -> Command:
        """The command to run. Relative programs and ``{path}`` arguments start at `cwd`, itself below the first root.

        `cwd` need not be judged yet: it only says where words begin, and what they lead to is judged here.
        """
        _judge_shape(argv)
        directory = os.path.join(paths.base if paths is not None else "/", cwd)
        program = self._search.program(argv[0], directory)
        if program.forbidden:
            raise Refusal("process_denied", f"{quoted(argv[0])} lies in /proc, /sys or /dev; use an installed program")
        if self._deny or self._allow:
            argv = self._judged(argv, program, paths, directory)
        return Command(tuple(argv), program.file, text)

    def _judged(self, argv: Sequence[str], program: Program, paths: PathGuard | None, directory: str) -> Sequence[str]:
        forms = (list(argv), expand_flags(argv))
        for pattern in self._deny:
            named = pattern.program is None or pattern.program.denies(program)
            if named and any(pattern.fit(form[1:]) is not None for form in forms):
                raise _not_allowed(argv[0])
        return self._allowed(program, forms, paths, directory) if self._allow else argv

    def _allowed(
        self, program: Program, forms: tuple[list[str], list[str]], paths: PathGuard | None, directory: str
    ) -> list[str]:
        """The arguments as the first fitting pattern means them, or the refusal of the first that nearly fits."""
        refusal: Refusal | None = None
        for pattern in self._allow:
            word = program.word if pattern.program is None else pattern.program.allows(program)
            if word is None:
                continue
            fitting = _fitting(pattern, *forms)
            if fitting is None:
                continue
            arguments, places = fitting
            try:
                judged = [_judge_path(arguments[place], paths, directory) for place in places]
            except Refusal as error:
                refusal = refusal or error
                continue
            for place, path in zip(places, judged, strict=True):
                arguments[place] = path
            return [word, *arguments]
        raise refusal or _not_allowed(program.word)


def _fitting(pattern: CommandPattern, argv: list[str], expanded: list[str]) -> tuple[list[str], list[int]] | None:
    """The form of the arguments that was judged is the one that runs."""
    as_sent = pattern.fit(argv[1:])
    if as_sent is not None and (pattern.has_paths or pattern.fit(expanded[1:]) is not None):
        return argv[1:], as_sent
    if not pattern.has_paths and pattern.fit(expanded[1:]) is not None:
        return expanded[1:], []
    return None


def _judge_path(argument: str, paths: PathGuard | None, directory: str) -> str:
    if paths is None:
        raise _not_allowed(argument)
    with paths.locate(os.path.join(directory, argument), "exec") as location:
        return location.path


def _judge_shape(argv: Sequence[str]) -> None:
    if not argv or not argv[0]:
        raise Refusal("command_invalid", "the command names no program; write one first")
    if len(argv) > MOST_ARGUMENTS:
        raise Refusal("command_invalid", f"the command has more than {MOST_ARGUMENTS} words; use a file")
    for word in argv:
        if len(word) > LONGEST_ARGUMENT or "\0" in word or not encodable(word):
            raise Refusal("command_invalid", f"a word has at most {LONGEST_ARGUMENT} characters and no NUL; use a file")


def _not_allowed(word: str) -> Refusal:
    return Refusal("command_not_allowed", f"the command rules do not allow {quoted(word)} with these arguments")
