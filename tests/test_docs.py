"""What the pages say is true: examples run, links lead somewhere, every endpoint and code is explained."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import make_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sandbox_sdk import Sandbox
from sandbox_server.catalogue import builtin
from sandbox_server.messages import REFUSALS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_example_of_the_readme_does_what_it_says(tmp_path):
    (example,) = blocks(ROOT / "README.md", "python")
    assert len(example.splitlines()) <= 12
    done = subprocess.run([sys.executable, "-c", example], capture_output=True, text=True, cwd=tmp_path, timeout=120)
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


@pytest.mark.field(175)
def test_field_175_the_adapter_for_a_framework_does_what_its_page_says(monkeypatch):
    """The framework itself is not here; its answers are plain records."""
    protocol: Any = ModuleType("deepagents.backends.protocol")
    protocol.ExecuteResponse = make_dataclass("ExecuteResponse", ["output", "exit_code", ("truncated", bool, False)])
    protocol.FileUploadResponse = make_dataclass("FileUploadResponse", ["path", "error"])
    protocol.FileDownloadResponse = make_dataclass("FileDownloadResponse", ["path", "content", "error"])
    backends: Any = ModuleType("deepagents.backends.sandbox")
    backends.BaseSandbox = object
    for module in (ModuleType("deepagents"), ModuleType("deepagents.backends"), protocol, backends):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    names: dict[str, Any] = {}
    (adapter,) = blocks(ROOT / "docs" / "topics" / "frameworks.md", "python")
    exec(compile(adapter, "frameworks.md", "exec"), names)
    with Sandbox.local() as sandbox:
        backend = names["PolicedSandbox"](sandbox)
        done = backend.execute("echo out; echo bad >&2; exit 3")
        assert (sorted(done.output.split()), done.exit_code, done.truncated) == (["bad", "out"], 3, False)
        assert backend.execute(f"echo {'x' * 9000} | wc -c").output == "9001\n"
        assert backend.execute("sleep 60", timeout=1).exit_code == 124
        files = [("/workspace/new/a.txt", b"one\ntwo\nthree\n"), ("/etc/a", b""), ("a", b"")]
        assert [one.error for one in backend.upload_files(files)] == [None, "permission_denied", "invalid_path"]
        found = backend.download_files(["/workspace/new/a.txt", "/workspace/new", "/workspace/none"])
        assert [(one.content, one.error) for one in found] == [
            (files[0][1], None), (None, "file_not_found"), (None, "file_not_found"),
        ]  # fmt: skip
        assert [entry.name for entry in sandbox.files.list("new")] == ["a.txt"]
        assert [hit.path for hit in sandbox.files.search(".", "*.txt")] == ["/workspace/new/a.txt"]
        (hit,) = sandbox.files.search("new", contents="two", context=1)
        assert (hit.line, [*hit.before], [*hit.after]) == (2, ["one"], ["three"])
        assert sandbox.files.read("new/a.txt", offset=4, length=3) == b"two"
