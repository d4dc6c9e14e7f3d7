"""What was recorded of terminals' WebSockets: the messages, the codes they close with, and who is let in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.server.vectors.deviations import DEVIATIONS, OURS
from tests.support.server import ServerProcess, running_server
from tests.support.vectors import Vector, compare, load
from tests.support.websocket import NotUpgraded, WebSocketClient, frame

KNOWN = {"X-Access-Token": "pty-user-token-123456"}


VECTORS = load("pty_ws")
#: On the port where terminals alone are served the path does not matter.
DOORS = [("its own port", vector) for vector in VECTORS] + [
    ("the main port", vector) for vector in VECTORS if vector.facts["connect"]["path"].startswith("/pty")
]


@pytest.fixture(scope="module")
def server_for(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Vector], ServerProcess]]:
    """One server for all that was recorded under the same policy."""
    running: dict[str, ServerProcess] = {}
    with ExitStack() as stack:

        def start(vector: Vector) -> ServerProcess:
            key = json.dumps(vector.policy, sort_keys=True)
            if key not in running:
                options = {"policy": vector.policy, "allow_anonymous": vector.policy is None}
                running[key] = stack.enter_context(running_server(tmp_path_factory.mktemp("terminals"), **options))
            return running[key]

        yield start


@pytest.mark.parametrize(("door", "vector"), DOORS, ids=lambda value: getattr(value, "name", value))
def test_the_socket_says_as_recorded_or_as_the_deviation_says(
    door: str, vector: Vector, server_for: Callable[[Vector], ServerProcess]
) -> None:
    server = server_for(vector)
    known = KNOWN if vector.policy else {}
    body = vector.facts["create"] or {"shell": "/bin/sh"}
    made = server.request("POST", "/pty/sessions", body, known).json()
    try:
        _judge(door, vector, server, made)
    finally:
        server.request("DELETE", f"/pty/sessions/{made['session_id']}", headers=known)


def _judge(door: str, vector: Vector, server: ServerProcess, made: dict[str, Any]) -> None:
    facts = vector.facts
    id, port = "", server.port
    if facts["create"]:
        id = made["session_id"]
    if door == "its own port":
        port = int(re.search(r":(\d+)/", made["ws_url"])[1])  # type: ignore[index]
    path = facts["connect"]["path"].replace("${sid}", id)
    address = ("127.0.0.1", port)
    if vector.name in DEVIATIONS:
        with pytest.raises(NotUpgraded) as refused:
            WebSocketClient(address, path, facts["connect"]["headers"])
        ours = OURS[vector.name]
        assert refused.value.status == ours["status"]
        assert not compare(ours["response_json"], refused.value.json(), "", frozenset())
        return
    with WebSocketClient(address, path, facts["connect"]["headers"]) as viewer:
        events = _played(viewer, facts["steps"]) if facts["steps"] else []
        if "close_code" in facts:
            assert viewer.rest() == [] and viewer.close_code == facts["close_code"]
        elif not events:
            events = [viewer.receive()]
    for expected, event in zip(facts["messages"], events, strict=True):
        told = {**expected, "session_id": id, **({"pid": made["pid"]} if "pid" in expected else {})}
        assert {name: event[name] for name in told} == told


def _played(viewer: WebSocketClient, steps: list[dict[str, Any]]) -> list[Any]:
    """Do the steps and answer the events seen; that a message made no sense is told since, and changes nothing."""
    events: list[Any] = []
    for step in steps:
        if step.get("raw"):
            viewer.sock.sendall(frame(1, step["send"].encode()))
        else:
            viewer.send(**step["send"])
        shown = ""
        while not (
            ("expect_output" not in step or step["expect_output"] in shown)
            and ("expect_event" not in step or (events and events[-1]["event"] == step["expect_event"]))
        ):
            message = viewer.receive()
            assert message is not None
            shown += message.get("data", "")
            if message["type"] == "event":
                events.append(message)
    return events


def test_deviations_name_vectors() -> None:
    assert {name for name in DEVIATIONS if name.startswith("pty_ws:")} <= {vector.name for vector in VECTORS}
