"""Which file a program's name stands for: looked up once, in a fixed list of directories, through all links."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .globs import compile_glob, has_glob

_MOST_LINKS = 40
_FORBIDDEN = ("/proc/", "/sys/", "/dev/")


class Program(NamedTuple):
    """What the first word of a command means.

    `places` are the paths that lead from the word to the file: the one it spells or was found at, and each link's
    target in turn. Several commands may share one file and go by their name (busybox does), so the way counts.
    """

    word: str
    places: tuple[str, ...]
    file: str  # "" when there is none

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(_base(place) for place in self.places)

    @property
    def is_link(self) -> bool:
        return len(self.places) > 1

    @property
    def forbidden(self) -> bool:
        """Whether it lies where only the kernel's own files are."""
        real = os.path.dirname(self.file)  # what lies there too, is where it says
        elsewhere = [_canonical(place) for place in self.places if os.path.dirname(place) != real]
        return any((way + "/").startswith(_FORBIDDEN) for way in (*self.places, *elsewhere, self.file))


class SearchPath:
    """A fixed list of directories, so that no caller's PATH decides what a name means."""

    def __init__(self, directories: Sequence[str]) -> None:
        self.directories = tuple(directories)

    def file(self, name: str) -> str:
        """The file that a bare name stands for; "" when none."""
        found = self._find(name)
        return _real(found) if found else ""

    def program(self, word: str, directory: str) -> Program:
        """What a command's first word means when the command runs in a directory."""
        given = os.path.normpath(os.path.join(directory, word)) if "/" in word else self._find(word)
        if not given:
            return Program(word, (), "")
        file = _real(given)
        return Program(word, (given, *_way(given)), file if _mode(file) else "")

    def holds(self, program: Program) -> bool:
        """Whether the word names something in one of the directories, and not only a way that leads there."""
        found = os.path.dirname(_canonical(program.places[0]))
        return any(found == _real(directory) for directory in self.directories)

    def _find(self, name: str) -> str:
        for directory in self.directories:
            path = f"{directory}/{name}"
            if os.access(path, os.X_OK) and stat.S_ISREG(_mode(path)):
                return path
        return ""


class ProgramRule:
    """The first word of a command pattern. A base name means that name as the search path resolves it."""

    def __init__(self, text: str, search: SearchPath) -> None:
        self._text = text
        self._search = search
        self._is_path = "/" in text
        self._glob = compile_glob(_resolved_start(text) if self._is_path else text) if has_glob(text) else None

    def allows(self, program: Program) -> str | None:
        """The word to run it by; None when the rule means another program."""
        if not program.file:
            # Nothing will run. A bare name may still be told so, instead of being refused.
            return program.word if self._matches((program.word,)) and "/" not in program.word else None
        places = [_canonical(place) for place in program.places] if self._is_path else self._standing(program)
        matched = next((place for place in places if self._matches((place,))), None)
        if matched is not None:
            # A link that anybody may have made leads to the program, but its name and place mean nothing: a file of
            # many commands would become the one that the link is called, and Python look for its home beside the link.
            known = self._search.holds(program) or matched == _canonical(program.places[0])
            return program.word if known else matched
        # The very file, where the rule names a link to it: run under the allowed name, so one file of many commands
        # is still only the one that was allowed.
        return self._text if self._is_target(program) else None

    def denies(self, program: Program) -> bool:
        candidates = {program.word, _base(program.word), *program.places, *program.names}
        return self._matches(candidates.union(map(_canonical, program.places))) or self._is_target(program)

    def _matches(self, candidates: Iterable[str]) -> bool:
        if self._glob is not None:
            return any(map(self._glob.match, candidates))
        return (_canonical(self._text) if self._is_path else self._text) in candidates

    def _standing(self, program: Program) -> list[str]:
        return [name for name in program.names if self._search.file(name) == program.file]

    def _is_target(self, program: Program) -> bool:
        if self._glob is not None or program.is_link or not program.file:
            return False
        return program.file == (_real(self._text) if self._is_path else self._search.file(self._text))


def _way(path: str) -> list[str]:
    """Where the last component leads, link by link."""
    way: list[str] = []
    while len(way) < _MOST_LINKS:
        try:
            text = os.readlink(path)
        except OSError:
            break
        path = os.path.normpath(os.path.join(os.path.dirname(path), text))
        way.append(path)
    return way


def _real(path: str) -> str:
    """All links resolved, as far as we may look."""
    try:
        return os.path.realpath(path)
    except OSError:
        return path


def _canonical(path: str) -> str:
    """The path with its directory resolved, so that /bin/ls and /usr/bin/ls are one; the last component stays."""
    return os.path.join(_real(os.path.dirname(path)), _base(path))


def _resolved_start(pattern: str) -> str:
    start, _, _ = re.split(r"[*?[]", pattern, maxsplit=1)[0].rpartition("/")
    return _real(start or "/").rstrip("/") + pattern[len(start) :]


def _base(path: str) -> str:
    return path.rpartition("/")[2]


def _mode(path: str) -> int:
    """The file type and permissions; 0 when there is no such file."""
    try:
        return os.stat(path).st_mode
    except OSError:
        return 0
