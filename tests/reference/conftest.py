"""The packages whose wire contract this project keeps, installed unmodified into an environment of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.ports import free_ports

PACKAGES = ("agent-sandbox-server==0.4.0a6", "agent-sandbox-client==0.4.0a6")


@dataclass(frozen=True)
class Reference:
    """Where the packages are installed."""

    environment: Path

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"


@pytest.fixture(scope="session")
def reference(request: pytest.FixtureRequest) -> Reference:
    """The environment, made once per machine and kept in pytest's cache."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    environment = request.config.cache.mkdir("reference") / f"python{version}"
    ready = environment / ("ready " + " ".join(PACKAGES))
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", environment], check=True)
        install = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", *PACKAGES]
        done = subprocess.run(install, capture_output=True, text=True)
        if done.returncode:
            pytest.fail(f"cannot install {' '.join(PACKAGES)}:\n{done.stderr[-2000:]}", pytrace=False)
        ready.touch()
    return Reference(environment)


@dataclass(frozen=True)
class ReferenceServer:
    url: str
    base: Path
    token: str


@pytest.fixture(scope="session")
def reference_server(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceServer]:
    """The reference server as it starts by itself."""
    with _running(reference, tmp_path_factory.mktemp("reference")) as server:
        yield server


@pytest.fixture(scope="session")
def whole_reference_server(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReferenceServer]:
    """The reference server with the groups on that are off by default."""
    with _running(reference, tmp_path_factory.mktemp("whole"), ABX_SERVER_ENABLED_GROUPS="dev_tools,browser") as server:
        yield server


@contextmanager
def _running(reference: Reference, base: Path, **environ: str) -> Iterator[ReferenceServer]:
    """Over a directory that is also its working directory."""
    port, pty_port = free_ports(2)
    with (base.parent / f"{base.name}.log").open("w") as log:
        process = subprocess.Popen(
            [
                reference.environment / "bin" / "agent-sandbox-server", "serve", "--host", "127.0.0.1",
                "--port", str(port), "--pty-port", str(pty_port), "--base-dir", base,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=base,
            env={"PATH": os.defpath, "HOME": str(base), "LANG": "C.UTF-8", "ABX_SERVER_TOKEN": "t0ken", **environ},
        )  # fmt: skip
        try:
            _wait_for(port, process)
            yield ReferenceServer(f"http://127.0.0.1:{port}", base, "t0ken")
        finally:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise AssertionError("the reference server did not start")
