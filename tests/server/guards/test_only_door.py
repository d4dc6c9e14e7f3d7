"""Nothing but the guards turns text into a place in the file system."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sandbox_server

PACKAGE = Path(sandbox_server.__file__).parent
RACY = {
    "os.path.realpath", "os.path.exists", "os.path.lexists", "os.path.isfile", "os.path.isdir", "os.path.islink",
    "shutil.move", "shutil.rmtree", "shutil.copy", "shutil.copytree", "open",
}  # fmt: skip

#: Paths of the operator or of the kernel, never a caller's.
CONFIGURED = {
    "audit.py": {"open"},  # the audit file
    "confine.py": {"os.path.exists"},  # the interpreter's own files
    "contexts/runner.py": {"open"},  # a descriptor; the program runs in the child, and may open what it likes
    "http/peer.py": {"open"},  # /proc/net
    "machinery.py": {"os.path.exists", "os.path.isdir"},  # the base directory
    "policy/reading.py": {"open"},  # the policy file
    "secrecy.py": {"open"},  # /proc/self
    "verifying.py": {"open"},  # audit files that the operator names
}


def racy_names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Attribute, ast.Name)) and ast.unparse(node) in RACY:
            yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (name for name in (f"{node.module}.{alias.name}" for alias in node.names) if name in RACY)


@pytest.mark.finding("R2-S8")
def test_no_other_module_checks_a_path_and_uses_it_later() -> None:
    found: dict[str, set[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        place = file.relative_to(PACKAGE)
        if place.parts[0] != "guards" and (names := set(racy_names(file.read_text()))):
            found[str(place)] = names
    assert {place: names for place, names in found.items() if names - CONFIGURED.get(place, set())} == {}


def test_the_search_finds_what_it_is_for() -> None:
    source = "import os.path, shutil\nfrom shutil import rmtree\nwith open('x'): os.path.isdir('y')\nshutil.move(1, 2)"
    assert set(racy_names(source)) == {"shutil.rmtree", "open", "os.path.isdir", "shutil.move"}
    assert set(racy_names("location.open()\nos.open('x', 0)\ndef open_directory(): pass")) == set()
