"""Large transfers cost no memory, on either side; full disks and odd locales do no harm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sandbox_sdk import NoSpaceError, ServerClient
from tests.support.server import ServerProcess, running_server

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20


def peak(pid: int | str = "self") -> int:
    """The most memory a process has held so far, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def run_script(script: str, *arguments: object, **environ: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, **environ},
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


TRANSFER = """
    import hashlib, json, sys
    from tests.sdk.test_large import peak
    from sandbox_sdk import ServerClient
    url, local, remote, back = sys.argv[1:]

    def digest(path):
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else plain(file)

    def plain(file):
        found = hashlib.sha256()
        while piece := file.read(1 << 20):
            found.update(piece)
        return found.hexdigest()

    up, down = [], []
    with ServerClient(url) as client:
        client.files.write(remote + ".small", b"x" * (3 << 20))
        client.files.download(remote + ".small", back + ".small")
        before = peak()
        sent = client.files.upload(local, remote, progress=lambda *facts: up.append(facts))
        client.files.download(remote, back, progress=lambda *facts: down.append(facts))
        grown = peak() - before
    print(json.dumps({
        "grown": grown, "bytes": sent.bytes, "same": digest(local) == digest(back),
        "up": up[-1], "down": down[-1], "reports": [len(up) > 1, len(down) > 1],
    }))
"""


@pytest.mark.slow
@pytest.mark.field(20)
def test_field_020_a_gibibyte_goes_up_and_down_in_flat_memory(tmp_path: Path) -> None:
    size = 1 << 30
    local, back = tmp_path / "local", tmp_path / "back"
    block = os.urandom(MIB)
    with local.open("wb") as file:
        for number in range(size // MIB):
            file.write(number.to_bytes(8, "big") + block[8:])
    try:
        with running_server(tmp_path) as server:
            with ServerClient(server.url) as client:
                client.files.write("warm", b"x" * (3 * MIB))
            before = peak(server.pid)
            seen = run_script(TRANSFER, server.url, local, "remote", back)
            assert peak(server.pid) - before < 8 * MIB
    finally:
        for path in (local, back, tmp_path / "base" / "remote"):
            path.unlink(missing_ok=True)
    grown = seen.pop("grown")
    assert isinstance(grown, int) and grown < 8 * MIB
    assert seen == {"bytes": size, "same": True, "up": [size, size], "down": [size, size], "reports": [True, True]}


SOURCES = """
    import asyncio, json, sys
    from tests.sdk.test_large import peak
    from sandbox_sdk import AsyncServerClient, ServerClient
    url, remote, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    piece = bytes(1 << 20)

    def pieces():
        for _ in range(size >> 20):
            yield piece

    async def apieces():
        for one in pieces():
            yield one

    async def main():
        async with AsyncServerClient(url) as client:
            await client.files.write(remote, b"x" * (3 << 20))
            before = peak()
            first = await client.files.write(remote, apieces())
            second = await client.files.write(remote, pieces())
            with open(sys.argv[4], "rb") as file:
                third = await client.files.write(remote, file)
            await client.files.download(remote, sys.argv[5])
            return [first.bytes, second.bytes, third.bytes], peak() - before

    sizes, grown = asyncio.run(main())
    print(json.dumps({"sizes": sizes, "grown": grown}))
"""


@pytest.mark.slow
@pytest.mark.field(29)
def test_field_029_every_kind_of_source_is_sent_in_flat_memory(tmp_path: Path) -> None:
    size = 256 * MIB
    local = tmp_path / "local"
    with local.open("wb") as file:
        file.truncate(size)
    with running_server(tmp_path) as server:
        with ServerClient(server.url) as client:
            client.files.write("warm", b"x" * (3 * MIB))
        before = peak(server.pid)
        seen = run_script(SOURCES, server.url, "remote", size, local, tmp_path / "back")
        assert peak(server.pid) - before < 8 * MIB
    assert seen["sizes"] == [size, size, size]
    grown = seen["grown"]
    assert isinstance(grown, int) and grown < 16 * MIB
    assert (tmp_path / "back").stat().st_size == size


LOCALE = """
    import json, sys
    from sandbox_sdk import ServerClient
    with ServerClient(sys.argv[1]) as client:
        client.files.write(sys.argv[2] + "/t", "gr\\u00fc\\u00df \\u65e5\\u672c\\u8a9e")
        text = client.files.read_text(sys.argv[2] + "/t")
        output = client.process.run("cat t", cwd=sys.argv[2]).stdout
        print(json.dumps({"text": text, "output": output}))
"""


@pytest.mark.field(38)
@pytest.mark.parametrize("locale", ["C", "POSIX", "en_US.ISO-8859-1"])
def test_field_038_text_is_utf8_whatever_the_locale(server: ServerProcess, home: Path, locale: str) -> None:
    environ = {"LC_ALL": locale, "LANG": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    seen = run_script(LOCALE, server.url, home.name, **environ)
    assert seen == {"text": "grüß 日本語", "output": "grüß 日本語"}
    assert (home / "t").read_bytes() == "grüß 日本語".encode()


@pytest.fixture
def small_disk(tmp_path: Path):
    """A file system of 5 MB as the server's base directory; needs the right to mount."""
    base = tmp_path / "base"
    base.mkdir()
    mount = shutil.which("mount")
    if (
        not mount
        or subprocess.run([mount, "-t", "tmpfs", "-o", "size=5m", "tmpfs", base], capture_output=True).returncode
    ):
        pytest.skip("no way here: no file system may be mounted")
    yield base
    subprocess.run(["umount", "--lazy", base], check=True)


@pytest.mark.field(31)
def test_field_031_a_full_disk_is_told_with_numbers_and_keeps_the_old_file(small_disk: Path, tmp_path: Path) -> None:
    with running_server(tmp_path) as server, ServerClient(server.url) as client:
        client.files.write("f", "old")
        for content in (b"x" * (8 * MIB), b"x" * (64 * MIB)):
            with pytest.raises(NoSpaceError) as full:
                client.files.write("f", content)
            assert full.value.needed == len(content)
            assert full.value.free is not None and 0 < full.value.free <= 5 * MIB
            assert client.files.read_text("f") == "old"
        assert [entry.name for entry in client.files.list()] == ["f"]
    assert os.listdir(small_disk) == ["f"]
