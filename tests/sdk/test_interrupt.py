"""Stopping in the middle: Ctrl-C, cancelled tasks. The work ends on the other side, and nothing half remains."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sandbox_sdk import AsyncServerClient, ServerClient
from tests.sdk.scripted import Exchange, scripted
from tests.support.server import ServerProcess
from tests.support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
_MORE = 8 << 30  # bytes: more than is moved before a test acts, and no more than the disk has free


async def _either(begun: asyncio.Event, task: asyncio.Task[object]) -> None:
    """Wait until the work has begun; work that ended before tells why."""
    waiting = asyncio.ensure_future(begun.wait())
    await asyncio.wait({waiting, task}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()


def interrupted(script: str, *arguments: str) -> None:
    """Run a script, send it Ctrl-C once it has printed something, and expect it to end by that."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout and process.stderr
        assert process.stdout.readline().strip(), process.stderr.read()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert errors.rstrip().endswith("KeyboardInterrupt"), errors
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


RUN = """
    import sys
    from sandbox_sdk import ServerClient
    with ServerClient(sys.argv[1]) as client:
        client.process.run(["sh", "-c", f"echo $$ > {sys.argv[2]}/pid; echo ready; sleep 60 & wait"], on_stdout=print)
"""


@pytest.mark.finding("R-A3")
def test_an_interrupted_run_stops_the_command(server: ServerProcess, home: Path) -> None:
    interrupted(RUN, server.url, str(home))
    pid = (home / "pid").read_text().strip()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))


UPLOAD = f"""
    import sys, time
    from sandbox_sdk import ServerClient
    def slowly():
        while True:
            yield bytes(1 << 20)
    def progress(done, total):
        print(done)
        time.sleep(0.2)  # longer than from report to report, so that every piece takes as long
    with open("/tmp/sparse-" + str(__import__("os").getpid()), "wb+") as file:
        __import__("os").unlink(file.name)
        file.truncate({_MORE})
        with ServerClient(sys.argv[1]) as client:
            client.files.write(sys.argv[2] + "/f", file, progress=progress)
"""


def test_an_interrupted_upload_leaves_the_old_file(server: ServerProcess, home: Path) -> None:
    (home / "f").write_text("old")
    interrupted(UPLOAD, server.url, home.name)
    eventually(lambda: os.listdir(home) == ["f"])
    assert (home / "f").read_text() == "old"


DOWNLOAD = """
    import sys, time
    from sandbox_sdk import ServerClient
    def progress(done, total):
        print(done)
        time.sleep(0.2)  # longer than from report to report, so that every piece takes as long
    with ServerClient(sys.argv[1]) as client:
        client.files.download(sys.argv[2] + "/f", sys.argv[3], progress=progress)
"""


def test_an_interrupted_download_leaves_the_local_file(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    with (home / "f").open("wb") as file:
        file.truncate(_MORE)
    (tmp_path / "f").write_text("old")
    interrupted(DOWNLOAD, server.url, home.name, str(tmp_path / "f"))
    assert os.listdir(tmp_path) == ["f"] and (tmp_path / "f").read_text() == "old"


@pytest.mark.field(130)
def test_field_130_a_cancelled_run_stops_the_command(server: ServerProcess, home: Path) -> None:
    async def main() -> None:
        async with AsyncServerClient(server.url) as client:
            script = f"echo $$ > {home}/pid; sleep 60"
            task = asyncio.ensure_future(client.process.run(["sh", "-c", script]))
            while not (home / "pid").exists() or not (home / "pid").read_text():
                await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await client.health(), "the client goes on working"

    asyncio.run(main())
    pid = (home / "pid").read_text().strip()
    eventually(lambda: not os.path.exists(f"/proc/{pid}"))


@pytest.mark.field(130)
def test_field_130_a_cancelled_download_leaves_the_local_file(
    server: ServerProcess, home: Path, tmp_path: Path
) -> None:
    with (home / "f").open("wb") as file:
        file.truncate(_MORE)
    (tmp_path / "f").write_text("old")

    async def main() -> None:
        begun = asyncio.Event()
        async with AsyncServerClient(server.url) as client:
            task = asyncio.ensure_future(
                client.files.download(f"{home.name}/f", tmp_path / "f", progress=lambda *_: begun.set())
            )
            await _either(begun, task)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert os.listdir(tmp_path) == ["f"], "nothing is left by the time the task has ended"

    asyncio.run(main())
    assert (tmp_path / "f").read_text() == "old"


@pytest.mark.field(130)
def test_field_130_a_cancelled_upload_leaves_the_old_file(server: ServerProcess, home: Path, tmp_path: Path) -> None:
    with (tmp_path / "f").open("wb") as file:
        file.truncate(_MORE)
    (home / "f").write_text("old")

    async def main() -> None:
        begun = asyncio.Event()
        async with AsyncServerClient(server.url) as client:
            task = asyncio.ensure_future(
                client.files.upload(tmp_path / "f", f"{home.name}/f", progress=lambda *_: begun.set())
            )
            await _either(begun, task)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    eventually(lambda: os.listdir(home) == ["f"])
    assert (home / "f").read_text() == "old"


@pytest.mark.field(130)
def test_field_130_a_download_that_hangs_can_be_cancelled(tmp_path: Path) -> None:
    def stalled(exchange: Exchange) -> None:
        exchange.head(200, {"Content-Length": str(8 << 20), "ETag": '"v"'})
        exchange.send(bytes(4 << 20))
        exchange.connection.recv(1)

    async def main(url: str) -> None:
        begun = asyncio.Event()
        async with AsyncServerClient(url) as client:
            task = asyncio.ensure_future(client.files.download("f", tmp_path / "f", progress=lambda *_: begun.set()))
            await begun.wait()
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, 60)

    with scripted(stalled) as server:
        asyncio.run(main(server.url))
    assert os.listdir(tmp_path) == []


@pytest.mark.field(62)
def test_field_062_a_slow_reader_holds_up_nobody_else(server: ServerProcess) -> None:
    with ServerClient(server.url) as client:
        process = client.process.start(["sh", "-c", "head -c 3000000 /dev/zero; sleep 0.1; echo end"])
        with process.follow() as slow:
            next(slow)
            with process.follow() as quick:
                events = list(quick)
            assert events[-1].kind == "exit"
            assert process.wait(60) == 0
            assert [event.kind for event in slow][-1] == "exit"
