"""The server alone: standard library only, on every Python found, from a zipapp."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_server._version import __version__
from tests.packaging.running import serving
from tests.support.interpreters import interpreters

SERVER = Path(__file__).resolve().parents[2] / "server"


def test_the_same_source_makes_the_same_file(archive, tmp_path):
    run = [sys.executable, SERVER.parent / "scripts" / "onefile.py", tmp_path / "again.pyz"]
    subprocess.run(run, check=True, capture_output=True)
    assert (tmp_path / "again.pyz").read_bytes() == archive.read_bytes()


def test_the_file_is_a_program(archive):
    assert os.access(archive, os.X_OK)
    done = subprocess.run([archive, "version"], capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stdout) == (0, f"{__version__}\n"), done.stderr


@pytest.mark.finding("R2-C7")
@pytest.mark.parametrize("version", sorted(interpreters()))
def test_nothing_outside_the_standard_library_is_imported(version, archive):
    code = (
        "import sys, pkgutil; sys.path.insert(0, sys.argv[1]); import sandbox_server\n"
        "for module in pkgutil.walk_packages(sandbox_server.__path__, 'sandbox_server.'):\n"
        "    if not module.name.endswith('__main__'): __import__(module.name)\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names) - {'__main__'}))\n"
    )
    done = subprocess.run(
        [interpreters()[version], "-I", "-S", "-c", code, str(SERVER)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['sandbox_server']"


@pytest.mark.finding("R-B4")
def test_healthcheck_tells_a_running_server_from_a_missing_one(archive, tmp_path):
    command = [interpreters()[min(interpreters())], "-I", "-S", str(archive)]
    with serving(command, tmp_path) as server:
        assert subprocess.run([*command, "healthcheck", "--port", str(server.port)]).returncode == 0
    with socket.socket() as bound:  # a port that is taken, and that nobody listens on
        bound.bind(("127.0.0.1", 0))
        port = str(bound.getsockname()[1])
        assert subprocess.run([*command, "healthcheck", "--port", port, "--timeout", "0.5"]).returncode == 1


@pytest.mark.finding("R-B4")
def test_healthcheck_gives_up_on_a_server_that_never_answers(archive):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = str(silent.getsockname()[1])
        command = [interpreters()[min(interpreters())], str(archive), "healthcheck", "--port", port, "--timeout", "0.2"]
        assert subprocess.run(command, timeout=60).returncode == 1


@pytest.mark.field(142)
def test_field_142_no_identity_means_no_server(archive, tmp_path):
    command = [interpreters()[min(interpreters())], str(archive), "serve", "--port", "0", "--base-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.defpath}, timeout=60)
    assert done.returncode == 2
    assert "ABX_SERVER_TOKEN" in done.stderr and "--allow-anonymous" in done.stderr


def test_anonymous_access_never_leaves_this_machine(archive, tmp_path):
    command = [interpreters()[min(interpreters())], str(archive), "serve", "--port", "0", "--base-dir", str(tmp_path)]
    done = subprocess.run(
        [*command, "--allow-anonymous", "--host", "0.0.0.0"],
        capture_output=True, text=True, env={"PATH": os.defpath}, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "127.0.0.1" in done.stderr
