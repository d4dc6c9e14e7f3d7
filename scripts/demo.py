"""Start a sandbox, execute the quickstart notebook in it for real, and say what happened."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "notebooks" / "01_quickstart.ipynb"
OUT = ROOT / "out" / "quickstart"


def main() -> int:
    show_sandbox()
    if OUT.exists():
        shutil.rmtree(OUT)
    shutil.copytree(SOURCE.parent, OUT, ignore=shutil.ignore_patterns("*.svg", ".ipynb_checkpoints", "conftest.py"))
    notebook = nbformat.read(SOURCE, as_version=4)
    count = sum(cell.cell_type == "code" for cell in notebook.cells)
    print(f"executing {SOURCE.relative_to(ROOT)} ({count} code cells)", flush=True)
    begun, done = time.monotonic(), 0

    def report(cell: nbformat.NotebookNode, cell_index: int, **_: object) -> None:
        nonlocal done
        done += 1
        first = cell.source.strip().splitlines()[0] if cell.source.strip() else ""
        print(f"  [{done}/{count}] {first[:90]}", flush=True)

    client = NotebookClient(
        notebook,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(OUT)}},
        on_cell_executed=report,
        extra_arguments=["--log-level=ERROR"],  # no remarks about transports: nobody but this process talks to it
    )
    failure = None
    try:
        client.execute()
    except CellExecutionError as error:
        failure = error
    target = OUT / SOURCE.name
    nbformat.write(notebook, target)
    page = target.with_suffix(".html")
    page.write_text(HTMLExporter(exclude_input_prompt=True).from_notebook_node(notebook)[0], encoding="utf-8")
    if failure is not None:
        print(f"a cell failed: {failure.ename}: {failure.evalue}", file=sys.stderr)
        print(f"the notebook up to there: {target}", file=sys.stderr)
        return 1
    print(f"done in {time.monotonic() - begun:.0f} s")
    print(f"  executed notebook: {target}")
    print(f"  as a page:         {page}")
    return 0


def show_sandbox() -> None:
    """The main job once, outside a notebook: which isolation is active here, and a command in it."""
    from sandbox_sdk import Sandbox

    begun = time.monotonic()
    with Sandbox.local() as sandbox:
        ready = time.monotonic() - begun
        name = sandbox.run("uname -s").stdout.strip()
        print(f"local sandbox: isolation {sandbox.isolation}, ready in {ready * 1000:.0f} ms, runs {name}")


if __name__ == "__main__":
    raise SystemExit(main())
