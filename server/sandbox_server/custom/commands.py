"""Commands of the operator's own: Python functions that callers may run by name.

A registry is made by whoever sets up the server and handed to it. A module that is loaded by name may instead mark its
functions with `command`; the loader collects them. Nothing is registered anywhere by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from .coercion import CommandArg

F = TypeVar("F", bound=Callable[..., Any])

#: A parameter of this name gets the `CommandCall`, and is no argument of the command.
CALL_PARAMETER = "call"
MARK = "__sandbox_command__"
_NAME = re.compile(r"[^/\x00-\x1f\x7f]{1,128}")
_TYPES = {
    int: "integer", float: "float", bool: "boolean", list[str]: "string_array",
    "int": "integer", "float": "float", "bool": "boolean", "list[str]": "string_array", "List[str]": "string_array",
}  # fmt: skip


class RegisteredCommand(NamedTuple):
    """One command. A `hidden` one is not listed, but can be run; `scopes` are needed beside the endpoint's."""

    name: str
    function: Callable[..., Any]
    args: tuple[CommandArg, ...] = ()
    description: str = ""
    hidden: bool = False
    scopes: tuple[str, ...] = ()

    @property
    def takes_call(self) -> bool:
        import inspect  # most servers have no commands of their own

        return CALL_PARAMETER in inspect.signature(self.function).parameters


class CommandRegistry:
    """The commands of one server, in the order of registration; frozen once it serves."""

    def __init__(self) -> None:
        self._commands: dict[str, RegisteredCommand] = {}
        self._frozen = False

    def register(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        args: Sequence[CommandArg] = (),
        description: str = "",
        hidden: bool = False,
        scopes: Sequence[str] = (),
    ) -> RegisteredCommand:
        """Add one; a later one of the same name takes its place. Raises `RuntimeError` while a server uses this."""
        return self.add(_made(name, function, args, description, hidden, scopes))

    def command(
        self,
        name: str | None = None,
        *,
        hidden: bool = False,
        description: str = "",
        scopes: Sequence[str] = (),
        args: Sequence[CommandArg] | None = None,
    ) -> Callable[[F], F]:
        """Decorator: register a function. Without `args` they are read from its signature."""

        def register(function: F) -> F:
            self.add(_declared(function, name, args, description, hidden, scopes))
            return function

        return register

    def add(self, command: RegisteredCommand) -> RegisteredCommand:
        if self._frozen:
            raise RuntimeError("a server uses this registry; register commands before it starts")
        self._commands[command.name] = command
        return command

    def freeze(self) -> None:
        self._frozen = True

    def get(self, name: str) -> RegisteredCommand | None:
        return self._commands.get(name)

    def __iter__(self) -> Iterator[RegisteredCommand]:
        return iter(self._commands.values())

    def __len__(self) -> int:
        return len(self._commands)


def command(
    name: str | None = None,
    *,
    hidden: bool = False,
    description: str = "",
    scopes: Sequence[str] = (),
    args: Sequence[CommandArg] | None = None,
) -> Callable[[F], F]:
    """Decorator: mark a function of a module that ``--commands`` names. It stays a plain function."""

    def mark(function: F) -> F:
        setattr(function, MARK, _declared(function, name, args, description, hidden, scopes))
        return function

    return mark


def _declared(
    function: Callable[..., Any],
    name: str | None,
    args: Sequence[CommandArg] | None,
    description: str,
    hidden: bool,
    scopes: Sequence[str],
) -> RegisteredCommand:
    declared = arguments_of(function) if args is None else args
    return _made(name or function.__name__, function, declared, description, hidden, scopes)


def _made(
    name: str,
    function: Callable[..., Any],
    args: Sequence[CommandArg],
    description: str,
    hidden: bool,
    scopes: Sequence[str],
) -> RegisteredCommand:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a command; use 1 to 128 printable characters without '/'")
    if isinstance(scopes, str):
        raise ValueError(f"command {name!r}: scopes are a list of texts, not one text")
    return RegisteredCommand(name, function, tuple(args), description, hidden, tuple(scopes))


def arguments_of(function: Callable[..., Any]) -> tuple[CommandArg, ...]:
    """The arguments that a signature declares."""
    found = []
    import inspect

    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == CALL_PARAMETER or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        kind = _TYPES.get(parameter.annotation, "string")
        required = parameter.default is parameter.empty
        default = None if required or parameter.default is None else _as_text(kind, parameter.default)
        found.append(CommandArg(parameter.name, kind, required, default))
    return tuple(found)


def _as_text(kind: str, value: Any) -> str:
    return json.dumps(value) if kind == "string_array" else str(value)
