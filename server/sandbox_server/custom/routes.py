"""Endpoints of the operator's own: declared with the same fields as ours, so the same guards run for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, get_args

from ..catalogue import GROUPS, LIMITS, PARAMS, Catalogue, Endpoint, builtin
from ..catalogue.model import Kind, Place
from ..messages import Response

F = TypeVar("F", bound=Callable[..., Response])

MARK = "__sandbox_route__"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~-]+|\{[a-z_]\w*\}))+")
_METHODS = ("GET", "POST", "PUT", "DELETE")


class Route:
    """An endpoint and the function that answers it: ``handler(call, *, name_of_a_field, …)``.

    Raises `ValueError` for a declaration that the server could not hold.
    """

    def __init__(self, endpoint: Endpoint, handler: Callable[..., Response]) -> None:
        for problem in _problems(endpoint, handler):
            raise ValueError(f"endpoint {endpoint.id!r}: {problem}")
        self.endpoint = endpoint
        self.handler = handler


def route(endpoint: Endpoint) -> Callable[[F], F]:
    """Decorator: mark a function of a module that ``--commands`` names. It stays a plain function."""

    def mark(function: F) -> F:
        setattr(function, MARK, Route(endpoint, function))
        return function

    return mark


def catalogue_with(routes: Iterable[Route]) -> Catalogue:
    """Every endpoint there is then. Raises `ValueError` for an id or a path that is taken."""
    catalogue = Catalogue([*builtin().values(), *(route.endpoint for route in routes)])
    spellings: dict[str, str] = {}
    for endpoint in catalogue.values():
        for one in endpoint.routes:
            shape = re.sub(r"\{\w+\}", "{}", one.path)
            if spellings.setdefault(shape, one.path) != one.path:
                raise ValueError(f"{one.path} and {spellings[shape]} are one path; name its parts alike")
    return catalogue


def _problems(endpoint: Endpoint, handler: Callable[..., Any]) -> Iterable[str]:
    if not _ID.fullmatch(endpoint.id):
        yield "an id is 1 to 64 letters, digits, '_' and '-'"
    if endpoint.group not in GROUPS or endpoint.group == "core":
        yield f"the group must be one of {', '.join(group for group in GROUPS if group != 'core')}"
    if endpoint.method not in _METHODS:
        yield f"the method must be one of {', '.join(_METHODS)}"
    if not _PATH.fullmatch(endpoint.path):
        yield f"{endpoint.path!r} is no path; write '/name/{{field}}'"
    if endpoint.public or endpoint.virtual or endpoint.inline:
        yield "public, virtual and inline are for the server's own endpoints"
    if unknown := sorted(set(endpoint.limits) - set(LIMITS)) + sorted(set(endpoint.params) - set(PARAMS)):
        yield f"there is no limit or parameter {unknown[0]!r}"
    if isinstance(endpoint.scopes, str) or isinstance(endpoint.params, str):
        yield "scopes and params are lists of texts"
    yield from _field_problems(endpoint)
    names = [field.name for field in endpoint.fields]
    import inspect  # most servers have no routes of their own

    taken = [p.name for p in inspect.signature(handler).parameters.values() if p.kind is p.KEYWORD_ONLY]
    if taken != names:
        yield f"the handler must take (call, *, {', '.join(names)}), one keyword for each field"


def _field_problems(endpoint: Endpoint) -> Iterable[str]:
    names = [field.name for field in endpoint.fields]
    if len(set(names)) < len(names):
        yield "two fields have the same name"
    if {field.name for field in endpoint.fields if field.place == "path"} != set(
        re.findall(r"\{(\w+)\}", endpoint.path)
    ):
        yield "the fields in the path, and only those, have the place 'path'"
    for field in endpoint.fields:
        if field.kind not in get_args(Kind) or field.place not in get_args(Place):
            yield f"field {field.name!r} has an unknown kind or place"
        if (field.op is not None) != (field.kind in ("path", "paths")):
            yield f"field {field.name!r}: an op belongs to paths, and each path needs one"
        if field.place in ("body", "whole") and endpoint.method not in ("POST", "PUT"):
            yield f"field {field.name!r} is in the body, which {endpoint.method} has not"
