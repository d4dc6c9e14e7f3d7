"""Notes which of the client's methods the scenario has called, so that none is forgotten."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

PACKAGE = "agent_sandbox"


class Watched:
    """Stands before an object of the client and notes every call; makes it through the blocking twin if asked to."""

    def __init__(self, target: Any, prefix: str, called: set[str], *, twins: bool) -> None:
        self._target = target
        self._prefix = prefix
        self._called = called
        self._twins = twins

    def beside(self, target: Any, prefix: str) -> Watched:
        """Another object whose calls are noted in the same place."""
        return Watched(target, prefix, self._called, twins=self._twins)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if is_part(found, PACKAGE):
            return self.beside(found, f"{self._prefix}{name}.")
        if not callable(found):
            return found
        twin = getattr(self._target, f"{name}_sync", None) if self._twins else None

        def call(*arguments: Any, **options: Any) -> Any:
            if twin is None:
                self._called.add(f"{self._prefix}{name}")
                return found(*arguments, **options)
            self._called.add(f"{self._prefix}{name}_sync")
            return asyncio.to_thread(twin, *arguments, **options)

        return call


def is_part(value: object, package: str) -> bool:
    """Whether it is an object of the client that has methods of its own, such as ``client.files``."""
    return type(value).__module__.startswith(package) and not callable(value)


def surface(target: Any, prefix: str = "", *, package: str = PACKAGE) -> set[str]:
    """Every public method of an object or class, and of the parts that an object is made of."""
    found = set()
    for name in dir(target):
        if name.startswith("_"):
            continue
        value = getattr(target, name)
        if inspect.isclass(target) or not is_part(value, package):
            found |= {f"{prefix}{name}"} if callable(value) else set()
        else:
            found |= surface(value, f"{prefix}{name}.", package=package)
    return found


async def refusal(work: Any) -> list[object]:
    """The error that something raises, as far as callers look at it."""
    try:
        await work
    except Exception as error:
        return [type(error).__name__, getattr(error, "status_code", None), getattr(error, "error_code", None)]
    return ["not refused"]
