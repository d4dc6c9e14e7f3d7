"""Build the tutorials: `notebooks/NN_*.py` (source, percent format) → `notebooks/NN_*.ipynb` (with outputs).

Each is executed for real, in a copy of the folder, with the output that does not depend on time. ``--check`` changes
nothing: it compares the cells and looks for what must not be in a stored notebook; nbval compares the outputs.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
PICTURES = FOLDER.parent / "docs" / "images"
METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python"},
}
TIMEOUT = 120
PICTURE = re.compile(r"\]\(\.\./docs/images/([\w-]+\.png)\)")
UNSTABLE = {
    "the address of an object": re.compile(r"\bat 0x[0-9a-f]{6,}"),
    "a path of the machine that built it": re.compile(r"/(?:tmp|root|home/(?!user\b)[\w.-]+|work)/"),
    "a widget, which needs a running kernel": re.compile(r"application/vnd\.jupyter\.widget"),
}


def sources() -> list[Path]:
    return sorted(FOLDER.glob("[0-9][0-9]_*.py"))


def copy(folder: str | Path) -> None:
    """The tutorials and what they need into another folder; not what those that run at this moment have made."""
    for path in FOLDER.iterdir():
        if path.suffix in (".py", ".ipynb", ".cfg"):
            shutil.copy(path, folder)
    shutil.copytree(FOLDER / "data", Path(folder, "data"))


def read_source(source: Path) -> NotebookNode:
    """The notebook of a source, with cell ids that stay."""
    notebook: NotebookNode = jupytext.read(source, fmt="py:percent")  # guessing would take a shell's "cat" for a magic
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"{source.stem}-{number}"[:64]
        cell.metadata = nbformat.from_dict({"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {})
        if cell.cell_type == "markdown":
            take_in_pictures(cell)
    return notebook


def take_in_pictures(cell: NotebookNode) -> None:
    """Carry the pictures of a text in the notebook: Jupyter, GitHub and the site would each look elsewhere for them."""
    found = {name: (PICTURES / name).read_bytes() for name in PICTURE.findall(cell.source)}
    if found:
        carried = {name: {"image/png": base64.b64encode(data).decode("ascii")} for name, data in found.items()}
        cell["attachments"] = nbformat.from_dict(carried)
        cell["source"] = PICTURE.sub(r"](attachment:\1)", cell.source)


def execute(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Run every cell with `folder` as the working directory; a cell that fails unexpectedly raises."""
    client = NotebookClient(
        notebook,
        timeout=TIMEOUT,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        store_widget_state=False,
        record_timing=False,
    )
    client.execute(env=environment(os.environ))
    return notebook


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the kernel sees: output that can be compared, and nobody's personal settings."""
    own = {"SANDBOX_SDK_UI": "html", "IPYTHONDIR": tempfile.gettempdir() + "/ipython-of-notebooks"}
    return {**environ, **own}


def tidy(notebook: NotebookNode) -> NotebookNode:
    """The same metadata for everybody, and one stream output where a stream came in pieces."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        outputs: list[NotebookNode] = []
        for output in cell.get("outputs", []):
            last = outputs[-1] if outputs else None
            if last is not None and output.output_type == "stream" and last.get("name") == output.name:
                last.text += output.text
            else:
                outputs.append(output)
        if "outputs" in cell:
            cell.outputs = outputs
    return notebook


def build(source: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="notebooks-") as folder:
        copy(folder)
        notebook = tidy(execute(read_source(source), Path(folder)))
    nbformat.write(notebook, source.with_suffix(".ipynb"))


def faults(notebook: NotebookNode) -> Iterator[str]:
    """What must not be in a stored notebook."""
    if "widgets" in notebook.metadata:
        yield "metadata.widgets: GitHub may refuse to show the notebook"
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        if cell.execution_count is None:
            yield f"cell {number} was never executed"
        stored = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(outputs=cell.outputs)]))
        for what, pattern in UNSTABLE.items():
            found = pattern.search(stored)
            if found:
                yield f"cell {number} shows {what}: {found.group()}"


def stale(source: Path) -> Iterator[str]:
    """Where the stored notebook differs from its source, and its faults."""
    target = source.with_suffix(".ipynb")
    if not target.exists():
        yield "it was never built"
        return
    stored = nbformat.read(target, 4)
    if cells(stored) != cells(read_source(source)):
        yield f"its cells are not those of {source.name}"
    yield from faults(stored)


def cells(notebook: NotebookNode) -> list[tuple[str, str, list[str]]]:
    return [(cell.cell_type, cell.source, list(cell.metadata.get("tags", []))) for cell in notebook.cells]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare and look for faults")
    parser.add_argument("name", nargs="*", help="only those whose name begins so")
    options = parser.parse_args(arguments)
    chosen = [source for source in sources() if not options.name or source.name.startswith(tuple(options.name))]
    found = 0
    for source in chosen:
        if not options.check:
            build(source)
            print(f"built {source.with_suffix('.ipynb').name}")
        for fault in stale(source):
            found += 1
            print(f"{source.with_suffix('.ipynb').name}: {fault}", file=sys.stderr)
    if found and options.check:
        print("python scripts/notebooks.py builds them again", file=sys.stderr)
    return int(bool(found) or not chosen)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
