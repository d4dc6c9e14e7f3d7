"""Commands that are waited for, streamed, or left running."""

from __future__ import annotations

from typing import Any

from tests.reference.scenario.watched import Watched, refusal


async def play(client: Watched, told: dict[str, Any]) -> dict[str, object]:
    api = client.process
    seen: dict[str, object] = {}
    result = await api.shell("sh -c 'echo out; echo err >&2; exit 3'", cwd=told["base"])
    seen["shell"] = [result.stdout, result.stderr, result.exit_code, result.success]
    seen["shell timeout"] = await refusal(api.shell("sleep 30", timeout=1))
    seen["shell_stream"] = [
        [event.event, event.data, event.exit_code] async for event in api.shell_stream("sh -c 'echo a; echo; echo b'")
    ]
    lines: list[str] = []
    result = await api.run_stream("printenv X", env={"X": "y"}, on_stdout=lines.append)
    seen["run_stream"] = [result.stdout, result.exit_code, lines]

    process = await api.start("sh -c 'read x; echo got $x; exit 5'", capture_output=True, stdin=True)
    seen["listed"] = process.pid in [one.pid for one in await api.list()]
    seen["running"] = (await api.get(process.pid)).running
    seen["send_stdin"] = (await api.send_stdin(process.pid, "é\n")).written
    seen["follow"] = "".join([event.data async for event in api.follow(process.pid)])
    seen["wait"] = await api.wait(process.pid, timeout=60)
    output = await api.output(process.pid, wait=1.0)
    seen["output"] = [output.stdout, output.state, output.exit_code]

    reader = await api.start("cat", capture_output=True, stdin=True)
    await api.send_stdin(reader.pid, b"bytes")
    seen["close_stdin"] = (await api.close_stdin(reader.pid)).closed
    seen["cat ends"] = [await api.wait(reader.pid, timeout=60), (await api.output(reader.pid)).stdout]

    ends = []
    for name, arguments in (("signal", (15,)), ("terminate", ()), ("kill", ())):
        sleeper = await api.start("sleep 1000")
        sent = await getattr(api, name)(sleeper.pid, *arguments)
        ends.append([name, sent.signal, await api.wait(sleeper.pid, timeout=60, poll=0.1)])
    seen["signals"] = ends
    seen["bad signal"] = await refusal(api.signal(process.pid, 99))
    seen["no process"] = await refusal(api.get(2**22 + 1))
    return seen
