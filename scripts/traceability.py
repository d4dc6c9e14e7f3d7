"""The page that leads from each promise and each fault to the tests that show it. Reads the tests, runs none."""

from __future__ import annotations

import ast
import re
import runpy
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_FAULT = re.compile(r"test_field_(\d{3})_")

#: A finding or a fault's number -> the tests that are marked with it.
Shown = Mapping[str | int, list[str]]


def page(note: str) -> str:
    """``docs/traceability.md``."""
    findings = runpy.run_path(str(ROOT / "tests/support/findings.py"))
    faults = runpy.run_path(str(ROOT / "tests/support/faults.py"))
    shown = tests_shown()
    lines = [
        f"<!-- {note} -->",
        "# Traceability",
        "",
        "What must hold, and the tests that show it. `pytest --findings` runs them and prints the outcome.",
        "",
        "## Findings of the design review",
        "",
        *_table(findings["FINDINGS"], findings["LATER"], shown),
        "",
        "## Faults met in the field",
        "",
        "What went wrong in comparable systems. Those that wait say for what.",
        "",
        *_table(faults["FAULTS"], faults["LATER"], shown),
    ]
    return "\n".join(lines) + "\n"


def _table(promises: Mapping[str, str] | Mapping[int, str], later: Mapping[str | int, str], shown: Shown) -> list[str]:
    lines = ["| id | what | tests |", "| --- | --- | --- |"]
    for key, what in promises.items():
        tests = "<br>".join(f"`{test}`" for test in shown.get(key, ()))
        cells = (str(key), what, tests or f"waits for: {later.get(key, 'its tests')}")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def tests_shown() -> Shown:
    """Every test by what it shows; one entry for a whole module where all of it does."""
    found: dict[str | int, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for key, test in _marked(path):
            found[key].add(test)
    return {key: sorted(tests) for key, tests in found.items()}


def _marked(path: Path) -> Iterator[tuple[str | int, str]]:
    text = path.read_text(encoding="utf-8")
    if "mark.finding" not in text and "test_field_" not in text:
        return  # parsing all tests takes a while
    name = path.relative_to(ROOT).as_posix()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets):
            yield from ((key, name) for key in _keys(node.value))
        elif isinstance(node, ast.ClassDef):
            of_all = [key for decorator in node.decorator_list for key in _keys(decorator)]
            yield from ((key, f"{name}::{node.name}") for key in of_all)
            for inner in node.body:
                yield from ((key, f"{name}::{node.name}::{test}") for key, test in _of_test(inner))
        else:
            yield from ((key, f"{name}::{test}") for key, test in _of_test(node))


def _of_test(node: ast.stmt) -> Iterator[tuple[str | int, str]]:
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or not node.name.startswith("test_"):
        return
    for decorator in node.decorator_list:
        yield from ((key, node.name) for key in _keys(decorator))
    if match := _FAULT.match(node.name):
        yield int(match[1]), node.name


def _keys(expression: ast.expr) -> Iterator[str | int]:
    """What the `finding` and `field` marks in an expression name, also those inside of parameters."""
    for node in ast.walk(expression):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("finding", "field")
        ):
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, (str, int)):
                    yield argument.value
