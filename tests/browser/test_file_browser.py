"""The file browser in a real JupyterLab: what one sees, opens, changes, fetches, and what the policy keeps one from."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from .lab import Lab, Page, browse, until


def png(width: int, height: int) -> bytes:
    """A picture with a slant, so that one sees that it is drawn."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(
        b"\0" + b"".join(bytes((60, 120, 220) if x > y else (240, 180, 60)) for x in range(width))
        for y in range(height)
    )
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {},
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "with <b>markup</b>"]},
        {
            "cell_type": "code",
            "execution_count": 3,
            "metadata": {},
            "source": "print('hello')",
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["hello\n"]},
                {
                    "output_type": "display_data",
                    "metadata": {},
                    "data": {
                        "text/html": "<img src=x onerror='window.ran = true'><script>window.ran = true</script>",
                        "text/plain": "plain words",
                    },
                },
            ],
        },
    ],
}
SVG = (
    "<svg xmlns='http://www.w3.org/2000/svg' width='80' height='40'><rect width='80' height='40' fill='teal'/>"
    "<script>window.ran = true; parent.ran = true</script></svg>"
)
FILES: dict[str, bytes] = {
    "data/table.csv": 'name,note,n\r\n"Smith, J.","said ""yes""",1\r\nÜnal,"two\nlines",2\r\n'.encode(),
    "data/deep/leaf.txt": b"a leaf",
    "notes.txt": b"line one\nline <b>two</b>\n",
    "plot.png": png(96, 64),
    "drawing.svg": SVG.encode(),
    "settings.json": b'{"id": 9007199254740993, "list": [1, 2.50, null], "on": true, "text": "<i>x</i>"}',
    "book.ipynb": json.dumps(NOTEBOOK).encode(),
    "raw.bin": bytes(range(256)) * 4,
}


def start(files: dict[str, bytes] | None = None, options: str = "") -> str:
    """The source of a cell that starts a sandbox with these files and shows them."""
    made = {name: data.hex() for name, data in (FILES if files is None else files).items()}
    return (
        "import os, pathlib, tempfile\nfrom sandbox_sdk import Sandbox\nfrom sandbox_notebook.widgets.views import Views\n"
        f"made = {made!r}\nroot = pathlib.Path(tempfile.mkdtemp())\n"
        "for name, data in made.items():\n"
        "    (root / name).parent.mkdir(parents=True, exist_ok=True)\n    (root / name).write_bytes(bytes.fromhex(data))\n"
        f"sb = Sandbox.local(root=root{options})\nbrowser = Views().browse(sb)"
    )


def names(page: Page) -> list[str]:
    found: list[str] = page.page.evaluate(
        "() => [...document.querySelectorAll('.nsb-entry')].map((e) => e.textContent)"
    )
    return found


def chosen(page: Page) -> list[str]:
    found: list[str] = page.page.evaluate(
        "() => [...document.querySelectorAll('.nsb-row[aria-selected=true] .nsb-entry')].map((e) => e.textContent)"
    )
    return found


def row(page: Page, name: str) -> Any:
    return page.page.locator(".nsb-row", has=page.page.get_by_text(name, exact=True)).first


def shown(page: Page) -> str:
    return str(page.page.locator(".nsb-content").text_content())


def opened(page: Page, name: str) -> str:
    row(page, name).dblclick()
    body = page.page.locator(".nsb-content")
    until(lambda: "Loading" not in shown(page) and (shown(page) or body.locator("img").count()), 20, f"no {name}")
    return shown(page)


def stdout(page: Page, cell: int) -> str:
    return "".join(output.get("text", "") for output in page.run(cell)["outputs"])


def ready(page: Page, count: int) -> None:
    page.run(0)
    until(lambda: len(names(page)) == count, 30, "the files were not listed")


def test_every_kind_of_file_is_shown_as_what_it_is_and_nothing_in_it_runs(lab: Lab) -> None:
    name = lab.write("previews.ipynb", start(), "sb.kill()")
    requests: list[str] = []
    with browse(lab, name, requests=requests) as page:
        ready(page, 7)
        assert names(page)[0] == "data"
        assert opened(page, "notes.txt") == "line one\nline <b>two</b>\n"
        row(page, "data").dblclick()
        until(lambda: "table.csv" in names(page), 20, "the folder did not open")
        opened(page, "table.csv")
        cells = page.page.locator(".nsb-content tbody td").all_text_contents()
        assert cells == ["Smith, J.", 'said "yes"', "1", "Ünal", "two\nlines", "2"]
        page.page.locator(".nsb-files").screenshot(path=lab.directory / "table.png")
        text = opened(page, "settings.json")
        assert "9007199254740993" in text and "2.50" in text and '"<i>x</i>"' in text
        page.page.locator(".nsb-files").screenshot(path=lab.directory / "json.png")
        assert opened(page, "raw.bin").startswith("Shown: the first 512 B of 1.0 kB00000000  00 01 02")
        opened(page, "plot.png")
        until(
            lambda: page.page.evaluate("() => document.querySelector('.nsb-content img')?.naturalWidth") == 96, 10, ""
        )
        opened(page, "drawing.svg")
        until(
            lambda: page.page.evaluate("() => document.querySelector('.nsb-content img')?.naturalWidth") == 80, 10, ""
        )
        text = opened(page, "book.ipynb")
        assert "with <b>markup</b>" in text and "hello" in text and "plain words" in text and "onerror" not in text
        page.page.locator(".nsb-files").screenshot(path=lab.directory / "notebook.png")
        assert page.page.evaluate("() => window.ran === undefined")
        assert {request.split("/")[2] for request in requests if request.startswith("http")} == {
            f"127.0.0.1:{lab.port}"
        }
        page.run(1)
