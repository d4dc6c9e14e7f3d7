"""Handlers driven directly: a call as the pipeline would make it, real processes, a peer that can vanish."""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import socket
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sandbox_server.access import Grant, Identity
from sandbox_server.call import Call
from sandbox_server.catalogue import builtin
from sandbox_server.guards.commands import Command
from sandbox_server.handlers import HANDLERS
from sandbox_server.messages import FRAMES_TYPE, Headers, Refusal, Request, Response, Wait
from sandbox_server.process.caller import attended
from sandbox_server.process.table import ProcessTable
from sandbox_server.services import Services
from tests.support.waiting import in_time

CATALOGUE = builtin()


class Peer:
    """One end of a socket pair; `vanish` closes the other."""

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()

    def fileno(self) -> int:
        return self._ours.fileno()

    def gone(self) -> bool:
        poll = select.poll()
        poll.register(self._ours, select.POLLRDHUP)
        return bool(poll.poll(0))

    def vanish(self) -> None:
        self._theirs.close()

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class NoBody:
    length = 0

    def inform(self, status: int, phrase: str, fields: list[tuple[str, str]]) -> bool:
        return False

    def read(self) -> bytes:
        return b""

    def copy_to(self, descriptor: int) -> int:
        return 0

    def chunks(self) -> Iterator[bytes]:
        return iter(())

    def break_off(self) -> None: ...


@dataclass
class Directory:
    """Stands for a judged location."""

    path: str
    closed: bool = False

    def open_directory(self) -> int:
        return os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        self.closed = True


class Bench:
    """A process table and somebody who calls its handlers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.table = ProcessTable()
        self.calls: list[Call] = []
        self.peers: list[Peer] = []

    def call(
        self,
        endpoint: str,
        *,
        owner: str = "ann",
        framed: bool = False,
        peer: Peer | None = None,
        limits: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Call:
        declared = CATALOGUE[endpoint]
        grant = Grant(
            Identity(owner, frozenset({"*"})),
            declared,
            limits={**declared.limits, **(limits or {})},
            params=params or {},
        )
        headers = Headers([("Accept", FRAMES_TYPE)] if framed else [])
        peer = peer or self.peer()
        request = Request(declared.method, declared.path, (), headers, NoBody(), peer)
        services = SimpleNamespace(
            processes=self.table,
            base_environment=lambda grant: {"PATH": os.defpath + ":/usr/local/bin", "BASE": "yes"},
            default_cwd=lambda grant: Directory(str(self.root)),
            scope=lambda grant: None,
        )
        call = Call(request, grant, cast(Services, services))
        self.calls.append(call)
        return call

    def peer(self) -> Peer:
        self.peers.append(Peer())
        return self.peers[-1]

    def ask(self, endpoint: str, fields: Mapping[str, Any] | None = None, /, **how: Any) -> Response:
        """The handler's response; `fields` left out have their declared defaults."""
        values = {field.name: field.default for field in CATALOGUE[endpoint].fields} | dict(fields or {})
        if isinstance(values.get("command"), str):
            values["command"] = command(values["command"])
        call = self.call(endpoint, **how)
        response = HANDLERS[endpoint](call, **values)
        if isinstance(response.body, Generator):
            response.body = _served(response.body, cast(Peer, call.request.peer))
        return response

    def json(self, endpoint: str, fields: Mapping[str, Any] | None = None, /, **how: Any) -> Any:
        body = self.ask(endpoint, fields, **how).body
        return json.loads(body if isinstance(body, bytes) else b"".join(cast(Iterator[bytes], body)))

    def events(self, text: str, /, **how: Any) -> list[tuple[str, Any]]:
        """`shell_stream` as server-sent events, to the end."""
        return sse(b"".join(chunks(self.ask("shell_stream", {"command": text}, **how))))

    def frames(self, text: str, fields: Mapping[str, Any] | None = None, /, **how: Any) -> list[tuple[int, Any]]:
        """`shell_stream` as frames, to the end."""
        response = self.ask("shell_stream", {"command": text, **(fields or {})}, framed=True, **how)
        return frames(b"".join(chunks(response)))

    def start(self, text: str, /, **fields: Any) -> Any:
        how = {name: fields.pop(name) for name in ("owner", "limits") if name in fields}
        return self.json("process_start", {"command": text, "capture_output": True, **fields}, **how)

    def cut(self, text: str, enough: Callable[[Refusal], object], /, **how: Any) -> Refusal:
        """How a command is refused that its timeout has ended, after it had the time for what the test needs."""

        def run(seconds: float) -> Refusal:
            with pytest.raises(Refusal) as caught:
                self.ask("shell", {"command": text, "timeout": seconds}, **how)
            assert (caught.value.status, caught.value.code) == (408, "timeout")
            return caught.value

        return in_time(run, enough)

    def follow(self, pid: Any, /, **fields: Any) -> list[tuple[int, Any]]:
        how = {name: fields.pop(name) for name in ("owner", "peer") if name in fields}
        response = self.ask("process_output", {"pid": str(pid), "follow": True, **fields}, framed=True, **how)
        return frames(b"".join(chunks(response)))

    def close(self) -> None:
        try:
            for call in self.calls:
                while call.deferred:
                    call.deferred.pop()()
        finally:
            self.table.close(grace=0)
            for peer in self.peers:
                peer.close()


def command(text: str) -> Command:
    argv = tuple(shlex.split(text))
    return Command(argv, shutil.which(argv[0]) or "", text)


def chunks(response: Response) -> Iterator[bytes]:
    assert not isinstance(response.body, bytes)
    return cast(Iterator[bytes], iter(cast(Any, response.body)))


def _served(body: Generator[bytes | Wait, None, None], peer: Peer) -> Iterator[bytes]:
    """What the socket side does: waits, and closes the body when the peer has gone."""
    try:
        yield from attended(body, peer)
    finally:
        body.close()


def sse(data: bytes) -> list[tuple[str, Any]]:
    events = []
    for block in data.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            facts = dict(line.split(": ", 1) for line in lines)
            events.append((facts["event"], json.loads(facts["data"])))
    return events


def frames(data: bytes) -> list[tuple[int, Any]]:
    """(stream, bytes) and (3, record), in order."""
    found: list[tuple[int, Any]] = []
    at = 0
    while at < len(data):
        stream, size = data[at], int.from_bytes(data[at + 4 : at + 8], "big")
        payload = data[at + 8 : at + 8 + size]
        assert len(payload) == size and data[at + 1 : at + 4] == b"\0\0\0"
        found.append((stream, json.loads(payload) if stream == 3 else payload))
        at += 8 + size
    return found


def output(found: list[tuple[int, Any]], stream: int = 1) -> bytes:
    return b"".join(payload for number, payload in found if number == stream)


def records(found: list[tuple[int, Any]], kind: str) -> list[Any]:
    return [payload for number, payload in found if number == 3 and payload["kind"] == kind]


def alive(pid: int) -> bool:
    """Running, and not merely a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
