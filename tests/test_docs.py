"""What the pages say is true: examples run, links lead somewhere, every endpoint and code is explained."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_server.catalogue import builtin
from sandbox_server.messages import REFUSALS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_example_of_the_readme_does_what_it_says(tmp_path):
    (example,) = blocks(ROOT / "README.md", "python")
    assert len(example.splitlines()) <= 12
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 0, done.stderr
    first, blank, refusal = done.stdout.splitlines()
    assert (first, blank) == ("6", "")
    assert refusal.startswith("path_not_allowed - ")
    assert len(refusal) > len("path_not_allowed - ")
    assert list(tmp_path.iterdir()) == []


def test_the_readme_names_commands_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    commands = set(re.findall(r"`?make (\w+)`?", (ROOT / "README.md").read_text()))
    assert commands >= {"demo", "test", "lab"}
    for command in commands:
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tests_that_a_page_names_exist(page):
    if page.name == "traceability.md":
        return  # computed from the tests; `generate.py --check` compares it
    for file, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text(encoding="utf-8")):
        assert (ROOT / file).exists(), file
        tests = (ROOT / file).read_text(encoding="utf-8")
        assert not name or re.search(rf"^(async )?def {name}\(", tests, re.MULTILINE), f"{file}::{name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target


def test_every_endpoint_and_every_refusal_code_is_in_the_reference():
    reference = (ROOT / "docs" / "endpoints.md").read_text()
    for name in [*builtin(), *REFUSALS]:
        assert f"`{name}`" in reference, name


@pytest.mark.finding("R1-F8")
def test_every_default_limit_is_written_down():
    reference = (ROOT / "docs" / "endpoints.md").read_text()
    for endpoint in builtin().values():
        for name, value in endpoint.limits.items():
            assert f"`{name}`" in reference, (endpoint.id, name, value)


@pytest.mark.finding("R-A2")
def test_the_docs_say_which_api_is_for_which_job():
    page = (ROOT / "docs" / "topics" / "architecture.md").read_text()
    section = page.split("## Which API for which job")[1]
    for name in ("sb.run", "sb.process.stream", "sb.process.start", "sb.files.upload", "sb.discover"):
        assert name in section
