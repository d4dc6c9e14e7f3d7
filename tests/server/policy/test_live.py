"""A policy never changes under what is running: not by its file, not by its environment."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

import pytest

from sandbox_server import ServerPolicy
from sandbox_server.catalogue import builtin
from tests.support.server import running_server
from tests.support.waiting import eventually


@pytest.mark.field(158)
def test_field_158_a_stream_keeps_the_rule_that_it_was_admitted_under_until_a_restart_ends_it(tmp_path: Path) -> None:
    with running_server(tmp_path, policy={"groups": {"process": True}}) as server:
        revision = server.request("GET", "/capabilities").headers["x-policy-revision"]
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        body = json.dumps({"command": "sh -c 'echo $$; while [ ! -e go ]; do sleep 0.05; done; echo went; sleep 600'"})
        connection.request("POST", "/shell/stream", body, {"Content-Type": "application/json"})
        stream = connection.getresponse()

        def line_with(text: bytes) -> bytes:
            while text not in (line := stream.readline()):
                assert line, "the stream ended"
            return line

        first = json.loads(line_with(b"stdout").partition(b"data: ")[2] or stream.readline().partition(b"data: ")[2])
        pid = int(str(first["data"]).strip())
        (tmp_path / "state" / "policy.json").write_text('{"groups": {"process": false}}')
        (tmp_path / "base" / "go").touch()
        line_with(b"went")
        answer = server.request("POST", "/shell", {"command": "true"})
        assert (answer.status, answer.headers["x-policy-revision"]) == (200, revision)

        assert server.stop() == 0  # the only way to another policy
        assert b"shutdown" in stream.read()
        eventually(lambda: not Path(f"/proc/{pid}").exists())
        connection.close()


@pytest.mark.field(158)
def test_field_158_a_watch_is_cut_after_as_long_as_its_rule_allows(tmp_path: Path) -> None:
    rule = {"endpoints": {"files_watch": {"limits": {"max_duration_seconds": 0.2}}}}
    with running_server(tmp_path, policy=rule) as server:
        answer = server.request("GET", "/files/watch", query={"path": "."})
        assert answer.status == 200  # and it has ended by itself


@pytest.mark.finding("R1-F6")
def test_a_policy_in_force_cannot_be_changed() -> None:
    document = {"groups": {"process": False}}
    policy = ServerPolicy.from_dict(document)
    bound = policy.bind(builtin(), environ={}, allow_anonymous=True)
    document["groups"]["process"] = True
    bound.document["groups"]["process"] = True
    assert not bound.rule("shell").enabled
    with pytest.raises(TypeError):
        bound.rules["shell"] = bound.rules["health"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        bound.mode = "observe"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        bound.rule("shell").enabled = True  # type: ignore[misc]
