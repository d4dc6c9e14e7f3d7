"""Counters that a monitoring system can read, and that count what happened."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from sandbox_server.counters import Counters
from sandbox_server.handlers.metrics import TEXT_TYPE
from tests.server.core.harness import JSON, House
from tests.support.server import ServerProcess, running_server
from tests.support.waiting import eventually

Make = Callable[..., House]
Key = tuple[str, tuple[tuple[str, str], ...]]


def samples(text: str) -> dict[Key, float]:
    """(name, labels) -> value, by the reference parser."""
    found: dict[Key, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name.removeprefix("sandbox_server_"), tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def read(source: House | ServerProcess) -> dict[Key, float]:
    if isinstance(source, House):
        return samples(source.ask("GET", "/metrics").body.decode())
    return samples(source.request("GET", "/metrics").body.decode())


def requests(endpoint: str, status: str) -> Key:
    return "requests_total", (("endpoint", endpoint), ("status", status))


def test_answers_are_counted_by_endpoint_and_class_of_status(house: Make, base: Path) -> None:
    made = house()
    (base / "a").write_bytes(b"12345")
    for path in ("a", "b", "/etc/passwd"):
        made.ask("GET", "/files/stat", query=[("path", path)])
    made.ask("GET", "/files/download-stream", None, ("Accept", "application/octet-stream"), query=[("path", "a")])
    made.ask("POST", "/files/mkdir", {"path": "d"}, JSON)
    made.ask("GET", "/nowhere")
    told = read(made)
    assert told[requests("files_stat", "2xx")] == 2
    assert told[requests("files_stat", "4xx")] == 1
    assert told[requests("", "4xx")] == 1
    assert told["refusals_total", (("code", "path_not_allowed"),)] == 1
    assert told["refusals_total", (("code", "unknown_route"),)] == 1
    assert told["received_bytes_total", ()] == len('{"path": "d"}')
    assert told["sent_bytes_total", ()] > 5
    assert told["requests_in_flight", ()] == 1  # this one


def test_the_answer_is_in_the_format_it_says(house: Make) -> None:
    made = house()
    answer = made.ask("GET", "/metrics")
    assert answer.headers["Content-Type"] == TEXT_TYPE == "text/plain; version=0.0.4; charset=utf-8"
    text = answer.body.decode()
    assert text.endswith("\n")
    families = list(text_string_to_metric_families(text))
    assert all(family.documentation and family.type in ("counter", "gauge") for family in families)
    build = next(key for key in read(made) if key[0] == "build_info")
    assert dict(build[1])["policy_revision"] == made.bound.revision


def test_nothing_of_a_caller_or_a_path_is_in_it(house: Make) -> None:
    tokens = {"auth": {"tokens": [{"id": "ann-the-caller", "token_env": "T", "scopes": ["*"]}]}}
    made = house(tokens, environ={"T": "token-value"}, allow_anonymous=False)
    login = ("X-Access-Token", "token-value")
    made.ask("GET", "/files/stat", None, login, query=[("path", "private-name")])
    made.ask("GET", "/no/such-route", None, login)
    text = made.ask("GET", "/metrics", None, login).body
    assert not any(word in text for word in (b"ann-the-caller", b"private-name", b"such-route", b"token-value"))


def test_it_needs_its_scope(house: Make) -> None:
    made = house({"auth": {"anonymous_scopes": ["files:read"]}})
    assert made.ask("GET", "/metrics").json["scope"] == "system:read"


def test_a_running_server_counts_streams_processes_and_audit_lines(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        server.request("POST", "/process/start", {"command": "sleep 60"})
        before = read(server)
        body = server.request("POST", "/shell/stream", {"command": "head -c 100000 /dev/zero"}).body
        server.request("GET", "/files/stat?path=/etc/passwd")
        # An exchange is over a moment after its answer has come.
        eventually(lambda: read(server)["requests_in_flight", ()] == 1)
        after = read(server)
    assert after["processes", ()] == 1
    assert after["terminals", ()] == after["contexts", ()] == 0
    assert after["sent_bytes_total", ()] - before["sent_bytes_total", ()] >= len(body)
    assert after["audit_lines_lost_total", ()] == 0
    assert after["start_time_seconds", ()] > 1e9


def test_refusals_of_the_layer_below_are_counted_too(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        assert server.request("GET", "/health", headers={"Host": "evil.example"}).status == 421
        refused = ("refusals_total", (("code", "host_not_allowed"),))
        eventually(lambda: refused in (told := read(server)) and told[refused] == 1)


def test_no_count_is_lost_between_threads() -> None:
    counters = Counters()

    def count() -> None:
        for _ in range(2000):
            counters.enter()
            counters.answered("e", 200, "busy", 1, 2)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (counters.requests["e", 2], counters.refusals["busy"], counters.received, counters.sent) == (
        8000, 8000, 8000, 16000,
    )  # fmt: skip
    assert counters.in_flight == 0


def test_a_stream_that_is_given_up_is_closed_and_counted() -> None:
    counters, closed = Counters(), []

    def pieces() -> object:
        try:
            yield b"12345"
            yield b"never"
        finally:
            closed.append(True)

    stream = counters.carried(pieces())  # type: ignore[arg-type]
    assert next(stream) == b"12345"
    stream.close()
    assert (counters.sent, closed) == (5, [True])


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb"])
def test_labels_are_escaped(house: Make, text: str) -> None:
    made = house()
    made.machinery.application._services.counters.refusals[text] += 1
    assert read(made)["refusals_total", (("code", text),)] == 1
