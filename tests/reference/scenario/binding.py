"""The client itself: health, discovery, checks, credentials."""

from __future__ import annotations

from typing import Any

from tests.reference.scenario.watched import Watched, refusal


async def play(client: Watched, told: dict[str, Any]) -> dict[str, object]:
    seen: dict[str, object] = {"health": await client.health(), "before discovery": client.capabilities}
    document = (await client.discover()).as_dict()
    caps = client.capabilities
    seen["discovery"] = [caps.api_version, caps.identity_id, sorted(caps.scopes), caps.preset, caps.configured]
    seen["disclosed as sent"] = caps.as_dict() == document and document["api_version"] == 2
    offered = set(caps.available())
    seen["not offered"] = sorted(endpoint for endpoint in client.ENDPOINT_METHODS if not caps.can(endpoint))
    seen["offered"] = offered >= set(client.ENDPOINT_METHODS) - {"health", "capabilities", "capabilities_check"}
    seen["denials"] = [caps.denial("files_list"), caps.denial("no_such_endpoint")]
    seen["by scope"] = {"files_stat", "files_list"} <= set(caps.endpoints_for("files:read"))
    info = caps.require("files_stat")
    seen["info"] = [info.name, info.method, info.path, info.scopes, caps.info("files_stat") == info, caps.info("none")]
    seen["rule"] = caps.rule("files_stat")
    seen["limits"] = [caps.limit("shell", "max_timeout_seconds"), caps.limit("shell", "none", 7)]
    seen["params"] = [caps.param("browser_navigate", "block_private_networks"), caps.param("shell", "none", 7)]
    paths = caps.paths("files_stat")
    seen["paths"] = [paths.allow, paths.read_only, paths.symlinks]

    decision = await client.check("files_stat", path="/etc/passwd")
    seen["check outside"] = [decision.allowed, decision.code]
    decision = await client.check("files_move", paths=[f"{told['base']}/a", f"{told['base']}/b"])
    seen["check two"] = [decision.allowed, decision.code]
    decision = await caps.check_path("files_stat", f"{told['base']}/x", "read")
    seen["check inside"] = [decision.allowed, decision.code]

    seen["credentials"] = client.auth_headers()
    stranger = client.beside(client.with_token("wrong"), "")
    seen["wrong token"] = await refusal(stranger.discover())
    await stranger.aclose()
    client.forget_discovery()
    seen["forgotten"] = client.capabilities
    return seen


async def play_closed(client: Watched, told: dict[str, Any]) -> dict[str, object]:
    """A group that is off is told by discovery, and by the server to who does not ask first."""
    seen: dict[str, object] = {}
    await client.discover()
    seen["can"] = [client.capabilities.can("files_list"), client.capabilities.can("code_run")]
    seen["code"] = await refusal(client.devtools.run_code("print(1)"))
    client.forget_discovery()
    seen["code, unchecked"] = await refusal(client.devtools.run_code("print(1)"))
    return seen
