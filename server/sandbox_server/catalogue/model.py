"""Endpoints and their fields as data. From these derive routing, binding, guarding, policy, discovery and docs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from ..messages import JSON_TYPE

Kind = Literal[
    "text",  # a string
    "int",  # JSON number or numeric text
    "number",  # seconds and the like; JSON number or numeric text
    "bool",  # JSON truthiness, but for text that says no; true/yes/1 in a query
    "base64",  # strict base64 text -> bytes
    "object",  # a JSON object, unlooked at
    "path",  # goes through the path guard with the field's op -> Location
    "paths",  # a list of those
    "command",  # split like a POSIX shell line, then the command guard -> Command
    "env",  # a map of variables, then the environment guard -> dict
    "url",  # goes through the URL guard
]
Place = Literal["path", "query", "body", "whole"]  # whole: the JSON object of the body itself
Op = Literal["read", "write", "delete", "exec"]
LimitKind = Literal["size", "int", "number"]

REQUIRED: Any = ...
#: The kinds that a guard sees, and in which order: the same bad request always gets the same refusal.
_GUARD_ORDER: Mapping[Kind, int] = {"env": 0, "command": 1, "url": 1, "path": 2, "paths": 2, "base64": 3}


class Field(NamedTuple):
    """One argument of an endpoint. Its kind says how it is parsed *and* which guard sees it."""

    name: str
    kind: Kind
    place: Place
    doc: str
    default: Any = REQUIRED
    op: Op | None = None  # path kinds only
    follow: bool | str = True  # follow a link in the last component; or the name of the bool field that says
    lenient: bool = False  # malformed means the default (contract: max_entries, timeout)

    @property
    def required(self) -> bool:
        return self.default is REQUIRED


class Step(NamedTuple):
    """A further route of an endpoint: what is begun there goes on here, under the same rule, scopes and limits."""

    name: str
    method: str
    path: str
    fields: tuple[Field, ...] = ()
    raw_types: tuple[str, ...] = ()


class _Declared(NamedTuple):
    id: str
    method: str
    path: str
    group: str
    summary: str
    scopes: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    limits: Mapping[str, float | int | None] = MappingProxyType({})
    params: tuple[str, ...] = ()
    executes_code: bool = False
    streaming: bool = False
    public: bool = False  # answered without authentication
    virtual: bool = False  # no HTTP exchange: a GET that becomes a WebSocket
    raw_types: tuple[str, ...] = ()  # media types of a body that is the payload itself
    inline: bool = False  # small enough to be answered on the selector thread
    takes_paths: bool = False  # has path rules although no field carries a path (kernel-enforced ones)
    steps: tuple[Step, ...] = ()
    step: str = ""  # of which this is the route
    judges_paths: bool = False  # has path rules because its handler asks the path guard by itself
    answers: tuple[str, ...] = (JSON_TYPE,)  # media types of what it answers, for the OpenAPI document
    also: tuple[int, ...] = ()  # statuses of success beside 200


class Endpoint(_Declared):
    """One thing the server can do.

    `limits` maps each limit that applies to its default; None means unlimited. A body of one of the `raw_types` is the
    payload itself, and the body fields move to the query string.
    """

    @cached_property
    def guarded(self) -> tuple[Field, ...]:
        """The fields that a guard sees, in order."""
        seen = (each for each in self.fields if each.kind in _GUARD_ORDER)
        return tuple(sorted(seen, key=lambda each: _GUARD_ORDER[each.kind]))

    @property
    def route(self) -> str:
        """What its handler is known by."""
        return f"{self.id}.{self.step}" if self.step else self.id

    @property
    def routes(self) -> tuple[Endpoint, ...]:
        """Itself, and itself at each of its further routes."""
        return (self, *(
            self._replace(method=step.method, path=step.path, fields=step.fields, raw_types=step.raw_types,
                          inline=False, steps=(), step=step.name)
            for step in self.steps
        ))  # fmt: skip

    @property
    def path_fields(self) -> tuple[Field, ...]:
        return tuple(f for f in self.fields if f.kind in ("path", "paths"))

    @property
    def path_bearing(self) -> bool:
        return self.takes_paths or self.judges_paths or bool(self.path_fields)

    @property
    def default_op(self) -> Op | None:
        return next((f.op for f in self.path_fields), None)

    @property
    def ops(self) -> frozenset[str]:
        return frozenset(f.op for f in self.path_fields if f.op)

    @property
    def core(self) -> bool:
        return self.group == "core"

    @property
    def opt_in(self) -> bool:
        return self.group in OPT_IN_GROUPS


#: limit -> (kind, meaning). The first three hold for every endpoint.
LIMITS: dict[str, tuple[LimitKind, str]] = {
    "max_request_bytes": ("size", "declared length of the request body"),
    "rate_per_minute": ("int", "requests per identity and endpoint, a token bucket"),
    "max_concurrency": ("int", "requests in flight per identity and endpoint"),
    "max_bytes": ("size", "payload: decoded upload, file or archive"),
    "max_output_bytes": ("size", "output kept or sent"),
    "max_entries": ("int", "entries per listing"),
    "max_depth": ("int", "directory levels"),
    "max_results": ("int", "search hits"),
    "max_files": ("int", "members of an archive"),
    "max_processes": ("int", "live background processes of the whole server, at most 100"),
    "max_sessions": ("int", "live terminals, or code contexts, of the whole server; at most 10 each"),
    "idle_seconds": ("number", "seconds without use after which a terminal or code context is closed"),
    "timeout_seconds": ("number", "upper bound for the caller's timeout, in seconds"),
    "max_duration_seconds": ("number", "longest stream, in seconds"),
}
COMMON_LIMITS: dict[str, float | int | None] = {
    "max_request_bytes": 10 << 20,
    "rate_per_minute": None,
    "max_concurrency": None,
}

ParamKind = Literal["bool", "strings", "ints"]


class Param(NamedTuple):
    kind: ParamKind
    union: bool  # lists of several layers are united instead of replaced
    doc: str


PARAMS: dict[str, Param] = {
    "overwrite": Param("bool", False, "false: an existing target is refused with 409"),
    "allow_extensions": Param("strings", False, "last suffix with its dot, lower case; others are refused"),
    "deny_extensions": Param("strings", True, "same comparison; wins"),
    "allow_commands": Param("strings", False, "command patterns; others are refused"),
    "deny_commands": Param("strings", True, "command patterns; win"),
    "allowed_signals": Param("ints", False, "narrows 2, 9, 15, 18, 20"),
    "shells": Param("strings", False, "narrows the list of shells"),
    "env_deny": Param("strings", True, "variable names a terminal may not set"),
    "allow_vars": Param("strings", False, "globs of variable names; empty means all"),
    "deny_vars": Param("strings", True, "globs of variable names; win"),
    "languages": Param("strings", False, "narrows python, node, bash"),
    "url_allow": Param("strings", False, "globs over the whole URL; empty means all"),
    "url_deny": Param("strings", True, "globs over the whole URL; win"),
    "block_private_networks": Param("bool", False, "resolve the name and refuse private addresses"),
}

GROUPS: tuple[str, ...] = (
    "core", "commands", "file_ops", "process", "terminal", "system", "dev_tools", "browser",
)  # fmt: skip
OPT_IN_GROUPS: tuple[str, ...] = ("dev_tools", "browser")


class Catalogue(Mapping[str, Endpoint]):
    """All endpoints by id; immutable."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._by_id: dict[str, Endpoint] = {}
        self._fixed: dict[str, dict[str, Endpoint]] = {}  # path -> method -> endpoint
        self._patterns: list[tuple[re.Pattern[str], dict[str, Endpoint]]] = []
        shapes: dict[str, dict[str, Endpoint]] = {}
        for endpoint in endpoints:
            if endpoint.id in self._by_id:
                raise ValueError(f"endpoint id {endpoint.id!r} is declared twice")
            self._by_id[endpoint.id] = endpoint
            if endpoint.virtual:
                shapes.setdefault(endpoint.path, {})["GET"] = endpoint  # a WebSocket begins as one
                continue
            for route in endpoint.routes:
                methods = shapes.setdefault(route.path, {})
                if route.method in methods:
                    raise ValueError(f"{route.method} {route.path} is declared twice")
                methods[route.method] = route
        for path, methods in shapes.items():
            if "{" in path:
                pattern = "".join(
                    f"(?P<{part[1:-1]}>[^/]+)" if part.startswith("{") else re.escape(part)
                    for part in re.split(r"(\{\w+\})", path)
                )
                self._patterns.append((re.compile(pattern + r"\Z"), methods))
            else:
                self._fixed[path] = methods

    def __getitem__(self, endpoint_id: str) -> Endpoint:
        return self._by_id[endpoint_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, path: str) -> tuple[dict[str, Endpoint], dict[str, str]]:
        """The endpoints at a raw request path by method, and the values of its ``{names}``.

        Trailing slashes are ignored; nothing is percent-decoded, so each endpoint has one spelling.
        """
        trimmed = path.rstrip("/") or "/"
        if fixed := self._fixed.get(trimmed):
            return fixed, {}
        for pattern, methods in self._patterns:
            if match := pattern.match(trimmed):
                return methods, match.groupdict()
        return {}, {}
