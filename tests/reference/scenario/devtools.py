"""The machine, code and repositories, and the commands that the server was given."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from tests.reference.scenario.watched import Watched, refusal


async def play(client: Watched, told: dict[str, Any]) -> dict[str, object]:
    return {**await _machine(client.system, told), **await _code(client, told), **await _commands(client.commands)}


async def _machine(system: Watched, told: dict[str, Any]) -> dict[str, object]:
    seen: dict[str, object] = {}
    info, metrics = await system.info(), await system.metrics()
    seen["info"] = [info.cpu_count >= 1, bool(info.hostname), bool(info.python_version)]
    seen["metrics"] = [metrics.memory_total_mb > 0, metrics.disk_total_gb > 0]
    seen["env"] = [await system.env(["GREETING", "ABSENT"]), (await system.env())["GREETING"]]
    seen["set_env"] = [await system.set_env({"SET": "by the client"}), await system.env(["SET"])]
    seen["refused env"] = await refusal(system.set_env({"ABX_SERVER_TOKEN": "x"}))
    seen["ports"] = urlsplit(told["url"]).port in [port.port for port in await system.ports()]
    packages = await system.packages("pip")
    seen["packages"] = [packages.manager, all(one.name and one.version for one in packages.packages)]
    return seen


async def _code(client: Watched, told: dict[str, Any]) -> dict[str, object]:
    seen: dict[str, object] = {}
    for language, code in (("python", "import sys\nprint(6 * 7)\nsys.exit(3)"), ("bash", "echo $((6 * 7)); exit 3")):
        result = await client.devtools.run_code(code, language)
        seen[language] = [result.stdout, result.stderr, result.exit_code, result.language, result.success]
    seen["code timeout"] = await refusal(client.devtools.run_code("import time\ntime.sleep(60)", timeout=1))
    status = await client.devtools.git_status(f"{told['base']}/repo")
    seen["git_status"] = [status.branch, status.clean, sorted((file.path, file.status) for file in status.files)]
    diff = await client.devtools.git_diff(f"{told['base']}/repo")
    seen["git_diff"] = [line for line in diff.diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    staged = await client.devtools.git_diff(f"{told['base']}/repo", staged=True, file="s.txt")
    seen["git_diff, staged"] = "+s" in staged.diff.splitlines()
    return seen


async def _commands(commands: Watched) -> dict[str, object]:
    seen: dict[str, object] = {}
    listed = {command.name: command for command in await commands.list()}
    seen["commands"] = sorted(listed)
    seen["declared"] = [(arg.name, arg.type, arg.required, arg.default) for arg in listed["greet"].args]
    seen["run"] = [
        await commands.run("greet", name="you", times=2, loud=True),
        await commands.run("add", a=1, b=2.5),
        await commands.run("join", items=["x", "y"]),
        await commands.run("nothing", timeout=20),
        await commands.run("tags"),
    ]
    seen["no command"] = await refusal(commands.run("absent"))
    seen["wrong arguments"] = await refusal(commands.run("add", a="no number", b=1))
    seen["failed command"] = await refusal(commands.run("boom"))
    return seen
