"""Notebooks with parameters, run by papermill as on a server: no page, no person."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat

CELLS = (
    "%load_ext sandbox_sdk\n%sandbox start --policy {policy}",
    "%%sandbox run --fill --out result\nprint(sum(range({count})))",
    "picker = %sandbox upload --pick\nassert picker.receipts == ()\nint(result.stdout)",
    "%%sandbox code --push count --pull doubled\ndoubled = count * 2\ndoubled",
    "%sandbox stop",
)


def papermill(folder: Path, policy: str, count: int) -> tuple[subprocess.CompletedProcess[str], nbformat.NotebookNode]:
    cells = [nbformat.v4.new_code_cell("count = 1", metadata={"tags": ["parameters"]})]
    cells += [nbformat.v4.new_code_cell(source.replace("{policy}", policy)) for source in CELLS]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "in.ipynb")
    environ = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    environ.pop("SANDBOX_SDK_UI", None)
    command = [sys.executable, "-m", "papermill", "in.ipynb", "out.ipynb", "-p", "count", str(count)]
    done = subprocess.run(
        [*command, "--no-progress-bar"], cwd=folder, env=environ, capture_output=True, text=True, timeout=120
    )
    return done, nbformat.read(folder / "out.ipynb", 4)


def test_parameters_reach_the_sandbox_and_results_come_back(tmp_path: Path) -> None:
    done, notebook = papermill(tmp_path, "workspace", 101)
    assert done.returncode == 0, done.stderr
    outputs = [cell.outputs for cell in notebook.cells[2:]]  # the parameters, and those that papermill put in
    assert outputs[1][0].text == "5050\n"
    assert outputs[2][-1].data["text/plain"] == "5050"
    assert outputs[3][0].data["text/plain"] == "202"
    assert "stopped" in outputs[4][0].data["text/plain"]


def test_a_refusal_ends_the_run_at_its_cell(tmp_path: Path) -> None:
    done, notebook = papermill(tmp_path, "read-only", 1)
    assert done.returncode == 1 and "denied: " in done.stderr and "shell_stream" in done.stderr
    ran = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert ran[-3:] == [None] * 3
