"""The tutorials: stored as they are built, run twice, by different tools, fit to be shown anywhere."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from scripts import notebooks

SOURCES = notebooks.sources()
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the tutorials, so that what they write stays out of the source tree."""
    notebooks.copy(tmp_path)
    return tmp_path


def stored(source: Path) -> NotebookNode:
    return nbformat.read(source.with_suffix(".ipynb"), 4)


def nbval(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "nbval.plugin", "--nbval"]
    command += ["--nbval-sanitize-with", "sanitize.cfg", "--rootdir", "."]
    command += ["-p", "no:cacheprovider", "-q", "-c", os.devnull, *names]
    own = {"IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    environ = {**notebooks.environment(os.environ), **own}
    environ = {name: value for name, value in environ.items() if not name.startswith("COVERAGE_")}  # others measure
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # loading the others takes longer than most notebooks
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=300)


def passed(done: subprocess.CompletedProcess[str]) -> int:
    found = re.search(r"(\d+) passed", done.stdout)
    return int(found.group(1)) if found and done.returncode == 0 else 0


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_stored_notebook_is_its_source_executed(source: Path) -> None:
    assert list(notebooks.stale(source)) == []


@pytest.mark.field(172)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_field_172_it_runs_as_a_reader_sees_it_and_every_later_run_shows_the_same(
    source: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First by nbclient and without the setting for comparable output; then as stored, by nbval.

    The second run finds what the first has left behind, as a reader's second "Run All" does; `make tutorials` shows
    that the first shows the same.
    """
    monkeypatch.delenv("SANDBOX_SDK_UI", raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
    notebook = notebooks.read_source(source)
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")

    done = nbval(folder, source.with_suffix(".ipynb").name)
    assert passed(done) == sum(cell.cell_type == "code" for cell in stored(source).cells), done.stdout + done.stderr


@pytest.fixture(params=SOURCES, ids=lambda source: source.stem)
def page(request: pytest.FixtureRequest) -> Iterator[str]:
    """The notebook as a page, without the two scripts that nbconvert itself would fetch."""
    body, _ = HTMLExporter(mathjax_url="", require_js_url="").from_notebook_node(stored(request.param))
    yield body


def test_as_a_page_it_needs_no_network(page: str) -> None:
    assert re.findall(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//[^"' >]+|url\(["']?(?:https?:)?//[^)]+""", page) == []


def test_as_a_page_it_shows_the_results(page: str) -> None:
    assert "is ready" in page
    assert "attachment:" not in page  # its pictures are in it
    if "Your first sandbox" in page:
        assert "365 days, 35 readings missing" in page and "path_not_allowed" in page
        assert "<svg" in page or "data:image/svg+xml" in page


def broken(change: str) -> NotebookNode:
    notebook = stored(SOURCES[0])
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code" and cell.outputs)
    match change:
        case "widgets":
            notebook.metadata["widgets"] = {}
        case "never run":
            cell.execution_count = None
        case "address":
            cell.outputs[0]["data"]["text/plain"] = "<object object at 0x7f528a88d850>"
        case "path":
            cell.outputs[0]["data"]["text/plain"] = "/tmp/x.123/work"
        case "widget":
            cell.outputs[0]["data"]["application/vnd.jupyter.widget-view+json"] = "{}"
    return notebook


@pytest.mark.parametrize("change", ["widgets", "never run", "address", "path", "widget"])
def test_what_must_not_be_stored_is_found(change: str) -> None:
    assert list(notebooks.faults(broken(""))) == []
    assert len(list(notebooks.faults(broken(change)))) == 1


def test_a_changed_source_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notebooks, "FOLDER", folder)
    assert notebooks.main(["--check"]) == 0
    source = folder / SOURCES[0].name
    source.write_text(source.read_text() + "\n# %%\n1 + 1\n")
    assert notebooks.main(["--check"]) == 1
    assert f"its cells are not those of {source.name}" in capsys.readouterr().err
    source.with_suffix(".ipynb").unlink()
    assert notebooks.main(["--check"]) == 1
    assert "it was never built" in capsys.readouterr().err


def notebook_of(*cells: NotebookNode) -> NotebookNode:
    return nbformat.v4.new_notebook(cells=list(cells), metadata=nbformat.from_dict(notebooks.METADATA))


def test_a_notebook_without_outputs_does_not_pass_for_compared(folder: Path) -> None:
    nbformat.write(notebook_of(nbformat.v4.new_code_cell("1 + 1")), folder / "cleared.ipynb")
    done = nbval(folder, "cleared.ipynb")
    assert done.returncode == 1 and "it was never executed" in done.stdout


def test_a_magic_that_does_not_exist_does_not_pass(folder: Path) -> None:
    output = nbformat.v4.new_output(
        "stream", name="stderr", text="UsageError: Line magic function `%nosuch` not found.\n"
    )
    nbformat.write(
        notebook_of(nbformat.v4.new_code_cell("%nosuch", execution_count=1, outputs=[output])), folder / "usage.ipynb"
    )
    done = nbval(folder, "usage.ipynb")
    assert done.returncode == 1 and "a magic reported a UsageError" in done.stdout


def test_the_measurements_are_made_by_their_script(folder: Path) -> None:
    file = folder / "data" / "station.csv"
    before = file.read_bytes()
    file.unlink()
    runpy.run_path(str(folder / "data" / "make_station.py"), run_name="__main__")
    assert file.read_bytes() == before
    rows = [line.split(",") for line in before.decode().splitlines()]
    assert len(rows) == 366 and all(len(row) == 7 for row in rows)
    assert sum(value == "" for row in rows for value in row) == 35
