"""Sandboxes of a real Jupyter kernel: its restart, its interrupt, its end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

from sandbox_sdk import Sandbox
from tests.support.processes import processes_with
from tests.support.waiting import eventually

SECONDS = 120


class Kernel:
    """A kernel and its client, used cell by cell."""

    def __init__(self) -> None:
        self.manager, self.client = start_new_kernel(startup_timeout=SECONDS, kernel_name="python3")

    def run(self, code: str) -> str:
        """The text that a cell prints."""
        printed: list[str] = []

        def note(message: dict[str, Any]) -> None:
            content = message["content"]
            printed.append(content.get("text") or "\n".join(content.get("traceback", ())))

        self.client.execute_interactive(code, output_hook=note, timeout=SECONDS)
        return "".join(printed)

    def restart(self) -> None:
        self.manager.restart_kernel(now=False)
        self.client.wait_for_ready(timeout=SECONDS)

    def stop(self) -> None:
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(machine: Path) -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.stop()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_restart_ends_sandboxes_but_not_the_kept_ones(kernel: Kernel, machine: Path) -> None:
    word = f"{1000 + os.getpid()}.125"
    start = "from sandbox_sdk import Sandbox\nsb = Sandbox.local()\nkept = Sandbox.local(name='mine', keep=True)\n"
    assert kernel.run(start + "print(sb.name, kept.name)") == "sandbox-1 mine\n"
    kernel.run(f"a = sb.process.start(['sleep', '{word}1'])\nb = kept.process.start(['sleep', '{word}2'])")
    eventually(lambda: processes_with(f"{word}1") and processes_with(f"{word}2"))
    kernel.restart()
    eventually(lambda: not processes_with(f"{word}1"))
    assert processes_with(f"{word}2")
    again = "from sandbox_sdk import Sandbox\nsb = Sandbox.local(name='mine', keep=True)\n"
    assert kernel.run(again + "print([p.running for p in sb.process.list()])") == "[True]\n"
    with Sandbox.attach("mine") as sandbox:
        sandbox.kill()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_killed_kernel_takes_its_sandbox_with_it(kernel: Kernel, machine: Path) -> None:
    kernel.run("from sandbox_sdk import Sandbox\nsb = Sandbox.local()")
    assert len(os.listdir(machine)) == 1
    kernel.manager.shutdown_kernel(now=True)
    eventually(lambda: os.listdir(machine) == [])
