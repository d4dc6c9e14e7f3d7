"""What the reference client does with a server. Runs in its own environment; prints what it saw as JSON.

Uses the package's public interface only. Arguments: the server's URL, a token, a directory on the server.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path


async def main(url: str, token: str, base: str, local: str) -> dict[str, object]:
    from agent_sandbox.api.server_client import ServerClient

    seen: dict[str, object] = {}
    async with ServerClient(url, token=token) as client:
        seen["health"] = await client.health()
        caps = await client.discover()
        seen["api_version"] = caps.api_version
        seen["can list"] = caps.can("files_list")
        seen["can run code"] = caps.can("code_run")
        decision = await client.check("files_stat", path="/etc/passwd")
        seen["check outside"] = [decision.allowed, decision.code]
        decision = await caps.check_path("files_stat", f"{base}/x")
        seen["check inside"] = [decision.allowed, decision.code]

        content = bytes(range(256)) * 4000
        seen["upload"] = (await client.files.upload(f"{base}/d/ü b.bin", content)).size
        seen["download"] = await client.files.download(f"{base}/d/ü b.bin") == content
        Path(local, "up").write_text("local")
        seen["upload_file"] = (await client.files.upload_file(str(Path(local, "up")), f"{base}/d/up")).size
        seen["download_file"] = await client.files.download_file(f"{base}/d/up", str(Path(local, "down")))
        seen["read_text"] = await client.files.read_text(f"{base}/d/up")
        entries = await client.files.list(f"{base}/d")
        seen["list"] = sorted((entry.name, entry.type, entry.size) for entry in entries)
        info = await client.files.stat(f"{base}/d/up")
        seen["stat"] = [info.type, info.size, info.exists, info.path]
        seen["exists"] = [await client.files.exists(f"{base}/d/up"), await client.files.exists(f"{base}/absent")]
        seen["mkdir"] = (await client.files.mkdir(f"{base}/made")).path
        moved = await client.files.move(f"{base}/d/up", f"{base}/made/moved")
        seen["move"] = [moved.source, moved.destination]
        found = await client.files.search(base, "mov*")
        seen["search"] = [[hit.path for hit in found.results], found.timed_out]
        watching, number = asyncio.create_task(client.files.watch_for(f"{base}/made", 1.5)), 0
        while not watching.done():  # it does not tell when it has begun
            number += 1
            await client.files.upload(f"{base}/made/{number}", b"x")
        seen["watch"] = sorted({(change.type.value, change.is_dir) for change in watching.result()})
        seen["delete"] = (await client.files.delete(f"{base}/made")).deleted
        seen["refused read"] = await refusal(client.files.download("/etc/passwd"))
        seen["missing"] = await refusal(client.files.download(f"{base}/absent"))
        seen["refused stat"] = await refusal(client.files.stat("/etc/passwd"))

        result = await client.process.shell("sh -c 'echo out; echo err >&2; exit 3'", cwd=base)
        seen["shell"] = [result.stdout, result.stderr, result.exit_code, result.success]
        seen["shell timeout"] = await refusal(client.process.shell("sleep 30", timeout=1))
        events = [
            (e.event, e.data, e.exit_code) async for e in client.process.shell_stream("sh -c 'echo a; echo; echo b'")
        ]
        seen["stream"] = events
        lines: list[str] = []
        result = await client.process.run_stream("printenv X", env={"X": "y"}, on_stdout=lines.append)
        seen["run_stream"] = [result.stdout, result.exit_code, lines]

        process = await client.process.start("sh -c 'read x; echo got $x; exit 5'", capture_output=True, stdin=True)
        seen["listed"] = process.pid in [one.pid for one in await client.process.list()]
        seen["running"] = (await client.process.get(process.pid)).running
        seen["stdin"] = (await client.process.send_stdin(process.pid, "é\n")).written
        seen["follow"] = "".join([event.data async for event in client.process.follow(process.pid)])
        seen["wait"] = await client.process.wait(process.pid, timeout=20)
        output = await client.process.output(process.pid)
        seen["output"] = [output.stdout, output.state, output.exit_code]
        sleeper = await client.process.start("sleep 60")
        seen["signal"] = (await client.process.signal(sleeper.pid, 15)).signal
        seen["signalled"] = await client.process.wait(sleeper.pid, timeout=20)
        seen["bad signal"] = await refusal(client.process.signal(sleeper.pid, 99))
        seen["no process"] = await refusal(client.process.get(2**22 + 1))
        seen["code"] = await refusal(client.devtools.run_code("print(1)"))
        client.forget_discovery()
        seen["code, unchecked"] = await refusal(client.devtools.run_code("print(1)"))
    async with ServerClient(url, token=token, pty_url=url) as client:
        made = await client.pty.create("/bin/sh", cols=100, rows=30, env={"A": "1"})
        session = await client.pty.get(made.session_id)
        seen["terminal"] = [session.cols, session.rows, session.alive, session.pid == made.pid]
        seen["terminals"] = [one.id == made.session_id for one in await client.pty.list()]
        resized = await client.pty.resize(made.session_id, 90, 20)
        seen["terminal resized"] = [resized.cols, resized.rows]
        async with client.pty.connect(made.session_id) as connection:
            await connection.resize(111, 33)
            await connection.send("echo a=$A; stty size; sh -c 'echo rea\"\"dy; exec sleep 1000'\n")
            shown = ""
            while "ready" not in shown:
                shown += (await connection.recv(timeout=20)).data
            seen["terminal shows"] = ["a=1\r\n" in shown, "33 111\r\n" in shown]
            await connection.signal("SIGKILL")
            await connection.send("exit\n")
            seen["terminal ends"] = [message.event async for message in connection if message.type == "event"]
        made = await client.pty.create("/bin/sh")
        await client.pty.delete(made.session_id)
        seen["terminal deleted"] = await refusal(client.pty.get(made.session_id))
    async with ServerClient(url, token="wrong") as client:
        seen["wrong token"] = await refusal(client.discover())

    sync = ServerClient(url, token=token)
    seen["sync"] = [sync.health_sync(), sync.discover_sync().can("shell"), sync.files.exists_sync(f"{base}/absent")]
    sync.aclose_sync()
    return seen


async def refusal(work: object) -> list[object]:
    try:
        await work  # type: ignore[misc]
    except Exception as error:
        return [type(error).__name__, getattr(error, "status_code", None), getattr(error, "error_code", None)]
    return ["not refused"]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
