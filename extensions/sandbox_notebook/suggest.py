"""What could come next in a line, read from the declarations; knows no front end."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .args import BLANKS, UnclosedQuote, Word, quote, split
from .grammar import Command, Offers, Option
from .vocabulary import commands

Source = Callable[[Offers, str, str], Iterable[str]]
"""What there is of a kind (`Offers`), given the word so far and the sandbox named by ``--in``."""


@dataclass(frozen=True, slots=True)
class Suggestions:
    """Words that may stand in place of ``fragment``, the end of the line as typed so far."""

    fragment: str
    words: tuple[str, ...] = ()
    foreign: bool = False
    """What stands here is a program's, or code: others may know words for it."""


def suggest(line: str, source: Source, *, cell: bool = False) -> Suggestions:
    """``line`` is everything between ``%sandbox`` and the cursor."""
    before, current = _words(line)
    fragment = line[current.start :]
    known = commands()
    if not before:
        names = [command.name for command in known.values() if command.cell or not cell]
        return _matching(fragment, current.text, names)
    command = known.get(before[0].text)
    if command is None:
        return Suggestions(fragment)
    state = _read(command, before[1:])
    if state is None:
        return Suggestions(fragment, foreign=True)
    option, place, used, sandbox = state

    def values(option: Option, typed: str) -> Suggestions:
        if option.kind == "pair" and "=" not in typed:
            return Suggestions(fragment)  # its first half is a new name
        *done, last = typed.split("=", 1) if option.kind == "pair" else typed.split(",") if option.many else [typed]
        offered = [*option.choices, *option.suggestions, *source(option.offers, last, sandbox)]
        return _matching(fragment[len(fragment) - len(last) :] if done else fragment, last, offered)

    if option is not None:
        return values(option, current.text)
    if current.text.startswith("-") and not current.quoted:
        name, equals, typed = current.text.partition("=")
        attached = command.option(name) if equals else None
        if attached is not None:
            found = values(attached, typed)
            return Suggestions(typed if found.fragment == fragment else found.fragment, found.words)
        names = [o.name for o in command.options if o.many or o.key not in used]
        return _matching(fragment, current.text, names)
    if command.verbatim or place >= len(command.arguments):
        return Suggestions(fragment, foreign=command.verbatim)
    argument = command.arguments[place]
    offered = [*argument.choices, *argument.suggestions, *source(argument.offers, current.text, sandbox)]
    return _matching(fragment, current.text, offered)


def _words(line: str) -> tuple[list[Word], Word]:
    """The finished words, and the one that the cursor is in (possibly empty, possibly with an open quote)."""
    try:
        words = split(line)
    except UnclosedQuote as error:
        return error.words, error.open_word
    if words and line[-1] not in BLANKS:
        return words[:-1], words[-1]
    return words, Word("", len(line), len(line))


def _read(command: Command, words: list[Word]) -> tuple[Option | None, int, set[str], str] | None:
    """The option whose value comes next, the place among the arguments, the options used, and ``--in``."""
    pending: Option | None = None
    place, used, sandbox = 0, set[str](), ""
    for word in words:
        if pending is not None:
            sandbox = word.text if pending.name == "--in" else sandbox
            pending = None
        elif word.text.startswith("-") and not word.quoted:
            name, equals, value = word.text.partition("=")
            option = command.option(name)
            if option is not None:
                used.add(option.key)
                sandbox = value if equals and option.name == "--in" else sandbox
                pending = option if option.value and not equals else None
        elif command.verbatim:
            return None
        elif place < len(command.arguments) and not command.arguments[place].many:
            place += 1
    return pending, place, used, sandbox


def _matching(fragment: str, typed: str, offered: Iterable[str]) -> Suggestions:
    return Suggestions(fragment, tuple(quote(word) for word in dict.fromkeys(offered) if word.startswith(typed)))
