"""Terminals: opened over HTTP, used over a WebSocket on either port."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from agent_sandbox.api.server_client import ServerClient

from tests.reference.scenario.watched import Watched, refusal


async def play(client: Watched, told: dict[str, Any]) -> dict[str, object]:
    pty = client.pty
    made = await pty.create("/bin/sh", cols=100, rows=30, env={"A": "1"})
    session = await pty.get(made.session_id)
    seen: dict[str, object] = {"created": [session.cols, session.rows, session.alive, session.pid == made.pid]}
    seen["listed"] = [one.id == made.session_id for one in await pty.list()]
    resized = await pty.resize(made.session_id, 90, 20)
    seen["resized"] = [resized.cols, resized.rows]
    seen["the main port"] = await _used(client.beside(pty.connect(made.session_id), "PtyConnection."))
    await pty.delete(made.session_id)
    seen["deleted"] = await refusal(pty.get(made.session_id))

    made = await pty.create("/bin/sh", cols=90, rows=20, env={"A": "1"})
    door = urlsplit(made.ws_url)
    async with ServerClient(told["url"], token=told["token"], pty_url=f"ws://127.0.0.1:{door.port}") as other:
        connection = other.pty.connect(made.session_id)
        seen["its own port"] = await _used(client.beside(connection, "PtyConnection."))
    made = await pty.create()  # the shell that the client asks for by itself
    async with pty.connect(made.session_id) as connection:
        await connection.send("echo shell=$BASH\n")
        seen["default shell"] = "shell=/bin/bash" in await connection.expect("shell=/bin/bash", timeout=60)
        await connection.send("exit 3\n")
        seen["iterated"] = [message.event async for message in connection if message.type == "event"]
    async with ServerClient(told["url"], token="wrong", pty_url=told["url"]) as stranger:
        seen["wrong token"] = await refusal(stranger.pty.connect(made.session_id).open())
    return seen


async def _used(connection: Watched) -> list[object]:
    """What a job shows, after it was told its size, and that a signal ends it but not the shell."""
    await connection.open()
    await connection.resize(111, 33)
    await connection.send("echo a=$A; stty size; sh -c 'echo rea\"\"dy; exec sleep 1000'\n")
    shown = await connection.expect("ready", timeout=60)
    await connection.signal("SIGKILL")
    await connection.send("echo aft''er; exit\n")
    events = []
    while message := await connection.recv(timeout=60):
        if message.type == "event":
            events.append(message.event)
        else:
            shown += message.data
    await connection.close()
    return ["a=1\r\n" in shown, "33 111\r\n" in shown, "after\r\n" in shown, events]
