"""One real server for the file tests, over a directory that every test finds empty."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import Reply, ServerProcess, running_server

OCTETS = "application/octet-stream"
POLICY = {
    "endpoints": {
        "files_*": {"paths": {"deny": ["secret", "*.pem"]}},
        "files_list": {"limits": {"max_entries": 100_000}},
    }
}


@dataclass
class Files:
    """The file endpoints as a caller sees them, and the directory behind them as its owner does."""

    server: ServerProcess
    base: Path

    def upload(self, path: str | Path, data: bytes = b"", headers: dict[str, str] | None = None, **query: Any) -> Reply:
        return self.server.request(
            "POST", "/files/upload-stream", data, {"Content-Type": OCTETS, **(headers or {})}, {"path": path, **query}
        )

    def upload_text(self, path: str | Path, content_base64: str, headers: dict[str, str] | None = None) -> Reply:
        body = {"path": str(path), "content_base64": content_base64}
        return self.server.request("POST", "/files/upload-stream", body, headers)

    def download(self, path: str | Path, headers: dict[str, str] | None = None, method: str = "GET") -> Reply:
        fields = {"Accept": OCTETS, **(headers or {})}
        return self.server.request(method, "/files/download-stream", None, fields, {"path": path})

    def download_text(self, path: str | Path) -> Reply:
        return self.server.request("GET", "/files/download-stream", query={"path": path})

    def list(self, path: str | Path = ".", **query: Any) -> Reply:
        return self.server.request("GET", "/files/list", query={"path": path, **query})

    def stat(self, path: str | Path, **query: Any) -> Reply:
        return self.server.request("GET", "/files/stat", query={"path": path, **query})

    def mkdir(self, path: str | Path) -> Reply:
        return self.server.request("POST", "/files/mkdir", {"path": str(path)})

    def delete(self, path: str | Path) -> Reply:
        return self.server.request("DELETE", "/files", query={"path": path})

    def move(self, source: str | Path, destination: str | Path) -> Reply:
        return self.server.request("POST", "/files/move", {"source": str(source), "destination": str(destination)})

    def broken_off(self, path: str) -> int:
        """How many uploads to this path have ended because their senders left."""
        place = [str(self.base / path)]
        return sum((line["status"], line["paths"]) == (400, place) for line in self.server.audit_lines())

    def archive(self, *paths: str | Path, accept: str = "", **body: Any) -> Reply:
        headers = {"Accept": accept} if accept else {}
        return self.server.request("POST", "/files/archive", {"paths": [str(p) for p in paths], **body}, headers)


def empty(base: Path) -> None:
    for found in base.iterdir():
        if found.is_dir() and not found.is_symlink():
            found.chmod(0o700)
            shutil.rmtree(found)
        else:
            found.unlink()


@pytest.fixture(scope="package")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    directory = tmp_path_factory.mktemp("files")
    with running_server(directory, policy=POLICY) as server:
        yield Files(server, directory / "base")


@pytest.fixture
def files(shared_server: Files) -> Files:
    empty(shared_server.base)
    return shared_server


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A base directory on a device of 5 MB."""
    base = tmp_path / "base"
    base.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", base], capture_output=True)
    if mounted.returncode:
        pytest.skip("no way here: mounting a small file system needs privileges")
    yield base
    subprocess.run(["umount", "-l", base], check=True)
