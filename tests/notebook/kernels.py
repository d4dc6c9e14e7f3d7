"""A real kernel, driven as a front end drives it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

PATIENCE = 120.0


@dataclass
class Cell:
    """What a front end saw of one cell."""

    stdout: str = ""
    stderr: str = ""
    data: list[dict[str, str]] = field(default_factory=list)
    updates: list[dict[str, str]] = field(default_factory=list)
    error: tuple[str, str, list[str]] | None = None


class Kernel:
    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client

    def run(
        self, source: str, when: Callable[[Cell], bool] | None = None, then: Callable[[], None] | None = None
    ) -> Cell:
        """Run a cell to its end; as soon as ``when`` holds for what has come, do ``then``, once."""
        message = self.client.execute(source)
        cell = Cell()
        while True:
            content = self._next(message)
            if content is None:
                return cell
            self._take(cell, content)
            if then is not None and when is not None and when(cell):
                then, act = None, then
                act()

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def _next(self, message: str) -> dict[str, Any] | None:
        while True:
            got = self.client.get_iopub_msg(timeout=PATIENCE)
            if got["parent_header"].get("msg_id") != message:
                continue
            if got["msg_type"] == "status" and got["content"]["execution_state"] == "idle":
                return None
            return {"type": got["msg_type"], **got["content"]}

    def _take(self, cell: Cell, content: dict[str, Any]) -> None:
        match content["type"]:
            case "stream" if content["name"] == "stdout":
                cell.stdout += content["text"]
            case "stream":
                cell.stderr += content["text"]
            case "display_data" | "execute_result":
                cell.data.append(content["data"])
            case "update_display_data":
                cell.updates.append(content["data"])
            case "error":
                cell.error = content["ename"], content["evalue"], content["traceback"]


@contextmanager
def kernel(folder: Path, environ: dict[str, str]) -> Iterator[Kernel]:
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(folder), env=environ, startup_timeout=PATIENCE)
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=False)
        manager.cleanup_resources()
