"""The arguments of a custom command: what is declared, and JSON values made to fit it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..messages import Refusal, quoted


class _Declared(NamedTuple):
    name: str
    type: str
    required: bool
    default: str | None
    description: str


class CommandArg(_Declared):
    """One argument. `type` is ``string``, ``integer``, ``float``, ``boolean`` or ``string_array``; defaults are text.

    Raises `ValueError` for a type that there is not, or a default of a ``string_array`` that is no JSON list of texts.
    """

    __slots__ = ()

    def __new__(
        cls,
        name: str,
        type: str = "string",
        required: bool = False,
        default: str | None = None,
        description: str = "",
    ) -> CommandArg:
        if type not in _CONVERTERS:
            raise ValueError(f"argument {name!r}: type {type!r} is none of {', '.join(_CONVERTERS)}")
        if type == "string_array" and default is not None:
            try:
                _texts(json.loads(default))
            except ValueError:
                raise ValueError(f"argument {name!r}: the default must be a JSON list of texts") from None
        return super().__new__(cls, name, type, required, default, description)


def coerce(arguments: Sequence[CommandArg], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values to call a command with. Raises `Refusal`: unknown names first, then each argument in turn."""
    known = {argument.name for argument in arguments}
    for name in given:
        if name not in known:
            expected = ", ".join(sorted(known)) or "none"
            raise Refusal(
                "invalid_argument", f"unexpected argument {quoted(name, 64)}; the command takes: {expected}", field=name
            )
    values: dict[str, Any] = {}
    for argument in arguments:
        if argument.name in given:
            values[argument.name] = _converted(argument, given[argument.name])
        elif argument.required:
            raise Refusal("invalid_argument", f'argument "{argument.name}" is required', field=argument.name)
        elif argument.default is not None:
            values[argument.name] = _default(argument, argument.default)
    return values


def _converted(argument: CommandArg, value: Any) -> Any:
    convert, expected = _CONVERTERS[argument.type]
    try:
        return convert(value)
    except (ValueError, OverflowError):
        raise Refusal("wrong_type", f'argument "{argument.name}" must be {expected}', field=argument.name) from None


def _default(argument: CommandArg, text: str) -> Any:
    """The default as a value; as it stands where it cannot be one."""
    try:
        return _CONVERTERS[argument.type][0](json.loads(text) if argument.type == "string_array" else text)
    except (ValueError, OverflowError):
        return text


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    return int(value)


def _float(value: Any) -> float:
    if not isinstance(value, (int, float, str)):
        raise ValueError
    return float(value)


def _boolean(value: Any) -> bool:
    text = str(value).lower()
    if text in ("true", "yes", "1"):
        return True
    if text in ("false", "no", "0"):
        return False
    raise ValueError


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError
    return value


_CONVERTERS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "string": (str, "text"),
    "integer": (_integer, "a whole number"),
    "float": (_float, "a number"),
    "boolean": (_boolean, "true or false, yes or no, 1 or 0"),
    "string_array": (_texts, "a list of texts"),
}
