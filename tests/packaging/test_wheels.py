"""What users install: both wheels, each in a clean environment."""

from __future__ import annotations

import venv
import zipfile
from pathlib import Path

import pytest

from sandbox_sdk._version import __version__ as client_version
from sandbox_server._version import __version__ as server_version
from tests.packaging.conftest import run


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    def make(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        venv.create(folder, with_pip=True)
        return folder / "bin"

    return make


def test_both_distributions_have_one_version():
    assert client_version == server_version


def test_no_file_is_owned_by_two_wheels(wheels):
    owned = [set(n for n in zipfile.ZipFile(path).namelist() if ".dist-info/" not in n) for path in wheels.values()]
    assert len(owned) == 2
    assert not owned[0] & owned[1]
    assert {name.partition("/")[0] for name in owned[0] | owned[1]} == {
        "sandbox_server", "sandbox_sdk", "sandbox_notebook",
    }  # fmt: skip


@pytest.mark.finding("R2-C7", "R-B3")
def test_the_server_wheel_needs_nothing_else(wheels, clean):
    bin = clean("server")
    run(bin / "pip", "install", "--quiet", "--no-index", wheels["notebook_sandbox_server"])
    assert run(bin / "agent-sandbox-server", "version").strip() == server_version
    shown = run(bin / "python", "-m", "sandbox_server", "check-config", "--preset", "transfer-only")
    assert shown.startswith("policy is valid")
    assert not (bin / "abx").exists()


SMOKE = """
from sandbox_sdk import Sandbox
with Sandbox.local() as sb:
    print(sb.run("echo hello from inside").stdout)
"""


def test_the_client_wheel_runs_a_command_in_a_sandbox(wheels, clean):
    bin, wheel = clean("client"), wheels["notebook_sandbox"]
    pip = (bin / "pip", "install", "--quiet", "--disable-pip-version-check")
    run(*pip, "--find-links", wheel.parent, wheel)
    assert "hello from inside" in run(bin / "python", "-I", "-c", SMOKE)
    loaded = run(bin / "python", "-I", "-c", "import sys, sandbox_sdk; print('IPython' in sys.modules)")
    assert loaded.strip() == "False"
