"""The server alone: standard library only, on every Python found, from a zipapp."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
import zipapp
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.interpreters import interpreters

SERVER = Path(__file__).resolve().parents[2] / "server"
TOKEN = "standalone-token"


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    """`server/` as one file, as an image would carry it."""
    target = tmp_path_factory.mktemp("zipapp") / "server.pyz"
    zipapp.create_archive(
        SERVER, target, main="sandbox_server.cli:main", filter=lambda path: path.suffix in (".py", ".typed", "")
    )
    return target


@contextmanager
def serving(command: list[str], base: Path):
    """A running server and its URL; stopped by SIGTERM, which must end it with 0."""
    process = subprocess.Popen(
        [*command, "serve", "--host", "127.0.0.1", "--port", "0", "--base-dir", str(base)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"ABX_SERVER_TOKEN": TOKEN, "PATH": os.defpath},
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), line + process.stderr.read()
        yield line.split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors


def ask(url: str, path: str, body: dict | None = None) -> dict:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=20) as answer:
        return json.load(answer)


@pytest.mark.finding("R2-C7")
@pytest.mark.parametrize("version", sorted(interpreters()))
def test_the_zipapp_serves_with_nothing_but_the_standard_library(version, archive, tmp_path):
    (tmp_path / "a.txt").write_text("alpha")
    with serving([interpreters()[version], "-I", "-S", str(archive)], tmp_path) as url:
        assert ask(url, "/health") == {"status": "ok"}
        assert ask(url, "/capabilities")["api_version"] == 2
        assert ask(url, "/files/stat?path=a.txt")["size"] == 5
        assert ask(url, "/shell", {"command": "cat a.txt"})["stdout"] == "alpha"


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
    with serving(command, tmp_path) as url:
        port = url.rpartition(":")[2]
        assert subprocess.run([*command, "healthcheck", "--port", port]).returncode == 0
    with socket.socket() as bound:  # a port that is taken, and that nobody listens on
        bound.bind(("127.0.0.1", 0))
        port = str(bound.getsockname()[1])
        assert subprocess.run([*command, "healthcheck", "--port", port, "--timeout", "0.5"]).returncode == 1


@pytest.mark.finding("R-B4")
def test_healthcheck_gives_up_on_a_server_that_never_answers(archive):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = str(silent.getsockname()[1])
        command = [interpreters()[min(interpreters())], str(archive), "healthcheck", "--port", port, "--timeout", "0.2"]
        assert subprocess.run(command, timeout=20).returncode == 1


@pytest.mark.field(142)
def test_field_142_no_identity_means_no_server(archive, tmp_path):
    command = [interpreters()[min(interpreters())], str(archive), "serve", "--port", "0", "--base-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env={"PATH": os.defpath}, timeout=20)
    assert done.returncode == 2
    assert "ABX_SERVER_TOKEN" in done.stderr and "--allow-anonymous" in done.stderr


def test_anonymous_access_never_leaves_this_machine(archive, tmp_path):
    command = [interpreters()[min(interpreters())], str(archive), "serve", "--port", "0", "--base-dir", str(tmp_path)]
    done = subprocess.run(
        [*command, "--allow-anonymous", "--host", "0.0.0.0"],
        capture_output=True, text=True, env={"PATH": os.defpath}, timeout=20,
    )  # fmt: skip
    assert done.returncode == 2
    assert "127.0.0.1" in done.stderr
