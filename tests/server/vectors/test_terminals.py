"""What was recorded of terminals' WebSockets: the messages, the codes they close with, and who is let in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.server.vectors.deviations import DEVIATIONS, OURS
from tests.support.server import running_server
from tests.support.vectors import Vector, compare, load
from tests.support.websocket import NotUpgraded, WebSocketClient, frame

KNOWN = {"X-Access-Token": "pty-user-token-123456"}


VECTORS = load("pty_ws")
#: On the port where terminals alone are served the path does not matter.
DOORS = [("its own port", vector) for vector in VECTORS] + [
    ("the main port", vector) for vector in VECTORS if vector.facts["connect"]["path"].startswith("/pty")
]


@pytest.mark.parametrize(("door", "vector"), DOORS, ids=lambda value: getattr(value, "name", value))
def test_the_socket_says_as_recorded_or_as_the_deviation_says(door: str, vector: Vector, tmp_path: Path) -> None:
    facts = vector.facts
    with running_server(tmp_path, policy=vector.policy, allow_anonymous=vector.policy is None) as server:
        id, port = "", server.port
        known = KNOWN if vector.policy else {}
        made = server.request("POST", "/pty/sessions", facts["create"] or {"shell": "/bin/sh"}, known).json()
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
