"""Shell-style patterns as regular expressions whose cost is bounded, and the deny rules of paths made of them.

Python's engine backtracks, so ``*a*a*a*b`` written naively costs a power of the path's length. Here a pattern is cut
at its stars. Each piece matches text of one known length, and taking the *first* place where a piece fits is always
right, because what follows a star can only gain from more room. One pass finds the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count

from .parts import is_part, names_a_part

_ALWAYS = ("/proc", "/sys", "/dev")  # never reachable by path, whatever a policy allows


def has_glob(text: str) -> bool:
    return any(character in text for character in "*?[")


def compile_glob(pattern: str) -> re.Pattern[str]:
    """A whole-text matcher: ``*`` and ``?`` take any character, ``[...]`` is a class, nothing is an escape."""
    return re.compile(_joined(_pieces(pattern, "."), ".", count()) + r"\Z", re.DOTALL)


class DenyRules:
    """The deny patterns of one rule, and those that always hold."""

    __slots__ = ("_names", "_runs", "configured", "whole_paths")

    def __init__(self, patterns: Sequence[str]) -> None:
        names: list[str] = []
        groups = count()
        self._runs: list[Callable[[str], bool]] = []
        for pattern in patterns:
            text = pattern.rstrip("/")
            if text.startswith("**/"):
                text = text[3:]
            if "/" in text:
                self._runs.append(_run_of_components(text))
            elif text:
                names.append(_joined(_pieces(text, "[^/]"), "[^/]", groups))
        self._names = re.compile(f"/(?=[^/])(?:{'|'.join(names)})(?=/|\\Z)", re.DOTALL).search if names else None
        self.configured = bool(names or self._runs)
        self.whole_paths = bool(self._runs)  # some pattern looks at more than one component

    def denies(self, path: str) -> bool:
        """Whether an absolute, normalised path is out of reach."""
        if path.startswith(_ALWAYS) and any(path == top or path.startswith(top + "/") for top in _ALWAYS):
            return True
        return names_a_part(path) or (self.configured and self.matches(path))

    def matches(self, path: str) -> bool:
        """Whether a configured pattern matches the path or one of its ancestors."""
        if self._names is not None and self._names(path) is not None:
            return True
        return any(matches(path) for matches in self._runs)

    def within(self, directory: str) -> Callable[[str], bool]:
        """`denies` for the names in one directory that is not denied itself."""
        if directory == "/":
            return lambda name: self.denies("/" + name)
        if not self.configured:
            return is_part
        matches = self.matches_within(directory)
        return lambda name: is_part(name) or matches(name)

    def matches_within(self, directory: str) -> Callable[[str], bool]:
        """`matches` for the names in one directory that does not match itself."""
        if self._runs:
            prefix = directory.rstrip("/") + "/"
            return lambda name: self.matches(prefix + name)
        names = self._names
        return (lambda name: False) if names is None else (lambda name: names("/" + name) is not None)


def _run_of_components(pattern: str) -> Callable[[str], bool]:
    """Match whole components in a row; from the very first one when the pattern begins with a slash."""
    head = r"\A" if pattern.startswith("/") else "(?<=/)"
    *pieces, last = _pieces(pattern, ".")
    last += r"(?=/|\Z)"
    searches = [re.compile(piece, re.DOTALL) for piece in (*pieces, last)]
    searches[0] = re.compile(head + searches[0].pattern, re.DOTALL)

    def matches(path: str) -> bool:
        place = 0
        for piece in searches:
            found = piece.search(path, place)
            if found is None:
                return False
            place = found.end()
        return True

    return matches


def _pieces(pattern: str, any_character: str) -> list[str]:
    """The regular expressions between the stars of a pattern; each matches text of one length."""
    pieces = [""]
    place = 0
    while place < len(pattern):
        character = pattern[place]
        place += 1
        if character == "*":
            pieces.append("")
        elif character == "?":
            pieces[-1] += any_character
        elif character == "[" and (end := _class_end(pattern, place)):
            pieces[-1] += _class(pattern[place:end], any_character)
            place = end + 1
        else:
            pieces[-1] += re.escape(character)
    # Stars in a row are one star.
    return [pieces[0], *(piece for piece in pieces[1:-1] if piece), *pieces[1:][-1:]]


def _class_end(pattern: str, start: int) -> int:
    """Where the class that opened before `start` closes; 0 when it does not, and the bracket is plain text."""
    first = start + 1 if pattern[start : start + 1] == "!" else start
    # A bracket right behind the opening one belongs to the class.
    return max(pattern.find("]", first + 1), 0)


def _class(body: str, any_character: str) -> str:
    negated = body.startswith("!")
    members = body[1:] if negated else body
    ranges = ""
    place = 0
    while place < len(members):
        low = high = members[place]
        if members[place + 1 : place + 2] == "-" and place + 2 < len(members):
            high = members[place + 2]
            place += 2
        place += 1
        if low <= high:  # a range that runs backwards holds nothing
            ranges += f"{re.escape(low)}-{re.escape(high)}"
    if not negated:
        return f"[{ranges}]" if ranges else "(?!)"
    # A class is one character, and no character of a component is a slash.
    return f"(?:(?![{ranges}]){any_character})" if ranges else any_character


def _joined(pieces: list[str], star: str, groups: Iterator[int]) -> str:
    """One expression for all pieces. A group in a look-ahead, repeated, is matched once and never tried again."""
    if len(pieces) == 1:
        return pieces[0]
    first, *middle, last = pieces
    for piece in middle:
        name = f"g{next(groups)}"
        first += f"(?=(?P<{name}>{star}*?{piece}))(?P={name})"
    return f"{first}{star}*{last}"
