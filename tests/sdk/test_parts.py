"""What the parts of a client show of themselves: their methods, and which of them the policy allows, and why not."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from sandbox_sdk import AsyncServerClient, EndpointNotAvailableError, ServerClient
from sandbox_sdk._capabilities import Snapshot
from sandbox_sdk._contract import ENDPOINTS
from sandbox_sdk._parts import ALSO, ENDPOINT_OF, INSTEAD, Part

from .test_displays import Strict

NAMES = {"processes": "process", "terminals": "pty"}
PLACES = {kind: NAMES.get(kind, kind) for kind in ENDPOINT_OF}
METHODS = [(kind, method) for kind, methods in ENDPOINT_OF.items() for method in methods]
ARGUMENTS: dict[tuple[str, str], tuple[Any, ...]] = {
    ("files", "append"): ("x", b"x"),
    ("files", "edit"): ("x", {"old": "a", "new": "b"}),
    ("files", "search"): ("x", "*"),
    ("files", "unpack"): (b"PK", "x"),
    ("files", "upload"): (b"x", "x"),
    ("system", "set_env"): ({"A": "1"},),
}


def knowing(client: ServerClient | AsyncServerClient, denied: dict[str, dict[str, Any]], mode: str = "enforce") -> None:
    """Let it know that all is allowed but these."""
    endpoints = {name: {"allowed": True} for name in ENDPOINTS} | denied
    document = {"api_version": 2, "identity": {"id": "agent"}, "policy": {"mode": mode}, "endpoints": endpoints}
    client._connection.known.snapshot = Snapshot(document)


@pytest.fixture
def client() -> Iterator[ServerClient]:
    """Of a server of ours that says yes to everything."""
    answer = {"status": "ok", "id": "x", "path": "/x", "exists": True, "type": "file"}
    headers = {"x-sandbox-server": "notebook-sandbox"}
    transport = httpx.MockTransport(lambda request: httpx.Response(200, headers=headers, json=answer))
    with ServerClient("http://server", http_client=httpx.Client(transport=transport)) as client:
        yield client


def part_of(client: ServerClient | AsyncServerClient, kind: str) -> Any:
    return getattr(client, PLACES[kind])


@pytest.mark.parametrize("kind", ENDPOINT_OF)
def test_a_part_shows_all_of_its_methods_and_no_other(client: ServerClient, kind: str) -> None:
    part = part_of(client, kind)
    public = {name for name, _ in inspect.getmembers(part, inspect.ismethod) if not name.startswith("_")}
    assert isinstance(part, Part) and public == set(ENDPOINT_OF[kind])
    lines = part._repr_mimebundle_()["text/plain"].splitlines()
    assert lines[0] == f"{kind} of http://server" and lines[-1] == "discover() tells which of them are allowed"
    assert [line.split()[0] for line in lines[1:-1]] == list(ENDPOINT_OF[kind])
    assert all(len(line.split()) > 2 and len(line) <= 130 for line in lines[1:-1])


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_a_method_needs_the_endpoints_that_it_is_shown_with(
    client: ServerClient, kind: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = getattr(part_of(client, kind), method)
    arguments = ARGUMENTS.get((kind, method)) or fitting(call)
    first, key = ENDPOINT_OF[kind][method], f"{kind}.{method}"
    for endpoint in (first, ALSO.get(key, first)):
        denied = {endpoint, INSTEAD.get(key, endpoint)}
        knowing(client, {name: {"allowed": False} for name in denied})
        with pytest.raises(EndpointNotAvailableError) as refused:
            entered(call(*arguments))
        assert refused.value.endpoint in denied
        assert method not in allowed(part_of(client, kind))
    if key in INSTEAD:
        knowing(client, {first: {"allowed": False}})
        assert call(*arguments) and method in allowed(part_of(client, kind))


def allowed(part: Part[Any]) -> set[str]:
    lines = part._repr_mimebundle_()["text/plain"].splitlines()
    return {line.split()[1] for line in lines if line.startswith("  ✓ ")}


def fitting(call: Callable[..., object]) -> list[object]:
    needed = [one for one in inspect.signature(call).parameters.values() if one.default is one.empty]
    return [1 if one.annotation == "int" else "x" for one in needed if one.kind is not one.VAR_KEYWORD]


def entered(opened: Any) -> None:
    """Streams ask when they are entered."""
    with opened, closing(opened):
        pass


def test_after_a_discovery_it_says_what_is_allowed_to_whom_and_what_denies_the_rest(client: ServerClient) -> None:
    disabled = {"allowed": False, "reason": "endpoint_disabled", "rule": "preset:<b>"}
    knowing(client, {"pty_connect": disabled, "pty_resize": disabled, "pty_detail": {"reason": "missing_scope"}})
    assert repr(client.pty) == "<Terminals of http://server: 2 of 6 methods allowed>"
    bundle = client.pty._repr_mimebundle_()
    assert bundle["text/plain"] == (
        'terminals of http://server: 2 of 6 methods are allowed to "agent"\n'
        "  ✓ list   The open terminals of this identity\n"
        "  ✓ close  Close a terminal\n"
        "✗ switched off by preset:<b>: create, connect, resize\n"
        "✗ this identity lacks the scope: get"
    )
    assert Strict.read(bundle["text/html"]) and "<b>" not in bundle["text/html"]
    knowing(client, {}, "observe")
    assert client.git._repr_mimebundle_()["text/plain"].startswith(
        'git of http://server: 2 of 2 methods are allowed to "agent" (only observed)\n  ✓ status  The branch and'
    )


def test_what_the_server_does_not_list_is_not_offered(client: ServerClient) -> None:
    client._connection.known.snapshot = Snapshot({"api_version": 2, "endpoints": {}})
    assert repr(client.git) == "<Git of http://server: 0 of 2 methods allowed>"
    assert client.git._repr_mimebundle_()["text/plain"].endswith("\n✗ not offered by this server: status, diff")


def test_the_asynchronous_one_shows_the_same(client: ServerClient) -> None:
    other = AsyncServerClient("http://server")
    assert repr(other.files) == "<AsyncFiles of http://server>" and repr(client.files) == "<Files of http://server>"
    for one in (client, other):
        knowing(one, {"shell": {"allowed": False, "reason": "endpoint_disabled"}})
    for kind in ENDPOINT_OF:
        assert part_of(other, kind)._repr_mimebundle_() == part_of(client, kind)._repr_mimebundle_()


def test_of_a_sandbox_it_has_the_name_and_not_the_address_also_with_another_token(client: ServerClient) -> None:
    client._connection.known.sandbox = "mine"
    assert repr(client) == '<ServerClient of sandbox "mine">' and repr(client.code) == '<Code of sandbox "mine">'
    with client.with_token("other") as other:
        assert repr(other.commands) == '<Commands of sandbox "mine">'
        assert "server" not in str(other.commands._repr_mimebundle_())
