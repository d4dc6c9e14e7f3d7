"""A gigabyte up and down through the sync client: flat memory on both sides, equal bytes, nothing left by a Ctrl-C."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.memory import MIB, peak, reset_peak
from tests.support.server import child_environment, running_server
from tests.support.waiting import eventually

GIB = 1 << 30
MARGIN = 8 * MIB  # what either side may grow by

#: A client process of its own, so that its memory is its own too. Prints facts, one a line.
CLIENT = """
import sys
from sandbox_sdk import ServerClient
from tests.support.memory import peak, reset_peak
import os, time
verb, url, source, target, *slowly = sys.argv[1:]
seen = []
with ServerClient(url) as client:
    client.health()
    client.files.write("warm", b"up")
    client.files.read("warm")
    base = reset_peak(os.getpid())
    def report(done, total):
        seen.append((done, total))
        if len(seen) == 2:
            print("moving", flush=True)
        if slowly:
            time.sleep(0.2)  # longer than from report to report, so that every piece takes as long
    receipt = getattr(client.files, verb)(source, target, progress=report, verify="sha256")
    print("grown", peak(os.getpid()) - base)
    print("sha256", receipt.sha256)
    print("bytes", receipt.bytes)
    print("progress", all(a[0] <= b[0] for a, b in zip(seen, seen[1:])), seen[-1], len(seen) > 3)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("gigabyte")) as server:
        yield server


@pytest.fixture(scope="module")
def big(tmp_path_factory) -> tuple[Path, str]:
    """A file of 1 GiB and its digest."""
    path = tmp_path_factory.mktemp("data") / "big.bin"
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(GIB // (64 * MIB)):
            piece = os.urandom(64 * MIB)
            digest.update(piece)
            file.write(piece)
    yield path, digest.hexdigest()
    path.unlink()


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(MIB):
            digest.update(piece)
    return digest.hexdigest()


def client(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CLIENT, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=child_environment(None) | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def facts(process: subprocess.Popen[str]) -> dict[str, str]:
    out, errors = process.communicate(timeout=280)
    assert process.returncode == 0, errors
    return dict(line.split(" ", 1) for line in out.splitlines() if " " in line)


@pytest.mark.slow
@pytest.mark.timeout(600)  # the two of them
def test_a_gigabyte_goes_up_and_comes_back_with_flat_memory(server, big, tmp_path):
    source, digest = big
    base = server.process.args[server.process.args.index("--base-dir") + 1]
    for verb, from_, to in (("upload", source, "big.bin"), ("download", "big.bin", tmp_path / "back.bin")):
        before = reset_peak(server.pid)
        found = facts(client(verb, server.url, from_, to))
        assert found["sha256"] == digest
        assert found["bytes"] == str(GIB)
        assert found["progress"] == f"True ({GIB}, {GIB}) True"
        assert int(found["grown"]) < MARGIN
        assert peak(server.pid) - before < MARGIN
    assert sha256_of(tmp_path / "back.bin") == digest
    assert sorted(os.listdir(base)) == ["big.bin", "warm"]
    (tmp_path / "back.bin").unlink()


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["upload", "download"])
def test_an_interrupt_leaves_the_old_file_and_no_part_on_either_side(server, big, tmp_path, verb):
    source, _ = big
    base = Path(server.process.args[server.process.args.index("--base-dir") + 1])
    here, there = tmp_path / "target.bin", base / "target.bin"
    here.write_bytes(b"old here")
    there.write_bytes(b"old there")
    if verb == "upload":
        process = client(verb, server.url, source, "target.bin", "slowly")
    else:
        os.link(source, base / "source.bin") if source.stat().st_dev == base.stat().st_dev else None
        process = client(verb, server.url, "source.bin", here, "slowly")
    line = process.stdout.readline()
    assert line == "moving\n", process.stderr.read()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT or "KeyboardInterrupt" in errors
    eventually(lambda: not [name for name in os.listdir(base) if name.startswith(".nsb-")])
    assert there.read_bytes() == b"old there"
    assert here.read_bytes() == b"old here"
    assert os.listdir(tmp_path) == ["target.bin"]
    assert server.request("GET", "/health").status == 200
    (base / "source.bin").unlink(missing_ok=True)
