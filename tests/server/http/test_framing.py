"""Every recorded raw request of the wire contract, sent as it is to a running server."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sandbox_server.http.bounds import Bounds
from sandbox_server.http.hosts import HostRules
from tests.server.http.deviations import DEVIATIONS, OURS, VERSION
from tests.server.http.fakes import Answer, FakeApplication, Wire, echo, serving
from tests.support.server import ServerProcess, start_server
from tests.support.vectors import Vector, compare, filled, lay_out, load

GENERATED = {
    "deeply_nested_json": b'{"path": ' + b"[" * 99_990 + b"]" * 99_990 + b"}" + b" " * 10,
    "invalid_utf8_json_400": b'"\xff\xfe"',
    "utf16_json_accepted": json.dumps({"path": "rel"}).encode("utf-16")[:30].ljust(30, b"\0"),
    "utf8_bom_accepted": b"\xef\xbb\xbf" + b'{"path": "rel"}',
}


@dataclass
class Outcome:
    """What came back for one raw request, and whether the server then closed."""

    answer: Answer
    closed: bool


def raw_request(vector: Vector, tmp: Path) -> bytes:
    facts = filled(dict(vector.facts), tmp)
    lines = []
    for line in facts["request_lines"]:
        if line == "<150 extra headers>":
            lines += [f"X-{number}: 1" for number in range(150)]
        else:
            lines.append(re.sub(r"<(\d+) x '(.)'>", lambda match: match[2] * int(match[1]), line))
    body = GENERATED[vector.facts["name"]] if facts["body"] == "<generated>" else facts["body"].encode()
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def send(port: int, vector: Vector, tmp: Path) -> Outcome:
    """Send the recorded bytes to any server on this port; follow with a request that shows whether it still listens."""
    with Wire(socket.create_connection(("127.0.0.1", port), timeout=60)) as wire:
        wire.send(raw_request(vector, tmp))
        if vector.facts.get("client_half_closes"):
            wire.sock.shutdown(socket.SHUT_WR)
        answer = wire.answer()
        while answer.status == 100:
            answer = wire.answer()
        if answer.fields.get("connection") == "close":
            return Outcome(answer, wire.closed())
        wire.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.answer().json == {"status": "ok"}, "what followed was not the next request"
        return Outcome(answer, False)


def differences(vector: Vector, outcome: Outcome, tmp: Path) -> list[str]:
    facts = filled(dict(vector.facts), tmp)
    answer = outcome.answer
    if answer.status != facts["status"]:
        return [f"status {answer.status} instead of {facts['status']}: {answer.body[:300]!r}"]
    if facts.get("response_text") == "<html>":
        return ["no HTML"] if answer.json else []
    found = compare(facts["response_json"], answer.json, "", frozenset())
    if facts["name"] in ("http10_response_to_11_request", "keep_alive_not_honoured") and not outcome.closed:
        found.append("the connection stays open")
    return found


ALL = load("framing")
#: Takes half a minute against a server as it is, so one with less patience is asked.
HANGS = next(vector for vector in ALL if vector.facts["name"] == "short_body_hangs")


class Servers:
    """One running server per policy."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: dict[str, tuple[ServerProcess, Path]] = {}

    def for_policy(self, policy: Any) -> tuple[ServerProcess, Path]:
        key = json.dumps(policy)
        if key not in self._running:
            tmp = self._directory / str(len(self._running))
            (tmp / "state").mkdir(parents=True)
            (tmp / "run").mkdir()
            lay_out(tmp / "run", [])
            anonymous = not (policy or {}).get("auth")
            arguments = ["--allow-host", "x"]
            server = start_server(
                tmp / "run" / "base", tmp / "state", policy=policy, arguments=arguments, allow_anonymous=anonymous
            )
            self._running[key] = server, tmp / "run"
        return self._running[key]

    def stop(self) -> None:
        for server, _ in self._running.values():
            server.stop()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    running = Servers(tmp_path_factory.mktemp("framing"))
    yield running
    running.stop()


@pytest.mark.finding("R2-S3", "R2-S11")
@pytest.mark.parametrize("vector", [v for v in ALL if v is not HANGS], ids=lambda vector: vector.facts["name"])
def test_raw_requests_are_answered_as_recorded_or_as_the_deviation_says(vector: Vector, servers: Servers) -> None:
    ours = OURS.get(vector.name)
    server, tmp = servers.for_policy(vector.policy)
    lay_out(tmp, [])
    outcome = send(server.port, vector, tmp)
    assert (vector.facts.get("version") or VERSION[0], outcome.answer.version) == VERSION
    found = differences(vector, outcome, tmp)
    if ours is None:
        assert not found
    else:
        assert found, "listed as a deviation, but answered as recorded"
        assert (outcome.answer.status, outcome.answer.json.get("code")) == ours
    if outcome.answer.json.get("code") in ("bad_request", "unsupported_encoding") or outcome.answer.status > 413:
        assert outcome.closed


@pytest.mark.parametrize("vector", [HANGS], ids=lambda vector: vector.facts["name"])
def test_a_body_that_does_not_come_is_given_up(vector: Vector, tmp_path: Path) -> None:
    application = FakeApplication()
    application.routes["/files/mkdir"] = echo
    with serving(application, bounds=Bounds(body_seconds=0.3), hosts=HostRules(["x"])) as server:
        answer = send(server.port, vector, tmp_path).answer
    assert (answer.status, answer.code) == OURS[vector.name]


def test_deviations_name_vectors_and_say_what_is_answered_instead() -> None:
    assert set(DEVIATIONS) <= {vector.name for vector in ALL}
    assert set(OURS) == set(DEVIATIONS)
