"""Declarations of subcommands, and the one parser that reads a line by them.

Help, completion and parsing come from the same declarations, and nothing here knows IPython.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from .args import UnclosedQuote, Word, quote, split

Offers = Literal[
    "", "sandbox", "local", "remote", "endpoint", "process", "terminal", "command", "setting", "variable",
    "environment",
]  # fmt: skip
"""What completion offers for a value."""


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    help: str
    value: str = ""
    """Placeholder of its value; an option without one is a switch."""
    short: str = ""
    kind: Literal["text", "number", "count", "pair"] = "text"
    choices: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()
    """Values that completion offers beside ``offers``; others are fine."""
    many: bool = False
    offers: Offers = ""

    @property
    def key(self) -> str:
        return self.name[2:].replace("-", "_")

    @property
    def usage(self) -> str:
        return f"{self.name} {self.value}" if self.value else self.name


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    help: str
    optional: bool = False
    many: bool = False
    offers: Offers = ""
    choices: tuple[str, ...] = ()
    suggestions: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        shown = f"{self.name}…" if self.many else self.name
        return f"[{shown}]" if self.optional else shown


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    example: str
    options: tuple[Option, ...] = ()
    arguments: tuple[Argument, ...] = ()
    verbatim: bool = False
    """The first word that is no option and all after it are one command line of somebody else."""
    cell: bool = False
    """May head a cell (``%%sandbox``)."""
    details: str = ""

    def option(self, name: str) -> Option | None:
        return next((option for option in self.options if name in (option.name, option.short) and name), None)

    @property
    def usage(self) -> str:
        parts = [f"[{option.usage}]" for option in self.options] + [argument.usage for argument in self.arguments]
        return " ".join(["%sandbox", self.name, *parts])


class Mistake(Exception):
    """The caller wrote something we cannot do: what, and a line that can be typed instead.

    With ``line`` and ``column`` a caret is put under the place.
    """

    def __init__(self, message: str, hint: str = "", *, line: str = "", column: int = -1) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.line = line
        self.column = column


@dataclass(slots=True)
class Parsed:
    """The values of one line, by option key and argument name."""

    command: Command
    line: str
    values: dict[str, str | float | bool | list[str]] = field(default_factory=dict)
    rest: list[Word] = field(default_factory=list)
    verbatim: bool = False
    """The command line came after an explicit ``--``."""

    def text(self, key: str, default: str = "") -> str:
        value = self.values.get(key, default)
        return value if isinstance(value, str) else default

    def number(self, key: str) -> float | None:
        value = self.values.get(key)
        return value if isinstance(value, float) else None

    def count(self, key: str, default: int) -> int:
        value = self.number(key)
        return default if value is None else int(value)

    def flag(self, key: str) -> bool:
        return self.values.get(key) is True

    def many(self, key: str) -> list[str]:
        value = self.values.get(key)
        return value if isinstance(value, list) else []

    def pairs(self, key: str) -> dict[str, str]:
        return dict(pair.split("=", 1) for pair in self.many(key))


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that was probably meant, or nothing."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return found[0] if found else ""


def words_of(line: str) -> list[Word]:
    try:
        return split(line)
    except UnclosedQuote as error:
        word = line[error.open_word.start :].split()[0]
        hint = f"opened here; write {quote(word)} for the characters themselves"
        raise Mistake("no closing quote", hint, line=line, column=error.position) from None


def parse(command: Command, line: str, words: Sequence[Word]) -> Parsed:
    """Read the words after the subcommand."""
    return _Reading(command, line, list(words)).read()


class _Reading:
    def __init__(self, command: Command, line: str, words: list[Word]) -> None:
        self.command = command
        self.parsed = Parsed(command, line)
        self.words = words
        self.plain: list[Word] = []

    def read(self) -> Parsed:
        while self.words:
            word = self.words.pop(0)
            if word.text == "--" and not word.quoted:
                self.parsed.verbatim = True
                self.plain += self.words
                break
            if word.text.startswith("-") and len(word.text) > 1 and not word.quoted:
                self._option(word)
            elif word.text.startswith("#") and not word.quoted:
                raise self._mistake('"#" begins no comment here', "put it on a line of its own, or into quotes", word)
            elif self.command.verbatim:
                self.plain += [word, *self.words]
                break
            else:
                self.plain.append(word)
        if self.command.verbatim:
            self.parsed.rest = self.plain
        else:
            self._arguments()
        return self.parsed

    def _option(self, word: Word) -> None:
        name, equals, attached = word.text.partition("=")
        option = self.command.option(name)
        if option is None:
            short = self.command.option(word.text[:2])
            if short is not None and short.value and not word.text.startswith("--"):
                self._value(short, word.text[2:], word)  # -n5
                return
            if not self._cluster(word):
                self._unknown(name, word)
            return
        if not option.value:
            if equals:
                raise self._mistake(f'option "{name}" takes no value', f"%sandbox {self.command.name} {name}")
            self.parsed.values[option.key] = True
            return
        if not equals:
            if not self.words:
                raise self._mistake(f'option "{name}" needs a value', f"%sandbox {self.command.name} {option.usage}")
            word = self.words.pop(0)
            attached = word.text
        self._value(option, attached, word)

    def _cluster(self, word: Word) -> bool:
        """``-lR`` is ``-l -R`` when both are switches."""
        switches = [self.command.option(f"-{letter}") for letter in word.text[1:]]
        if word.text.startswith("--") or not all(option is not None and not option.value for option in switches):
            return False
        for option in switches:
            if option is not None:
                self.parsed.values[option.key] = True
        return True

    def _value(self, option: Option, value: str, word: Word) -> None:
        example = f"%sandbox {self.command.name} {option.usage}"
        if option.choices and value not in option.choices:
            near = nearest(value, option.choices)
            hint = f"%sandbox {self.command.name} {option.name} {near or option.choices[0]}"
            expected = ", ".join(option.choices)
            raise self._mistake(f'"{value}" is no value of "{option.name}", expected one of {expected}', hint)
        if option.kind in ("number", "count"):
            try:
                number = float(value)
            except ValueError:
                number = -1.0
            whole = option.kind == "count"
            if not 0 < number < float("inf") or (whole and number % 1):
                noun = "whole number" if whole else "number"
                raise self._mistake(f'"{value}" is no positive {noun} for "{option.name}"', example)
            self.parsed.values[option.key] = number
            return
        if option.kind == "pair" and not value.partition("=")[0] or option.kind == "pair" and "=" not in value:
            raise self._mistake(f'"{value}" is no pair for "{option.name}", expected {option.value}', example)
        if option.many:
            values = self.parsed.values.setdefault(option.key, [])
            if isinstance(values, list):
                values.append(value)
            return
        self.parsed.values[option.key] = value

    def _arguments(self) -> None:
        plain, arguments = list(self.plain), self.command.arguments
        for index, argument in enumerate(arguments):
            needed = sum(not later.optional for later in arguments[index + 1 :])
            if argument.many:
                self.parsed.values[argument.name] = [word.text for word in plain]
                taken, plain = plain, []
            elif argument.optional and len(plain) <= needed:
                continue
            else:
                taken, plain = plain[:1], plain[1:]
                if taken:
                    self._choice(argument, taken[0])
                    self.parsed.values[argument.name] = taken[0].text
            if not taken and not argument.optional:
                raise self._mistake(f"{argument.name} is missing: {argument.help}", self.command.example)
        if plain:
            raise self._mistake(f'"{plain[0].text}" is one argument too many', self.command.usage)

    def _choice(self, argument: Argument, word: Word) -> None:
        if argument.choices and word.text not in argument.choices:
            near = nearest(word.text, argument.choices) or argument.choices[0]
            expected = ", ".join(argument.choices)
            message = f'"{word.text}" is no {argument.name}, expected one of {expected}'
            raise self._mistake(message, f"%sandbox {self.command.name} {near}", word)

    def _unknown(self, name: str, word: Word) -> None:
        names = {option.name.lstrip("-"): option.name for option in self.command.options}  # dashes are alike in all
        near = nearest(name.lstrip("-"), names)
        if near:
            hint = f"did you mean {names[near]}?"
        elif self.command.verbatim:
            hint = f"%sandbox {self.command.name} -- {quote(word.text)} …  if it is part of the command"
        else:
            hint = f"%sandbox {self.command.name} --help"
        raise self._mistake(f'option "{name}" is unknown', hint, word)

    def _mistake(self, message: str, hint: str, word: Word | None = None) -> Mistake:
        return Mistake(message, hint, line=self.parsed.line, column=word.start if word else -1)
