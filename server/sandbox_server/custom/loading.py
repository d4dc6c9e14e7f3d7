"""The modules that ``--commands`` names: imported, and what they declare collected."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

from ..messages import quoted
from .commands import MARK as COMMAND
from .commands import CommandRegistry, RegisteredCommand
from .routes import MARK as ROUTE
from .routes import Route


class LoadError(ValueError):
    """A module of custom commands cannot be used; the text says which and why."""


def load(names: Sequence[str]) -> tuple[CommandRegistry, tuple[Route, ...]]:
    """The commands and routes of some files or modules, the same file once.

    Of each module: the commands of every `CommandRegistry` in it, and what `command` and `route` have marked. The
    directory of a file joins the import path. Raises `LoadError`.
    """
    registry, routes = CommandRegistry(), []
    loaded: dict[str, None] = {}
    for name in names:
        key = os.path.normpath(os.path.abspath(name)) if _is_file(name) else name
        if key in loaded:
            continue
        loaded[key] = None
        for value in list(vars(_module(name)).values()):
            if isinstance(value, CommandRegistry):
                for command in value:
                    registry.add(command)
            if isinstance(marked := getattr(value, COMMAND, None), RegisteredCommand):
                registry.add(marked)
            if isinstance(route := getattr(value, ROUTE, None), Route) and route not in routes:
                routes.append(route)
    return registry, tuple(routes)


def _is_file(name: str) -> bool:
    return name.endswith(".py") or "/" in name


def _module(name: str) -> ModuleType:
    try:
        return _from_file(name) if _is_file(name) else importlib.import_module(name)
    except LoadError:
        raise
    except Exception as error:  # whatever a module of theirs may raise
        raise LoadError(f"commands {quoted(name)} cannot be loaded: {_why(name, error)}") from error


def _why(name: str, error: Exception) -> str:
    """In words where it is the file or module itself that is not there; else what its code has raised."""
    if isinstance(error, OSError) and error.errno and error.filename == os.path.abspath(name):
        return os.strerror(error.errno).lower()
    if isinstance(error, ModuleNotFoundError) and error.name == name:
        return "there is no such module; a file is named with its .py"
    return f"{type(error).__name__}: {error}"


def _from_file(path: str) -> ModuleType:
    path = os.path.abspath(path)
    name = "sandbox_commands_" + "".join(c if c.isalnum() else "_" for c in path)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"commands {quoted(path)}: this is no Python file; name one that ends in .py, or a module")
    directory = os.path.dirname(path)
    if directory not in sys.path:
        sys.path.insert(0, directory)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
