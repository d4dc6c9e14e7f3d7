"""The file browser in a real JupyterLab: what one sees, opens, changes, fetches, and what the policy keeps one from."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from .lab import Lab, Page, browse, until
from .looks import every_look, readable_under_the_pointer


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
        "import os, pathlib, tempfile\nfrom sandbox_sdk import Sandbox\n"
        "from sandbox_notebook.widgets.views import Views\n"
        f"made = {made!r}\nroot = pathlib.Path(tempfile.mkdtemp(dir='.')).resolve()\n"
        "for name, data in made.items():\n"
        "    (root / name).parent.mkdir(parents=True, exist_ok=True)\n"
        "    (root / name).write_bytes(bytes.fromhex(data))\n"
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
    with browse(lab, name) as page:
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
        page.run(1)


def test_hostile_names_are_text_and_nothing_more(lab: Lab) -> None:
    names_there = {
        "<img src=x onerror='window.ran = true'>.txt": b"a",
        "two\nlines.txt": b"b",
        "evil\u202etxt.exe": b"c",
        "back\\slash.txt": b"d",
        "%2e%2e" + "x" * 200: b"e",
        "<script><b>.csv": b"<script>window.ran = true</script>,</td><img src=x onerror='window.ran=true'>\n",
    }
    name = lab.write("hostile.ipynb", start(names_there), "sb.kill()")
    with browse(lab, name) as page:
        ready(page, 6)
        assert "two\\u000alines.txt" in names(page) and "evil\\u202etxt.exe" in names(page)
        assert opened(page, "two\\u000alines.txt") == "b"
        assert opened(page, "back\\slash.txt") == "d"
        opened(page, "<script><b>.csv")
        opened(page, "<img src=x onerror='window.ran = true'>.txt")
        page.page.get_by_role("button", name="Rename").click()
        page.page.locator(".nsb-files").screenshot(path=lab.directory / "hostile.png")
        assert page.page.evaluate("() => window.ran === undefined")
        assert page.page.locator(".nsb-files :is(b, script)").count() == 0
        page.run(1)


def test_the_keyboard_is_enough_and_the_notebook_takes_none_of_its_keys(lab: Lab) -> None:
    name = lab.write(
        "keys.ipynb", start(), "print(sorted(e.path for e in sb.files.list('.', recursive=True)))\nsb.kill()"
    )
    with browse(lab, name) as page:
        ready(page, 7)
        press = page.page.keyboard.press
        row(page, "data").click()
        press("ArrowRight")
        until(lambda: "table.csv" in names(page), 20, "the folder did not open")
        press("ArrowRight")
        assert chosen(page) == ["deep"]
        press("Shift+ArrowDown")
        assert chosen(page) == ["deep", "table.csv"]
        press("ArrowLeft")
        press("ArrowLeft")
        assert chosen(page) == ["data"] and "table.csv" not in names(page)
        press("End")
        assert chosen(page) == ["settings.json"]
        press("Home")
        for key in ("d", "d", "b"):  # in a notebook these would delete the cell, and add another
            press(key)
        assert chosen(page) == ["data"], "d d goes around; nothing begins with ddb"
        page.page.wait_for_timeout(1000)  # until what was typed is forgotten
        for key in "no":
            press(key)
        assert chosen(page) == ["notes.txt"]
        press("Enter")
        until(lambda: "line one" in shown(page), 20, "the file was not shown")
        press("F2")
        assert page.page.evaluate("() => document.activeElement.value") == "notes.txt"
        page.page.keyboard.type("words")
        press("Enter")
        until(lambda: "words.txt" in names(page) and chosen(page) == ["words.txt"], 20, "it was not renamed")
        press("Delete")
        assert page.page.evaluate("() => document.activeElement.textContent") == "Cancel"
        press("Escape")
        assert chosen(page) == ["words.txt"] and page.page.locator(".nsb-bar").is_hidden()
        press("Delete")
        press("Shift+Tab")
        press("Enter")
        until(lambda: "words.txt" not in names(page), 20, "it was not deleted")
        assert page.page.evaluate("() => document.activeElement.getAttribute('role')") == "treeitem"
        page.page.get_by_role("button", name="New folder").focus()
        press("Enter")
        page.page.keyboard.type("made here")
        press("Enter")
        until(lambda: "made here" in names(page), 20, "no folder was made")
        press("Control+a")
        assert len(chosen(page)) == 7
        press("Escape")
        assert chosen(page) == []
        assert len(page.cells()) == 2
        assert "'./made here'" in stdout(page, 1)


def test_a_screen_reader_is_told_a_tree(lab: Lab) -> None:
    name = lab.write("roles.ipynb", start(), "sb.kill()")
    with browse(lab, name) as page:
        ready(page, 7)
        tree = page.page.get_by_role("tree", name="Files in /workspace")
        data = tree.get_by_role("treeitem", name="data", expanded=False)
        data.dblclick()
        until(lambda: tree.get_by_role("treeitem", name="data", expanded=True, selected=True).count(), 20, "no folder")
        until(lambda: tree.get_by_role("treeitem", name="table.csv", level=2).count(), 20, "no child")
        child = tree.get_by_role("treeitem", name="table.csv", level=2)
        assert (child.get_attribute("aria-posinset"), child.get_attribute("aria-setsize")) == ("2", "2")
        tabbable = page.page.evaluate("() => document.querySelectorAll('.nsb-tree [tabindex=\"0\"]').length")
        assert tabbable == 1
        page.page.get_by_role("button", name="Sort by size").click()
        until(
            lambda: "Sorted by size" in str(page.page.locator(".nsb-files > .nsb-said").text_content()),
            10,
            "nothing said",
        )
        page.run(1)


def saved(page: Page, trigger: Any) -> bytes:
    with page.page.expect_download(timeout=60_000) as download:
        trigger()
    return Path(download.value.path()).read_bytes()


@pytest.mark.field(164)
def test_field_164_downloads_past_every_limit_arrive_with_their_bytes(lab: Lab) -> None:
    make = "data = os.urandom(30 << 20)\n(root / 'large.bin').write_bytes(data)\nimport hashlib\n"
    cells = make + "print(hashlib.sha256(data).hexdigest())", "print(browser._outgoing)\nsb.kill()"
    name = lab.write("download.ipynb", start({"folder/a.txt": b"one", "folder/b/ü.txt": b"two"}), *cells)
    with browse(lab, name) as page:
        ready(page, 1)
        digest = stdout(page, 1).strip()
        until(lambda: "large.bin" in names(page), 20, "the new file did not show by itself")
        row(page, "large.bin").click()
        button = page.page.get_by_role("button", name="Download")
        got = saved(page, button.click)
        assert hashlib.sha256(got).hexdigest() == digest
        done = page.page.locator(".nsb-downloads .nsb-what")
        until(lambda: done.nth(0).text_content() == f"saved · SHA-256 {digest}", 20, "its digest is not shown")
        row(page, "folder").click()
        with zipfile.ZipFile(io.BytesIO(saved(page, button.click))) as archive:
            assert {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"} == {
                "folder/a.txt": b"one",
                "folder/b/ü.txt": b"two",
            }
        until(lambda: [text[:5] for text in done.all_text_contents()] == ["saved"] * 2, 20, "one of them goes on")
        page.page.locator(".nsb-files").screenshot(path=lab.directory / "downloads.png")
        assert stdout(page, 2).strip() == "{}"
        assert "rate exceeded" not in lab.log.read_text()


ODD_NAMES = ("a b.txt", "a%20b.txt", "a#b.txt", "a?b=c&d.txt", "日本語 é.txt")


@pytest.mark.field(4)
def test_field_004_a_download_keeps_the_name_of_the_file(lab: Lab) -> None:
    """Two of these names would be one if anything wrote or read one of them as an address."""
    files = {name: f"this is {name}".encode() for name in ODD_NAMES}
    name = lab.write("names.ipynb", start(files), "sb.kill()")
    with browse(lab, name) as page:
        ready(page, len(files))
        page.page.evaluate(
            "() => { window.named = []; const kind = HTMLAnchorElement.prototype, { click } = kind;"
            " kind.click = function () { window.named.push(this.download); click.call(this); }; }"
        )
        for one, data in files.items():
            row(page, one).click()
            with page.page.expect_download(timeout=60_000) as download:
                page.page.get_by_role("button", name="Download").click()
            # Chromium itself gives the file another name where some systems do not allow that one.
            assert download.value.suggested_filename == one.replace("?", "_")
            assert Path(download.value.path()).read_bytes() == data
        assert page.page.evaluate("() => window.named") == list(files)
        page.run(1)


def test_a_download_goes_on_after_the_connection_to_the_kernel_broke(lab: Lab) -> None:
    make = "import hashlib\ndata = os.urandom(60 << 20)\n(root / 'large.bin').write_bytes(data)\n"
    name = lab.write(
        "cut.ipynb", start({"a.txt": b"one"}), make + "print(hashlib.sha256(data).hexdigest())", "sb.kill()"
    )
    with browse(lab, name) as page:
        ready(page, 1)
        digest = stdout(page, 1).strip()
        until(lambda: "large.bin" in names(page), 20, "the new file did not show by itself")
        row(page, "large.bin").click()

        def cut() -> None:
            page.page.get_by_role("button", name="Download").click()
            what = page.page.locator(".nsb-downloads .nsb-what")
            until(lambda: "%" in str(what.text_content()), 20, "the download did not begin")
            page.page.evaluate(
                "async () => { for (const w of window.jupyterapp.shell.widgets('main'))"
                " if (w.sessionContext) w.sessionContext.session.kernel._ws.close(); }"
            )

        assert hashlib.sha256(saved(page, cut)).hexdigest() == digest
        page.run(2)


def test_the_policy_is_seen_before_one_tries(lab: Lab) -> None:
    changes = ("files_delete", "files_move", "files_mkdir", "files_upload_stream")
    rules = {
        "version": 1,
        "preset": "workspace",
        "endpoints": {
            **{change: {"paths": {"allow": ["/workspace/data"]}} for change in changes},
            "files_watch": {"enabled": False},
        },
    }
    again = "strict = Sandbox.local(root=root / 'data', policy='read-only')\nViews().browse(strict)"
    name = lab.write("policy.ipynb", start(options=f", policy={rules!r}"), again, "sb.kill(); strict.kill()")
    with browse(lab, name) as page:
        ready(page, 7)
        assert page.page.locator(".nsb-row .nsb-badge").count() == 6, "all but the one folder"
        row(page, "notes.txt").click()
        why = page.page.locator(".nsb-why")
        until(lambda: "outside the allowed directories" in str(why.text_content()), 20, "no reason is shown")
        delete = page.page.get_by_role("button", name="Delete", exact=True)
        assert delete.get_attribute("aria-disabled") == "true" and "outside" in str(delete.get_attribute("title"))
        page.page.locator(".nsb-files").screenshot(path=lab.directory / "policy.png")
        fresh = page.page.get_by_role("button", name="New folder")
        assert fresh.get_attribute("aria-disabled") == "true"
        page.page.keyboard.press("Delete")
        assert page.page.locator(".nsb-bar").is_hidden()
        row(page, "data").click()
        until(lambda: delete.get_attribute("aria-disabled") == "false", 20, "the folder may be deleted")
        assert fresh.get_attribute("aria-disabled") == "false"
        assert page.page.locator(".nsb-live").text_content() == ""
        page.run(1)
        second = page.page.locator(".nsb-files").nth(1)
        until(lambda: second.locator("header .nsb-badge").is_visible(), 20, "it does not say that it is read only")
        assert second.get_by_role("button", name="Upload").get_attribute("title") == (
            "denied by rule preset:read-only:endpoints.files_upload_stream"
        )
        page.run(2)


def test_uploads_land_in_the_folder_that_is_chosen(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "fresh.txt").write_text("fresh")
    name = lab.write(
        "into.ipynb", start(), "print(sb.files.read_text('data/deep/fresh.txt'), browser.stored[0].bytes)\nsb.kill()"
    )
    with browse(lab, name) as page:
        ready(page, 7)
        row(page, "data").dblclick()
        until(lambda: "deep" in names(page), 20, "the folder did not open")
        row(page, "deep").dblclick()
        page.page.get_by_role("button", name="Upload").click()
        assert "to /workspace/data/deep" in str(page.page.locator(".nsb-zone").text_content())
        page.page.get_by_label("Choose files to upload").set_input_files(str(tmp_path / "fresh.txt"))
        until(lambda: "fresh.txt" in names(page), 30, "the file did not show")
        page.page.locator(".nsb-files").screenshot(path=lab.directory / "into.png")
        assert stdout(page, 1).strip() == "fresh 5"


def test_a_folder_of_many_is_shown_by_pages_filtered_and_sorted(lab: Lab) -> None:
    many = "for n in range(1200): (root / f'file {n}.dat').write_bytes(b'x' * n)\n"
    name = lab.write("many.ipynb", start({"zebra/inner.txt": b"x"}).replace("sb = ", many + "sb = "), "sb.kill()")
    with browse(lab, name) as page:
        page.run(0)
        until(lambda: len(names(page)) == 500, 30, "the files were not listed")
        assert names(page)[:4] == ["zebra", "file 0.dat", "file 1.dat", "file 2.dat"], "numbers in their order"
        page.page.get_by_text("Show 500 more of 1,201").click()
        assert len(names(page)) == 1000
        page.page.get_by_label("Filter the files shown by name").fill("77.dat")
        assert names(page)[:2] == ["file 77.dat", "file 177.dat"] and len(names(page)) == 12
        page.page.get_by_role("button", name="Sort by size").click()
        page.page.get_by_role("button", name="Sort by size").click()
        assert names(page)[0] == "file 1177.dat"
        page.run(1)


def test_changes_show_while_a_cell_runs_and_the_selection_stays(lab: Lab) -> None:
    busy = (
        "import time\n(root / 'a new one.txt').write_text('x')\n(root / 'plot.png').unlink()\n"
        "while not os.path.exists('go on'): time.sleep(0.05)\nprint(1)"
    )
    name = lab.write("live.ipynb", start(), busy, "browser.close()\nsb.kill()")
    with browse(lab, name) as page:
        ready(page, 7)
        until(lambda: "live" in str(page.page.locator(".nsb-live").text_content()), 20, "it does not watch")
        row(page, "notes.txt").click()
        row(page, "raw.bin").click(modifiers=["Control"])
        row(page, "plot.png").click(modifiers=["Control"])
        page.run(1, wait=False)
        until(lambda: "a new one.txt" in names(page) and "plot.png" not in names(page), 6, "changes did not show")
        assert chosen(page) == ["notes.txt", "raw.bin"]
        row(page, "data").dblclick()
        until(lambda: "table.csv" in names(page), 6, "the folder did not open while the cell ran")
        assert page.cells()[1]["outputs"] == []
        (lab.notebooks / "go on").touch()
        until(lambda: page.cells()[1]["outputs"], 30, "the cell did not end")
        page.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        page.reload()
        until(lambda: "a new one.txt" in names(page), 30, "it is not there after a reload of the page")
        page.run(2)


def test_it_can_be_read_in_both_themes_and_in_little_room(lab: Lab) -> None:
    name = lab.write("look.ipynb", start(), "sb.kill()")
    with browse(lab, name) as page:
        ready(page, 7)
        row(page, "data").dblclick()
        until(lambda: "table.csv" in names(page), 20, "the folder did not open")
        opened(page, "settings.json")
        readable_under_the_pointer(page, ".nsb-files", row(page, "notes.txt"))
        every_look(page, ".nsb-files", lab.directory)
        row(page, "raw.bin").click()
        page.page.get_by_role("button", name="Delete", exact=True).click()
        every_look(page, ".nsb-files", lab.directory, "delete")
        page.page.get_by_role("button", name="Cancel").click()
        page.run(1)
