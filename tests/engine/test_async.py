"""The asynchronous sandbox, and its blocking twins."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
from pathlib import Path

import pytest

from sandbox_sdk import AsyncSandbox, LocalSandbox, Sandbox, SandboxError, SandboxNotFoundError


def test_the_loop_keeps_turning_while_a_sandbox_starts_and_ends(machine: Path) -> None:
    async def main() -> tuple[int, str]:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        turning = asyncio.create_task(turn())
        async with await AsyncSandbox.local() as sandbox:
            result = await sandbox.run(["sh", "-c", "echo $HOME; pwd"])
        turning.cancel()
        return turns, result.stdout

    turns, out = asyncio.run(main())
    assert turns > 100
    assert out.splitlines()[-1] == "/workspace"
    assert os.listdir(machine) == []


@pytest.mark.field(119)
def test_field_119_one_sandbox_serves_several_event_loops(machine: Path) -> None:
    sandbox = asyncio.run(AsyncSandbox.local())

    async def once(number: int) -> bytes:
        await sandbox.files.write("a", str(number).encode())
        return await sandbox.files.read("a")

    assert [asyncio.run(once(number)) for number in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    asyncio.run(sandbox.kill())
    assert os.listdir(machine) == []


def test_many_start_at_once(machine: Path) -> None:
    async def main() -> list[str]:
        sandboxes = await asyncio.gather(*(AsyncSandbox.local() for _ in range(4)))
        names = sorted(sandbox.name for sandbox in sandboxes)
        await asyncio.gather(*(sandbox.kill() for sandbox in sandboxes))
        return names

    assert len(asyncio.run(main())) == 4
    assert os.listdir(machine) == []


def test_attach_create_and_list(machine: Path) -> None:
    async def main() -> None:
        async with await AsyncSandbox.create(name="mine", keep=True) as first:
            assert repr(first).startswith('<AsyncSandbox "mine": isolation ')
            assert (await first.discover()).can("shell")
            assert (await first.check("files_download_stream", path="/etc/passwd")).allowed is False
            first.forget_discovery()
        async with await AsyncSandbox.attach("mine") as second:
            assert [found.name for found in AsyncSandbox.list_local()] == ["mine"]
            async with second.server_at() as client:
                assert await client.health()
            await second.kill()
        with pytest.raises(SandboxNotFoundError):
            await AsyncSandbox.attach("mine")

    asyncio.run(main())


@pytest.mark.finding("R1-U8")
def test_blocking_twins_share_the_sandbox(machine: Path) -> None:
    sandbox = asyncio.run(AsyncSandbox.local())
    assert sandbox.run_sync(["echo", "twin"]).stdout == "twin\n"
    assert sandbox.discover_sync().can("shell")
    assert sandbox.check_sync("files_list", path="/workspace").allowed
    with sandbox.server_at_sync() as client:
        assert client.health()
    assert sandbox.running
    sandbox.aclose_sync()
    assert not sandbox.running and os.listdir(machine) == []
    asyncio.run(sandbox.aclose())


@pytest.mark.finding("R1-U8")
def test_a_blocking_twin_can_kill_inside_a_running_loop(machine: Path) -> None:
    async def main() -> None:
        sandbox = await AsyncSandbox.local()
        sandbox.kill_sync()
        assert not sandbox.running
        with pytest.raises(SandboxError):
            sandbox.run_sync("id")

    asyncio.run(main())
    assert os.listdir(machine) == []


def test_a_forgotten_one_is_ended_with_a_warning(machine: Path) -> None:
    sandbox = asyncio.run(AsyncSandbox.local())
    with pytest.warns(ResourceWarning, match='unclosed sandbox "sandbox-1"'):
        del sandbox
        gc.collect()
    assert os.listdir(machine) == []


@pytest.mark.field(134)
def test_field_134_both_classes_have_the_same_surface() -> None:
    def surface(cls: type) -> dict[str, list[str]]:
        found = {}
        for name, member in inspect.getmembers(cls):
            if not name.startswith("_") and not name.endswith("_sync"):
                function = inspect.unwrap(getattr(member, "__func__", getattr(member, "fget", member)))
                found[name.replace("aclose", "close")] = list(inspect.signature(function).parameters)
        return found

    assert surface(AsyncSandbox) == surface(Sandbox)
    assert {Sandbox.__module__, AsyncSandbox.__module__, LocalSandbox.__module__} == {"sandbox_sdk"}
