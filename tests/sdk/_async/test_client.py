"""The client against a real server: health, discovery, decisions."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_sdk import (
    AsyncServerClient,
    AuthenticationError,
    EndpointNotAvailableError,
    PayloadTooLargeError,
    PolicyDeniedError,
    SandboxConnectionError,
    ServerAPIError,
)
from tests.support.ports import free_ports
from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.anyio

TOKENS = {"environ": {"PATH": "/usr/bin:/bin", "OWNER": "own3r", "READER": "r3ader"}, "allow_anonymous": False}
POLICY = {
    "version": 1,
    "auth": {
        "tokens": [
            {"id": "owner", "token_env": "OWNER", "scopes": ["*"]},
            {"id": "reader", "token_env": "READER", "scopes": ["files:read"]},
        ]
    },
    "groups": {"terminal": False},
    "endpoints": {"files_upload_stream": {"limits": {"max_bytes": 1000}, "params": {"allow_extensions": [".txt"]}}},
}


async def test_health_is_true_only_when_somebody_answers(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        assert await client.health()
    async with AsyncServerClient("http://127.0.0.1:9", timeout=1) as client:
        assert not await client.health()


async def test_a_unix_socket_works_like_any_address(tmp_path: Path) -> None:
    with running_server(tmp_path, unix_socket=tmp_path / "s") as server:
        async with AsyncServerClient(uds=server.socket_path) as client:
            assert await client.health()
            assert (await client.files.write("a.txt", "hi")).bytes == 2
            assert await client.files.read_text("a.txt") == "hi"
            assert repr(client) == f"<{type(client).__name__} unix:{server.socket_path}>"
        async with AsyncServerClient(uds=str(tmp_path / "absent")) as client:
            with pytest.raises(SandboxConnectionError, match="no server answers at unix:") as lost:
                await client.files.list()
            assert lost.value.gone


@pytest.mark.finding("R1-U3")
async def test_an_unknown_token_is_an_authentication_error(tmp_path: Path) -> None:
    with running_server(tmp_path, policy=POLICY, **TOKENS) as server:
        for token in (None, "wr0ng"):
            async with AsyncServerClient(server.url, token=token) as client:
                assert await client.health(), "health needs no token"
                with pytest.raises(AuthenticationError) as refused:
                    await client.files.list()
                assert refused.value.code == "unauthorized"
                assert "wr0ng" not in str(refused.value)


@pytest.mark.finding("R1-U4")
async def test_calls_are_checked_locally_only_after_discovery(tmp_path: Path) -> None:
    with running_server(tmp_path, policy=POLICY, **TOKENS) as server:
        async with AsyncServerClient(server.url, token="r3ader") as client:
            assert client.capabilities is None
            with pytest.raises(PolicyDeniedError) as remote:
                await client.files.mkdir("d")
            assert (remote.value.status_code, remote.value.scope) == (403, "files:write")
            assert remote.value.request_id
            caps = await client.discover()
            assert caps.identity_id == "reader"
            with pytest.raises(PolicyDeniedError) as local:
                await client.files.mkdir("d")
            assert (local.value.status_code, local.value.scope) == (0, "files:write")
            client.forget_discovery()
            assert client.capabilities is None
            with pytest.raises(PolicyDeniedError) as remote:
                await client.files.mkdir("d")
            assert remote.value.status_code == 403


async def test_what_is_switched_off_is_not_available(tmp_path: Path) -> None:
    policy = {"version": 1, "endpoints": {"files_delete": {"enabled": False}}}
    with running_server(tmp_path, policy=policy) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(EndpointNotAvailableError) as remote:
                await client.files.delete("x")
            assert (remote.value.code, remote.value.rule) == ("endpoint_disabled", "policy:endpoints.files_delete")
            await client.discover()
            with pytest.raises(EndpointNotAvailableError) as local:
                await client.files.delete("x")
            assert (local.value.status_code, local.value.rule) == (0, remote.value.rule)


async def test_a_payload_over_a_written_limit_is_refused_before_it_moves(tmp_path: Path) -> None:
    with running_server(tmp_path, policy=POLICY, **TOKENS) as server:
        async with AsyncServerClient(server.url, token="own3r") as client:
            with pytest.raises(PayloadTooLargeError) as remote:
                await client.files.write("a.txt", b"x" * 1001)
            assert (remote.value.status_code, remote.value.limit) == (413, 1000)
            await client.discover()
            with pytest.raises(PayloadTooLargeError) as local:
                await client.files.write("a.txt", b"x" * 1001)
            assert (local.value.status_code, local.value.limit) == (0, 1000)
            assert (await client.files.write("a.txt", b"x" * 1000)).bytes == 1000


async def test_discovery_tells_what_is_allowed_and_how(tmp_path: Path) -> None:
    with running_server(tmp_path, policy=POLICY, **TOKENS) as server:
        async with AsyncServerClient(server.url, token="own3r") as client:
            caps = await client.discover()
            assert caps.can("files_list") and caps.denial("files_list") is None
            assert caps.denial("pty_create_session") == "endpoint_disabled"
            assert caps.rule("pty_create_session") == "policy:groups.terminal"
            assert caps.denial("nonsense") == "unknown_endpoint"
            assert caps.limit("files_upload_stream", "max_bytes") == 1000
            assert caps.limit("files_list", "max_entries") == 1000, "defaults are told as well"
            assert caps.limit("nonsense", "max_bytes", 7) == 7
            assert caps.param("files_upload_stream", "allow_extensions") == [".txt"]
            paths = caps.paths("files_list")
            assert paths is not None and paths.roots == (str(tmp_path / "base"),)
            assert set(caps.enforcement("files_list").values()) <= {"api", "kernel"}
            assert caps.paths("health") is None
            assert "files_move" in caps.endpoints_for("files:delete")
            assert "files_list" in caps.available() and "pty_connect" not in caps.available()
            assert any('"*"' in warning for warning in caps.warnings)
            assert caps.as_dict()["api_version"] == 2
            assert caps.configured and len(caps.revision) == 16
            assert "own3r" not in repr(caps)
            again = client.capabilities
            assert again is not None and again.as_dict() == caps.as_dict()


@pytest.mark.finding("R1-U5")
async def test_check_gives_the_same_answer_as_the_call(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        for path in (home.name, "/etc/passwd", "../outside", "/proc/self/environ"):
            decision = await client.check("files_stat", path=path)
            try:
                await client.files.exists(path)
                refused = None
            except PolicyDeniedError as error:
                refused = error.code
            assert (decision.allowed, decision.code) == (refused is None, refused), path
            assert bool(decision) is decision.allowed
        caps = await client.discover()
        assert (await caps.check_path("files_stat", "/etc/passwd")).code == "path_not_allowed"
        assert (await client.check("files_move", paths=[home.name, "/etc"], op="write")).code == "path_not_allowed"
        assert (await client.check("nonsense")).code == "unknown_endpoint"


@pytest.mark.finding("R1-F6")
async def test_a_changed_policy_ends_local_checks(tmp_path: Path) -> None:
    closed = {"version": 1, "endpoints": {"files_mkdir": {"enabled": False}}}
    place = ["--port", str(free_ports(1)[0])]  # nobody takes it between the two
    with running_server(tmp_path, policy=closed, arguments=place) as server:
        client = AsyncServerClient(server.url)
        caps = await client.discover()
    with running_server(tmp_path, policy={"version": 1}, arguments=place):
        async with client:
            with pytest.raises(EndpointNotAvailableError):
                await client.files.mkdir("d")
            assert await client.files.list() == [], "any answer shows that the policy is another one"
            assert client.capabilities is None
            assert (await client.files.mkdir("d")).endswith("/d")
            assert (await client.discover()).revision != caps.revision


async def test_what_the_server_does_not_offer_yet_is_not_available(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        caps = await client.discover()
        client.forget_discovery()
        for call, endpoint in (
            (client.system.info, "system_info"),
            (client.system.metrics, "system_metrics"),
            (client.system.env, "env_get"),
            (client.system.ports, "ports"),
            (client.system.packages, "packages"),
            (client.commands.list, "list_commands"),
        ):
            if caps.denial(endpoint) == "not_implemented":
                with pytest.raises(EndpointNotAvailableError) as refused:
                    await call()
                assert refused.value.code == "not_implemented"


async def test_refusals_can_be_listened_to_wherever_they_come_from(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[ServerAPIError] = []
    with running_server(tmp_path, policy=POLICY, **TOKENS) as server:
        async with AsyncServerClient(server.url, token="r3ader") as client:
            end = client.on_refusal(heard.append)
            with pytest.raises(PolicyDeniedError) as of_the_server:
                await client.files.write("a.txt", "x")
            await client.discover()
            with pytest.raises(PolicyDeniedError) as of_the_client:
                await client.files.write("a.txt", "x")
            assert heard == [of_the_server.value, of_the_client.value]
            end()
            end()
            client.on_refusal(lambda refusal: 1 / 0)
            with pytest.raises(PolicyDeniedError):
                await client.files.write("a.txt", "x")
            assert len(heard) == 2 and "a listener to refusals failed" in caplog.text
