"""Every recorded exchange of the wire contract, against the real thing."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.vectors.deviations import DEVIATIONS, OURS
from tests.support.server import SYSTEM_PATH, NotStarted, Reply, ServerProcess, start_server
from tests.support.vectors import Vector, compare, differences, filled, lay_out, load, replay

ROOT = Path(__file__).resolve().parents[3]
FILES = (
    "core", "auth", "files", "files_watch_changes", "process", "limits", "limits_concurrency", "audit",
    "system", "commands", "devtools", "terminal", "browser",
)  # fmt: skip
#: What the recorded exchanges call "the sample commands".
SAMPLE_COMMANDS = ROOT / "tests" / "support" / "sample_commands.py"


#: Where what was seen depended on a pause, which a busy machine stretches: how long those of further attempts are.
PAUSES = (3.0, 1.0, 3.0)


def is_timed(vector: Vector) -> bool:
    return any(key in vector.facts for key in ("timeline", "background", "prelude"))


def server_key(vector: Vector) -> str:
    """Vectors with the same key may share a server: same policy and environment, and no counters between them."""
    text = json.dumps([vector.policy, vector.environ, "commands" in vector.facts], sort_keys=True)
    counted = any(word in text for word in ("rate_per_minute", "max_concurrency", "max_processes"))
    return text + (vector.name if counted or sees_all(vector) else "")


def sees_all(vector: Vector) -> bool:
    """Others on the same server would change its answer, or it theirs."""
    method, path = vector.facts["request"]["method"], vector.facts["request"]["path"]
    sets = path == "/env" and method != "GET" and vector.facts["status"] == 200
    return sets or path == "/process/list" or (method, path) == ("GET", "/pty/sessions")


ALL = sorted(load(*FILES), key=server_key)


class Servers:
    """One running server at a time; the next one is started when a vector needs another policy."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key: str | None = None
        self._server: ServerProcess | None = None
        self._started = 0
        self._tmp = directory

    def for_vector(self, vector: Vector) -> tuple[ServerProcess, Path]:
        if self._key != server_key(vector):
            self.stop()
            self._key = server_key(vector)
        if self._server is None:
            self._started += 1
            tmp = self._tmp = self._directory / f"run{self._started}"
            state = self._directory / f"state{self._started}"
            tmp.mkdir()
            state.mkdir()
            lay_out(tmp, filled(vector.facts.get("setup", []), tmp))
            policy = filled(vector.policy, tmp)
            environ = {
                "PATH": SYSTEM_PATH,
                "HOME": str(tmp / "home"),
                "LANG": "C.UTF-8",
                "GREETING": "hello",
                "ABX_SERVER_BASE_DIR": str(tmp / "base"),
                **_without_browser(vector),
                **vector.environ,
            }
            self._server = start_server(
                tmp / "base",
                state,
                policy=policy,
                environ=environ,
                allow_anonymous=not _has_identities(vector),
                arguments=["--commands", str(SAMPLE_COMMANDS)] if "commands" in vector.facts else [],
            )
        return self._server, self._tmp

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._server = None


def _without_browser(vector: Vector) -> dict[str, str]:
    """The browser's exchanges were recorded where none was installed."""
    return {"ABX_SERVER_CHROMIUM": "/none"} if vector.name.startswith("browser:") else {}


def _has_identities(vector: Vector) -> bool:
    auth = (vector.policy or {}).get("auth", {})
    return bool(auth.get("tokens")) or "ABX_SERVER_TOKEN" in vector.environ


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    running = Servers(tmp_path_factory.mktemp("replay"))
    yield running
    running.stop()


def exchange(vector: Vector, server: ServerProcess, tmp: Path, pause: float) -> tuple[Reply, list[dict[str, object]]]:
    """The reply, and the audit lines that the exchange caused. A line may come a moment after its answer."""
    known = _audited(server)
    reply = replay(vector, server, tmp, pause)
    deadline = time.monotonic() + 30
    while True:
        markers = _audited(server) - known
        new = [line for line in server.audit_lines() if line["id"] not in known and line["target"] != _MARK]
        if markers and (len(new) >= len(vector.facts["audit"]) or time.monotonic() > deadline):
            return reply, new
        time.sleep(0.01)


_MARK = "/no-such-route"


def _audited(server: ServerProcess) -> set[object]:
    """The ids of all audit lines up to now, that of a request of ours included."""
    marker = server.request("GET", _MARK).headers["x-request-id"]
    while marker not in (ids := {line["id"] for line in server.audit_lines()}):
        assert server.process.poll() is None
        time.sleep(0.01)
    return ids


def judge(vector: Vector, servers: Servers) -> list[str]:
    """Everything in which the server's answer falls short of the vector's."""
    found = attempt(vector, servers)
    for pause in PAUSES if is_timed(vector) else ():
        if found:
            servers.stop()  # the next one knows nothing of this attempt
            found = attempt(vector, servers, pause)
    return found


def attempt(vector: Vector, servers: Servers, pause: float = 1.0) -> list[str]:
    try:
        server, tmp = servers.for_vector(vector)
    except NotStarted as failure:
        expected = vector.facts.get("exit_code")
        return [] if failure.code == expected else [str(failure)]
    if "audit" not in vector.facts:
        reply = replay(vector, server, tmp, pause)
        if vector.file == "terminal":
            _close_terminals(server)
        return differences(vector, reply, tmp)
    reply, lines = exchange(vector, server, tmp, pause)
    return differences(vector, reply, tmp) + compare(filled(vector.facts["audit"], tmp), lines, "audit", frozenset())


def _close_terminals(server: ServerProcess) -> None:
    """A server has ten at most."""
    for made in server.request("GET", "/pty/sessions").json().get("sessions", ()):
        server.request("DELETE", f"/pty/sessions/{made['id']}")


@pytest.mark.parametrize("vector", ALL, ids=lambda vector: vector.name)
def test_the_server_answers_as_recorded_or_as_the_deviation_says(vector: Vector, servers: Servers) -> None:
    if vector.name == "devtools:code_node" and shutil.which("node", path=SYSTEM_PATH) is None:
        pytest.skip("no way here: no Node.js")
    if vector.name not in DEVIATIONS:
        assert not judge(vector, servers)
        return
    assert attempt(vector, servers), "listed as a deviation, but answered as recorded"
    assert not judge(vector.expecting(OURS[vector.name]), servers)


def test_deviations_name_vectors_and_say_what_is_answered_instead() -> None:
    names = {vector.name for vector in ALL}
    assert {name for name in DEVIATIONS if name.split(":")[0] in FILES} <= names
    assert set(OURS) == set(DEVIATIONS)
    assert all(reason and "\n" not in reason for reason in DEVIATIONS.values())
