"""A real JupyterLab and a real Chromium: notebooks are opened, run and looked at as a person would."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat

TOKEN = "test-token"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# Lab's own news would cover what is to be seen.
_QUIET = {"fetchNews": "false", "checkForUpdates": False}

# The status shown beside the notebook is idle for a moment before the kernel is there; only the session knows.
_READY = """async (name) => {
  const app = window.jupyterapp;
  if (!app) return false;
  await app.restored;
  for (const widget of app.shell.widgets('main')) {
    if (!widget.context || !widget.context.path.endsWith(name)) continue;
    await widget.context.ready; await widget.sessionContext.ready; await widget.revealed;
    const kernel = widget.sessionContext.session && widget.sessionContext.session.kernel;
    if (!kernel) return false;
    await kernel.info;
    return kernel.status === 'idle' && kernel.connectionStatus === 'connected';
  }
  return false;
}"""
_CELLS = """(name) => {
  for (const widget of window.jupyterapp.shell.widgets('main'))
    if (widget.context && widget.context.path.endsWith(name))
      return widget.content.widgets.map((cell) => ({
        count: cell.model.executionCount ?? null,
        prompt: cell.promptNode ? cell.promptNode.textContent : '',
        outputs: cell.model.outputs ? cell.model.outputs.toJSON() : [],
      }));
}"""

RESTART = """(name) => {
  for (const widget of window.jupyterapp.shell.widgets('main'))
    if (widget.context && widget.context.path.endsWith(name)) return widget.sessionContext.session.kernel.restart();
}"""


class Lab:
    """One server of notebooks, in a directory of its own, with nothing of this account's settings."""

    def __init__(self, directory: Path, *, python: str = sys.executable) -> None:
        self.directory = directory
        self.notebooks = directory / "notebooks"
        self.notebooks.mkdir(parents=True)
        settings = directory / "config/lab/user-settings/@jupyterlab/apputils-extension"
        settings.mkdir(parents=True)
        (settings / "notification.jupyterlab-settings").write_text(json.dumps(_QUIET))
        self.port = _free_port()
        self._scratch = tempfile.mkdtemp(prefix="lab-")
        environ = {
            **os.environ,
            **{f"JUPYTER_{name.upper()}_DIR": str(directory / name) for name in ("config", "data", "runtime")},
            "IPYTHONDIR": str(directory / "ipython"),
            "TMPDIR": self._scratch,  # where kept sandboxes are found: not those of tests beside these
        }
        environ.pop("SANDBOX_SDK_UI", None)
        self.log = directory / "lab.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(python, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1"),
                    *(f"--port={self.port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"),
                    *("--LabApp.expose_app_in_browser=True", "--LabApp.extension_manager=readonly"),
                    f"--ServerApp.root_dir={self.notebooks}",
                    f"--LabApp.user_settings_dir={directory / 'config/lab/user-settings'}",
                ],
                env=environ,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        until(lambda: self._answers(), 60, f"JupyterLab did not start; see {self.log}")

    def write(self, name: str, *cells: str, kernel: str = "python3") -> str:
        notebook = nbformat.v4.new_notebook()
        notebook.cells = [nbformat.v4.new_code_cell(source, id=f"cell-{n}") for n, source in enumerate(cells)]
        notebook.metadata.kernelspec = {"name": kernel, "display_name": kernel, "language": "python"}
        nbformat.write(notebook, self.notebooks / name)
        return name

    def address(self, name: str) -> str:
        """Where a notebook is by itself, in single-document mode."""
        return f"http://127.0.0.1:{self.port}/doc/tree/{name}?token={TOKEN}&reset"

    def api(self, path: str, method: str = "GET") -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/{path}", method=method, headers={"Authorization": f"token {TOKEN}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def end_kernels(self) -> None:
        """What one test has left running must not slow the next."""
        for session in self.api("sessions"):
            self.api(f"sessions/{session['id']}", "DELETE")

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _answers(self) -> bool:
        try:
            return bool(self.api("status"))
        except (urllib.error.URLError, ConnectionError):
            return False


class Page:
    """One open notebook."""

    def __init__(self, page: Any, name: str) -> None:
        self.page = page
        self.name = name

    def cells(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.page.evaluate(_CELLS, self.name)
        return found

    def run(self, index: int, *, wait: bool = True, seconds: float = 60) -> dict[str, Any]:
        """Run one cell by the keyboard; its state once it has ended."""
        before = self.cells()[index]["count"]
        self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        if wait:
            until(lambda: self._ran(index, before), seconds, f"cell {index} did not end")
        cell = self.cells()[index]
        failed = [output["evalue"] for output in cell["outputs"] if output["output_type"] == "error"]
        assert not wait or not failed, f"cell {index} failed: {failed[0]}"
        return cell

    def _ran(self, index: int, before: object) -> bool:
        cell = self.cells()[index]
        return cell["count"] is not None and cell["count"] != before and "*" not in (cell["prompt"] or "")

    def reload(self) -> None:
        self.page.reload()
        self.wait_ready()

    def wait_ready(self) -> None:
        until(lambda: self.page.evaluate(_READY, self.name), 60, "the notebook was not ready")


@contextlib.contextmanager
def browse(lab: Lab, name: str, *, width: int = 1280, height: int = 900) -> Iterator[Page]:
    """The notebook in single-document mode. Whatever happens there, no page may ask any other host for anything."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, headless=True)
        try:
            page = browser.new_page(viewport={"width": width, "height": height})
            asked: set[str] = set()
            page.context.on("request", lambda request: asked.add(request.url))
            page.on("websocket", lambda socket: asked.add(socket.url))
            page.goto(lab.address(name))
            opened = Page(page, name)
            opened.wait_ready()
            yield opened
            ours = (f"http://127.0.0.1:{lab.port}/", f"ws://127.0.0.1:{lab.port}/", "data:", "blob:")
            assert not [address for address in asked if not address.startswith(ours)]
        finally:
            browser.close()


def until(condition: Callable[[], object], seconds: float, failure: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(failure)
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port
