"""Handlers whose modules are imported when they are first asked for: a server starts without what nobody needs yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any

from ..call import Call
from ..messages import Response


class Later:
    """The function `name` of the module `module` beside this one, to be called like it."""

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self._name = name

    @cached_property
    def function(self) -> Callable[..., Response]:
        found: Callable[..., Response] = getattr(import_module(f".{self._module}", __package__), self._name)
        return found

    def __call__(self, call: Call, **values: Any) -> Response:
        return self.function(call, **values)


def later(module: str, *names: str) -> Mapping[str, Later]:
    """Handlers of one module that are called as their endpoints are."""
    return {name: Later(module, name) for name in names}
