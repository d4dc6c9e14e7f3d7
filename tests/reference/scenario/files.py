"""Files: there and back, what is there, and what changes."""

from __future__ import annotations

import asyncio
import io
import tarfile
from pathlib import Path
from typing import Any

from tests.reference.scenario.watched import Watched, refusal


async def play(client: Watched, told: dict[str, Any]) -> dict[str, object]:
    base, local = told["base"], told["local"]
    files = client.files
    seen: dict[str, object] = {}
    content = bytes(range(256)) * 4000
    seen["upload"] = (await files.upload(f"{base}/d/ü b.bin", content)).size
    seen["download"] = await files.download(f"{base}/d/ü b.bin") == content
    Path(local, "up").write_text("local")
    seen["upload_file"] = (await files.upload_file(str(Path(local, "up")), f"{base}/d/up")).size
    seen["download_file"] = await files.download_file(f"{base}/d/up", str(Path(local, "down")))
    seen["downloaded"] = Path(local, "down").read_text()
    seen["read_text"] = await files.read_text(f"{base}/d/up")
    seen["list"] = sorted((entry.name, entry.type, entry.size) for entry in await files.list(f"{base}/d"))
    deep = await files.list(base, recursive=True, max_entries=1000)
    seen["list all"] = sorted(entry.name for entry in deep if not entry.is_dir)
    info = await files.stat(f"{base}/d/up")
    seen["stat"] = [info.type, info.size, info.exists, info.path == f"{base}/d/up"]
    seen["exists"] = [await files.exists(f"{base}/d/up"), await files.exists(f"{base}/absent")]
    seen["mkdir"] = (await files.mkdir(f"{base}/made")).path == f"{base}/made"
    moved = await files.move(f"{base}/d/up", f"{base}/made/moved")
    seen["move"] = [moved.source == f"{base}/d/up", moved.destination == f"{base}/made/moved"]
    found = await files.search(base, "mov*", max_depth=3, max_results=10)
    seen["search"] = [[hit.path == f"{base}/made/moved" for hit in found.results], found.timed_out]
    for format in ("tar.gz", "zip"):
        archive = await files.archive([f"{base}/d", f"{base}/made"], format)
        seen[format] = [archive.format, archive.size == len(archive.data)]
    with tarfile.open(fileobj=io.BytesIO((await files.archive([f"{base}/made"])).data)) as packed:
        seen["in the archive"] = sorted(member.name for member in packed if member.isfile())

    watching, number = asyncio.create_task(files.watch_for(f"{base}/made", 4)), 0
    while not watching.done():  # it does not tell when it has begun
        number += 1
        await files.upload(f"{base}/made/{number}", b"x")
    seen["watch_for"] = sorted({(change.type.value, change.is_dir) for change in watching.result()})
    watching = asyncio.create_task(_first(files.watch(base, recursive=True, interval=0.1, timeout=60)))
    while not watching.done():
        number += 1
        await files.mkdir(f"{base}/made/{number}")
    seen["watch"] = watching.result()
    seen["delete"] = (await files.delete(f"{base}/made")).deleted

    seen["refused read"] = await refusal(files.download("/etc/passwd"))
    seen["refused stat"] = await refusal(files.stat("/etc/passwd"))
    seen["missing"] = await refusal(files.download(f"{base}/absent"))
    return seen


async def _first(changes: Any) -> list[object]:
    async for change in changes:
        if change.is_dir:
            await changes.aclose()
            return [change.type.value, change.is_dir]
    return []
