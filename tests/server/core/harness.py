"""The pipeline without sockets: requests made of values, answers read to their end, audit lines at hand."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox_server import CommandRegistry, Route, ServerPolicy, Settings
from sandbox_server.access import Grant, Identity
from sandbox_server.arguments import bind
from sandbox_server.call import Call
from sandbox_server.catalogue import Endpoint, Field
from sandbox_server.confinement import Confinement
from sandbox_server.guards.environment import EnvGuard
from sandbox_server.guards.paths import PathGuards
from sandbox_server.guards.uploads import Uploads
from sandbox_server.machinery import Machinery
from sandbox_server.messages import Aborted, FileSlice, Headers, Refusal, Request, Response
from sandbox_server.process.table import ProcessTable
from sandbox_server.services import PROGRAM_PATH, Services
from sandbox_server.settings import bind_policy

JSON = ("Content-Type", "application/json")
OCTETS = ("Content-Type", "application/octet-stream")


class SentBody:
    """A body that is all there; `read` counts how often somebody wanted it."""

    def __init__(self, data: bytes = b"", *, length: int | None = None) -> None:
        self.data = data
        self.length = len(data) if length is None else length
        self.reads = 0

    def inform(self, status: int, phrase: str, fields: list[tuple[str, str]]) -> bool:
        return False

    def read(self) -> bytes:
        self.reads += 1
        return self.data

    def copy_to(self, descriptor: int) -> int:
        self.reads += 1
        return os.write(descriptor, self.data)

    def chunks(self) -> Iterator[bytes]:
        self.reads += 1
        yield self.data

    def break_off(self) -> None: ...


class VanishingBody(SentBody):
    """A peer that is gone as soon as anybody reads."""

    def read(self) -> bytes:
        raise Aborted

    def copy_to(self, descriptor: int) -> int:
        raise Aborted

    def chunks(self) -> Iterator[bytes]:
        raise Aborted


class NoPeer:
    def fileno(self) -> int:
        return -1

    def gone(self) -> bool:
        return False


def request(
    method: str,
    path: str,
    body: SentBody | Mapping[str, Any] | bytes | None = None,
    *headers: tuple[str, str],
    query: Iterable[tuple[str, str]] = (),
    id: str = "a" * 16,
) -> Request:
    if isinstance(body, Mapping):
        body = json.dumps(body).encode()
    sent = body if isinstance(body, SentBody) else SentBody(body or b"")
    return Request(method, path, tuple(query), Headers(headers), sent, NoPeer(), "127.0.0.1:1", id)


class Binder:
    """Binds the fields of an endpoint made for one test; what was opened is closed by `close`."""

    def __init__(self, base: Path, fields: Iterable[Field], **more: Any) -> None:
        self.base = base
        method = more.pop("method", "POST")
        self.endpoint = Endpoint("made_up", method, "/made/{id}", "file_ops", "", (), tuple(fields), **more)
        confinement = Confinement()
        self.services = Services(
            catalogue=None,  # type: ignore[arg-type]  # binding needs none
            rules=None,  # type: ignore[arg-type]
            path_guards=PathGuards(str(base)),
            environment=EnvGuard(frozenset({"HIDDEN"})),
            processes=ProcessTable(confinement.run),
            confinement=confinement,
            uploads=Uploads(),
            child_environment={},
            program_path=PROGRAM_PATH,
            isolation="none",
            implemented=frozenset(),
            has_tokens=False,
            secret_values=(),
            commands=CommandRegistry(),
        )
        self.calls: list[Call] = []

    def __call__(
        self,
        body: SentBody | Mapping[str, Any] | bytes | None = None,
        *headers: tuple[str, str],
        query: Iterable[tuple[str, str]] = (),
        in_path: Mapping[str, str] | None = None,
        limits: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        inline: bool = False,
    ) -> dict[str, Any]:
        grant = Grant(
            Identity("ann", frozenset({"*"})),
            self.endpoint,
            limits={"max_request_bytes": 1000, **(limits or {})},
            configured_limits=frozenset(limits or ()),
            params=params or {},
        )
        call = Call(
            request(self.endpoint.method, "/made/7", body, *headers, query=query), grant, self.services, inline=inline
        )
        self.calls.append(call)
        return bind(call, in_path or {})

    def refused(self, *given: Any, **more: Any) -> Refusal:
        """The refusal of what would have to be refused."""
        try:
            values = self(*given, **more)
        except Refusal as refusal:
            return refusal
        raise AssertionError(f"bound to {values}")

    def close(self) -> None:
        for call in self.calls:
            while call.deferred:
                call.deferred.pop()()
        self.services.path_guards.close()


@dataclass
class Answer:
    """One response, read and closed."""

    status: int
    headers: dict[str, str]
    body: bytes
    close_connection: bool = False

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str | None:
        return self.json.get("code")


def finish(response: Response) -> Answer:
    """What the socket side does with a response: send all of it, then close it."""
    body = response.body
    if isinstance(body, FileSlice):
        data = os.pread(body.descriptor, body.length, body.offset)
        os.close(body.descriptor)
    elif isinstance(body, bytes):
        data = body
    else:
        data = b"".join(body)
    response.close()
    return Answer(response.status, dict(response.headers), data, response.close_connection)


@dataclass
class House:
    """A whole server but for its sockets."""

    base: Path
    state: Path
    policy: Mapping[str, Any] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)
    allow_anonymous: bool = True
    commands: CommandRegistry = field(default_factory=CommandRegistry)
    routes: tuple[Route, ...] = ()

    def __post_init__(self) -> None:
        self.log = self.state / "audit.jsonl"
        settings = Settings(
            policy=ServerPolicy.from_dict(self.policy),
            environ=self.environ,
            base_dir=str(self.base),
            allow_anonymous=self.allow_anonymous,
            audit_file=str(self.log),
            commands=self.commands,
            routes=self.routes,
        )
        self.bound = bind_policy(settings)
        self.machinery = Machinery(settings, self.bound)
        self.application = self.machinery.application

    def handler(self, endpoint: str, function: Callable[..., Response] | None) -> None:
        """Put a handler of our own, or none, in the place of an endpoint's."""
        handlers = {id: one for id, one in self.application._handlers.items() if id != endpoint}
        self.application._handlers = handlers if function is None else {**handlers, endpoint: function}
        self.application._services.implemented = frozenset(self.application._handlers)

    def ask(self, *given: Any, **more: Any) -> Answer:
        response = self.application.handle(request(*given, **more))
        assert response is not None
        return finish(response)

    def audited(self) -> list[dict[str, Any]]:
        """Every line written; the house is closed by that."""
        self.close()
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def close(self) -> None:
        self.machinery.close()


def descriptors() -> set[str]:
    """What this process has open, by number and target."""
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except FileNotFoundError:  # the listing's own
            continue
    return found
