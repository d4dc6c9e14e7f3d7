"""A real JupyterLab and a real Chromium: notebooks are opened, run and looked at as a person would."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
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

from tests.support.ports import free_ports

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
#: What a busy machine may need for anything at all; only a failing test waits for so long.
PATIENCE = 120.0
# Lab's own news would cover what is to be seen.
_QUIET = {"fetchNews": "false", "checkForUpdates": False}

_PORTS = f"""\
import sys
sys.path.append({str(Path(__file__).parents[2])!r})
from tests.support.ports import kernels_have_such_ports
kernels_have_such_ports()
"""

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
        (directory / "config/jupyter_server_config.py").write_text(_PORTS)
        [self.port] = free_ports(1)
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
        until(lambda: self._answers(), PATIENCE, f"JupyterLab did not start; see {self.log}")

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
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def end_kernels(self) -> None:
        """What one test has left running must not slow the next."""
        for session in self.api("sessions"):
            with contextlib.suppress(urllib.error.HTTPError):  # it has ended meanwhile
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
        except (urllib.error.URLError, OSError):
            return False


class Page:
    """One open notebook."""

    def __init__(self, page: Any, name: str) -> None:
        self.page = page
        self.name = name

    def cells(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.page.evaluate(_CELLS, self.name)
        return found

    def run(self, index: int, *, wait: bool = True, seconds: float = PATIENCE) -> dict[str, Any]:
        """Run one cell by the keyboard; its state once it has ended."""
        before = self.cells()[index]["count"]
        # A click would wait for it to stand still, which below a pane that grows it may never do on a busy machine.
        self.page.locator(".jp-Notebook .jp-Cell").nth(index).locator(".cm-content").focus()
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
        until(lambda: self.page.evaluate(_READY, self.name), PATIENCE, "the notebook was not ready")


@contextlib.contextmanager
def browse(lab: Lab, name: str, *, width: int = 1280, height: int = 900) -> Iterator[Page]:
    """The notebook in single-document mode. Whatever happens there, no page may ask any other host for anything."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, headless=True)
        try:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.set_default_timeout(PATIENCE * 1000)
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
    """Wait for it: so many seconds where nothing else is going on, and in any case as long as a busy machine needs."""
    deadline = time.monotonic() + max(seconds, PATIENCE)
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(failure)
        time.sleep(0.05)
