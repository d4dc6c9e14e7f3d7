"""Every public method of our client against the reference server: it works, or it says that there is no such thing."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_sdk import (
    Capabilities,
    EndpointNotAvailableError,
    FileWatch,
    NotFoundError,
    OutputStream,
    Process,
    ServerAPIError,
    ServerClient,
    Stdin,
)
from tests.reference.conftest import ReferenceServer
from tests.reference.scenario.watched import surface
from tests.support.repositories import as_told

pytestmark = [pytest.mark.finding("R2-C8"), pytest.mark.slow]

Call = Callable[[ServerClient, Path], Any]
SLEEP = "sleep 1000"


def _ended(process: Process, act: Callable[[Process], Any]) -> int:
    act(process)
    return process.wait(60)


def _as_another(client: ServerClient, base: Path) -> str:
    with client.with_token("wrong") as other, pytest.raises(ServerAPIError) as refused:
        other.files.exists(f"{base}/a")
    return type(refused.value).__name__


def _watched(client: ServerClient, base: Path) -> list[str]:
    with client.files.watch(str(base), interval=0.1, timeout=30) as watch:
        (base / "new").touch()
        return [next(watch).type]


def _asleep(client: ServerClient, ask: Callable[[Process], Any]) -> Any:
    process = client.process.start(SLEEP)
    try:
        return ask(process)
    finally:
        process.kill()


def _archived(client: ServerClient, base: Path) -> list[bytes]:
    client.files.archive(f"{base}/a", base / "archive.zip", format="zip")
    with zipfile.ZipFile(base / "archive.zip") as archive:
        return [archive.read(name) for name in archive.namelist()]


def _kept(client: ServerClient, _: Path) -> bytes:
    process = client.process.start("echo x")
    process.wait(60)
    return process.output().data


def _streamed(stream: OutputStream) -> bytes:
    with stream:
        return b"".join(event.data for event in stream)


def _typed(client: ServerClient, _: Path) -> int:
    process = client.process.start("cat", stdin=True)
    written = process.stdin.write("x")
    process.stdin.close()
    assert process.wait(60) == 0
    return written


#: What works, and what comes of it. The directory is one of the server's, with a file `a` in it and a repository.
WORKS: dict[str, tuple[Call, Any]] = {
    "health": (lambda c, b: c.health(), True),
    "discover": (lambda c, b: c.discover().api_version, 2),
    "forget_discovery": (lambda c, b: (c.discover(), c.forget_discovery(), c.capabilities)[-1], None),
    "on_refusal": (lambda c, b: c.on_refusal(lambda error: None)(), None),
    "check": (lambda c, b: c.check("files_stat", path=f"{b}/a").allowed, True),
    "with_token": (_as_another, "AuthenticationError"),
    "close": (lambda c, b: c.with_token("t0ken").close(), None),
    "files.list": (lambda c, b: sorted(e.name for e in c.files.list(str(b), recursive=False)), ["a", "repo"]),
    "files.stat": (lambda c, b: c.files.stat(f"{b}/a").size, 5),
    "files.exists": (lambda c, b: [c.files.exists(f"{b}/{name}") for name in ("a", "absent")], [True, False]),
    "files.mkdir": (lambda c, b: (c.files.mkdir(f"{b}/new"), (b / "new").is_dir())[-1], True),
    "files.delete": (lambda c, b: (c.files.delete(f"{b}/a"), (b / "a").exists())[-1], False),
    "files.move": (lambda c, b: (c.files.move(f"{b}/a", f"{b}/c"), (b / "c").exists())[-1], True),
    "files.search": (lambda c, b: [hit.name for hit in c.files.search(str(b), "a")], ["a"]),
    "files.watch": (_watched, ["created"]),
    "files.write": (lambda c, b: (c.files.write(f"{b}/w", "text"), (b / "w").read_text())[-1], "text"),
    "files.upload": (lambda c, b: (c.files.upload(io.BytesIO(b"x"), f"{b}/w"), (b / "w").read_text())[-1], "x"),
    "files.read": (lambda c, b: c.files.read(f"{b}/a"), b"alpha"),
    "files.read_text": (lambda c, b: c.files.read_text(f"{b}/a"), "alpha"),
    "files.download": (lambda c, b: c.files.download(f"{b}/a", b / "copy").bytes, 5),
    "files.archive": (_archived, [b"alpha"]),
    "process.run": (lambda c, b: c.process.run("echo x").stdout, "x\n"),
    "process.shell": (lambda c, b: c.process.shell("echo x").stdout, "x\n"),
    "process.stream": (lambda c, b: _streamed(c.process.stream("echo x")), b"x\n"),
    "process.start": (lambda c, b: c.process.start("true").wait(60), 0),
    "process.list": (lambda c, b: _asleep(c, lambda p: p.pid in [info.pid for info in c.process.list()]), True),
    "process.get": (lambda c, b: _asleep(c, lambda p: c.process.get(p.pid).running), True),
    "process.attach": (lambda c, b: c.process.attach(c.process.start("true").pid).wait(60), 0),
    "process.follow": (lambda c, b: _streamed(c.process.follow(c.process.start("echo x").pid)), b"x\n"),
    "process.signal": (lambda c, b: _ended(c.process.start(SLEEP), lambda p: c.process.signal(p.pid, 15)), -15),
    "Process.follow": (lambda c, b: _streamed(c.process.start("echo x").follow()), b"x\n"),
    "Process.output": (_kept, b"x\n"),
    "Process.interrupt": (lambda c, b: _ended(c.process.start(SLEEP), Process.interrupt), -2),
    "Process.kill": (lambda c, b: _ended(c.process.start(SLEEP), Process.kill), -9),
    "Process.terminate": (lambda c, b: _ended(c.process.start(SLEEP), Process.terminate), -15),
    "Process.send_signal": (lambda c, b: _ended(c.process.start(SLEEP), lambda p: p.send_signal(9)), -9),
    "Process.refresh": (lambda c, b: _asleep(c, lambda p: p.refresh().running), True),
    "Process.wait": (lambda c, b: c.process.start("false").wait(60), 1),
    "Stdin.write": (_typed, 1),
    "Stdin.close": (_typed, 1),
    "OutputStream.close": (lambda c, b: c.process.stream("echo x").close(), None),
    "FileWatch.close": (lambda c, b: c.files.watch(str(b)).close(), None),
    "pty.list": (lambda c, b: c.pty.list(), []),
    "system.info": (lambda c, b: c.system.info().cpu_count >= 1, True),
    "system.metrics": (lambda c, b: c.system.metrics().memory_total_mb > 0, True),
    "system.env": (lambda c, b: c.system.env(["LANG"]), {"LANG": "C.UTF-8"}),
    "system.set_env": (lambda c, b: c.system.set_env({"SET": "x"}), ["SET"]),
    "system.ports": (lambda c, b: all(port.port > 0 for port in c.system.ports()), True),
    "system.packages": (lambda c, b: isinstance(c.system.packages(), list), True),
    "git.status": (lambda c, b: c.git.status(f"{b}/repo").branch, "main"),
    "git.diff": (lambda c, b: "+two" in c.git.diff(f"{b}/repo").diff, True),
    "code.run": (lambda c, b: c.code.run("print(6 * 7)").stdout, "42\n"),
    "commands.list": (lambda c, b: [command.name for command in c.commands.list()], []),
    "browser.console": (lambda c, b: c.browser.console(), []),
    "Capabilities.as_dict": (lambda c, b: c.discover().as_dict()["api_version"], 2),
    "Capabilities.available": (lambda c, b: "shell" in c.discover().available(), True),
    "Capabilities.can": (lambda c, b: c.discover().can("files_unpack"), False),
    "Capabilities.check_path": (lambda c, b: c.discover().check_path("files_stat", "/etc/passwd").allowed, False),
    "Capabilities.denial": (lambda c, b: c.discover().denial("files_unpack"), "unknown_endpoint"),
    "Capabilities.endpoints_for": (lambda c, b: "files_list" in c.discover().endpoints_for("files:read"), True),
    "Capabilities.enforcement": (lambda c, b: c.discover().enforcement("shell"), {}),
    "Capabilities.info": (lambda c, b: c.discover().info("files_list").path, "/files/list"),
    "Capabilities.limit": (lambda c, b: c.discover().limit("shell", "absent", 7), 7),
    "Capabilities.param": (lambda c, b: c.discover().param("shell", "absent", 7), 7),
    "Capabilities.paths": (lambda c, b: c.discover().paths("files_list").read_only, False),
    "Capabilities.require": (lambda c, b: c.discover().require("files_list"), None),
    "Capabilities.require_size": (lambda c, b: c.discover().require_size("files_upload_stream", 5), None),
    "Capabilities.rule": (lambda c, b: c.discover().rule("files_list"), None),
}
#: What that server does not have.
ABSENT: dict[str, Call] = {
    "openapi": lambda c, b: c.openapi(),
    "system.prometheus": lambda c, b: c.system.prometheus(),
    "files.append": lambda c, b: c.files.append(f"{b}/a", b"x"),
    "files.begin_upload": lambda c, b: c.files.begin_upload(f"{b}/new"),
    "files.chmod": lambda c, b: c.files.chmod(f"{b}/a", "600"),
    "files.edit": lambda c, b: c.files.edit(f"{b}/a", {"old": "alpha", "new": "beta"}),
    "files.unpack": lambda c, b: c.files.unpack(io.BytesIO(b"x"), str(b), format="tar"),
    "pty.create": lambda c, b: c.pty.create("/bin/sh"),
    "pty.connect": lambda c, b: c.pty.connect("none"),
    "code.contexts": lambda c, b: c.code.contexts(),
    "code.create_context": lambda c, b: c.code.create_context(),
}
#: What that server answers with a refusal here: no such terminal or command, and no browser is installed.
REFUSED: dict[str, tuple[Call, type[Exception]]] = {
    "pty.get": (lambda c, b: c.pty.get("none"), NotFoundError),
    "pty.resize": (lambda c, b: c.pty.resize("none", 80, 24), NotFoundError),
    "pty.close": (lambda c, b: c.pty.close("none"), NotFoundError),
    "commands.run": (lambda c, b: c.commands.run("absent"), NotFoundError),
    "browser.navigate": (lambda c, b: c.browser.navigate("http://192.0.2.1/"), ServerAPIError),
    "browser.click": (lambda c, b: c.browser.click("#x"), ServerAPIError),
    "browser.type": (lambda c, b: c.browser.type("#x", "y"), ServerAPIError),
    "browser.evaluate": (lambda c, b: c.browser.evaluate("1"), ServerAPIError),
    "browser.content": (lambda c, b: c.browser.content(), ServerAPIError),
    "browser.screenshot": (lambda c, b: c.browser.screenshot(), ServerAPIError),
    "browser.pdf": (lambda c, b: c.browser.pdf(), ServerAPIError),
}


@pytest.fixture
def client(whole_reference_server: ReferenceServer) -> Iterator[ServerClient]:
    with ServerClient(whole_reference_server.url, token=whole_reference_server.token) as client:
        yield client


@pytest.fixture
def base(whole_reference_server: ReferenceServer, request: pytest.FixtureRequest) -> Path:
    base = whole_reference_server.base / f"of {request.node.callspec.id}"
    base.mkdir()
    (base / "a").write_text("alpha")
    as_told(base / "repo", "then modify")
    return base


def test_every_method_is_tried(client: ServerClient) -> None:
    handles = (Capabilities, Process, Stdin, OutputStream, FileWatch)
    everything = surface(client, package="sandbox_sdk").union(
        *(surface(handle, f"{handle.__name__}.") - {f"{handle.__name__}.{name}" for name in _properties(handle)}
          for handle in handles)
    )  # fmt: skip
    assert {*WORKS, *ABSENT, *REFUSED} == everything


def _properties(kind: type) -> set[str]:
    return {name for name in dir(kind) if isinstance(getattr(kind, name), property)}


@pytest.mark.parametrize("name", WORKS)
def test_it_works(name: str, client: ServerClient, base: Path) -> None:
    call, result = WORKS[name]
    assert call(client, base) == result


@pytest.mark.parametrize("name", ABSENT)
def test_it_is_not_there_and_says_so(name: str, client: ServerClient, base: Path) -> None:
    with pytest.raises(EndpointNotAvailableError):
        ABSENT[name](client, base)
    client.discover()
    with pytest.raises(EndpointNotAvailableError):
        ABSENT[name](client, base)


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused(name: str, client: ServerClient, base: Path) -> None:
    call, kind = REFUSED[name]
    with pytest.raises(kind) as refused:
        call(client, base)
    assert not isinstance(refused.value, EndpointNotAvailableError)
