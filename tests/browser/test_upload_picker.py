"""The upload picker in a real JupyterLab on its default settings: what arrives is what was chosen, whatever happens."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest

from tests.support.memory import MIB, peak, reset_peak

from .lab import Lab, Page, browse, until
from .looks import every_look

START = "%load_ext sandbox_notebook\nsb = %sandbox start"
PICK = "picker = %sandbox upload --to in --pick"
CHOOSE = "Choose files to upload"
PHASES = "() => [...document.querySelectorAll('.nsb-transfers li')].map((e) => e.dataset.phase)"


def choose(page: Page, *files: Path) -> None:
    page.page.get_by_label(CHOOSE).set_input_files([str(file) for file in files])


def drop(page: Page, *files: Path) -> None:
    """As from the desk: such a drop no script of a page can make."""
    zone = page.page.locator(".nsb-zone").bounding_box()
    at = {"x": zone["x"] + zone["width"] / 2, "y": zone["y"] + zone["height"] / 2}
    data = {"items": [], "files": [str(file) for file in files], "dragOperationsMask": 1}
    tools = page.page.context.new_cdp_session(page.page)
    for kind in ("dragEnter", "dragOver", "drop"):
        tools.send("Input.dispatchDragEvent", {"type": kind, **at, "data": data})


# What other programs of the page drop: a file that no file system stands behind.
DROP_BY_SCRIPT = """() => {
  const dragged = new DataTransfer();
  dragged.items.add(new File(["three"], "made.txt"));
  const drop = new DragEvent("drop", { dataTransfer: dragged, bubbles: true, cancelable: true });
  document.querySelector(".nsb-zone").dispatchEvent(drop);
}"""


# The sizes of files under way at the same time, as often as that changes.
TOGETHER = """() => {
  window.together = [];
  const list = document.querySelector(".nsb-transfers");
  const note = () => window.together.push([...list.children].filter((row) => row.dataset.phase === "sending")
    .map((row) => row.querySelector(".nsb-size").textContent));
  new MutationObserver(note).observe(list, { subtree: true, attributes: true, attributeFilter: ["data-phase"] });
}"""


def phases(page: Page) -> list[str]:
    found: list[str] = page.page.evaluate(PHASES)
    return found


def said(page: Page, row: int = 0) -> str:
    return str(page.page.locator(".nsb-what").nth(row).text_content())


def stdout(page: Page, cell: int) -> str:
    return "".join(output.get("text", "") for output in page.run(cell)["outputs"])


def random_file(directory: Path, name: str, size: int) -> tuple[Path, str]:
    path = directory / name
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for start in range(0, size, 1 << 20):
            block = os.urandom(min(1 << 20, size - start))
            digest.update(block)
            file.write(block)
    return path, digest.hexdigest()


@pytest.mark.field(164)
def test_field_164_files_of_any_size_arrive_with_their_bytes(lab: Lab, tmp_path: Path) -> None:
    made = [random_file(tmp_path, f"{size}.bin", size) for size in (0, 9 << 20, 11 << 20, 30 << 20)]
    name = lab.write("sizes.ipynb", START, PICK, "print([(r.bytes, r.sha256) for r in picker.receipts])")
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        choose(page, *(path for path, _ in made))
        until(lambda: phases(page) == ["done"] * 4, 120, "not all files arrived")
        assert stdout(page, 2).strip() == str([(path.stat().st_size, digest) for path, digest in made])


def test_half_a_gigabyte_passes_a_kernel_that_keeps_none_of_it_though_the_connection_broke(
    lab: Lab, tmp_path: Path
) -> None:
    path, digest = random_file(tmp_path, "large.bin", 500_000_000)
    name = lab.write("drop.ipynb", f"{START}\nimport os; print(os.getpid())", PICK, "print(picker.receipts[0].sha256)")
    with browse(lab, name) as page:
        kernel = int(stdout(page, 0))
        page.run(1)
        before = reset_peak(kernel)
        choose(page, path)
        until(lambda: re.match(r"[1-9]\d* %", said(page)), 60, "the upload did not begin")
        page.page.evaluate(
            "async () => { for (const w of window.jupyterapp.shell.widgets('main'))"
            " if (w.sessionContext) w.sessionContext.session.kernel._ws.close(); }"
        )
        assert phases(page) == ["sending"]
        until(lambda: phases(page) == ["done"], 240, "the upload did not come through")
        assert peak(kernel) - before < 40 * MIB
        assert stdout(page, 2).strip() == digest


def test_small_files_go_together_and_a_large_one_goes_alone(lab: Lab, tmp_path: Path) -> None:
    sizes = [1000] * 10 + [3 << 20] + [1000] * 10
    made = [random_file(tmp_path, f"{number}.bin", size) for number, size in enumerate(sizes)]
    name = lab.write("many.ipynb", START, PICK, "print(sorted(r.sha256 for r in picker.receipts))")
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        page.page.evaluate(TOGETHER)
        choose(page, *(path for path, _ in made))
        until(lambda: phases(page) == ["done"] * 21, 60, "not all files arrived")
        together: list[list[str]] = page.page.evaluate("() => window.together")
        assert max(len(some) for some in together) == 4
        assert {tuple(some) for some in together if "3.1 MB" in some} == {("3.1 MB",)}
        assert stdout(page, 2).strip() == str(sorted(digest for _, digest in made))


@pytest.mark.field(164)
def test_field_164_smaller_chunks_pass_where_large_messages_are_lost(lab: Lab, tmp_path: Path) -> None:
    path, digest = random_file(tmp_path, "capped.bin", 3 << 20)
    name = lab.write("capped.ipynb", START, PICK, "print(picker.receipts[0].sha256)")
    with browse(lab, name) as page:
        page.page.evaluate(
            "() => { const send = WebSocket.prototype.send; window.lost = 0;"
            " WebSocket.prototype.send = function (data) {"
            " if ((data.byteLength ?? data.length) > 1 << 20) window.lost++; else send.call(this, data); }; }"
        )
        page.run(0)
        page.run(1)
        choose(page, path)
        until(lambda: phases(page) == ["done"], 60, "the upload did not come through")
        assert page.page.evaluate("() => window.lost") >= 1
        assert stdout(page, 2).strip() == digest


def test_an_upload_whose_kernel_died_says_so_and_can_be_tried_again(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.truncate(1 << 30)  # more than gets through before the kernel dies
    die = "import os, threading\nthreading.Timer(0.2, os._exit, [1]).start()"
    name = lab.write("dies.ipynb", START, PICK, die)
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        choose(page, path)
        until(lambda: "%" in said(page) and not said(page).startswith("0 %"), 60, "the upload did not begin")
        page.run(2, wait=False)
        until(lambda: phases(page) == ["failed"], 60, "nothing was said")
        assert said(page) == "the kernel is gone; run the cell again"
        assert page.page.get_by_role("button", name="Retry").is_visible()


def test_what_is_there_already_is_replaced_only_when_one_says_so(lab: Lab, tmp_path: Path) -> None:
    old, new = tmp_path / "old" / "a.txt", tmp_path / "new" / "a.txt"
    for file in (old, new):
        file.parent.mkdir()
        file.write_text(file.parent.name)
    name = lab.write("replace.ipynb", START, PICK, "print(sb.files.read_text('in/a.txt'))")
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        choose(page, old)
        until(lambda: phases(page) == ["done"], 30, "the file did not arrive")
        choose(page, new)
        until(lambda: phases(page) == ["done", "exists"], 30, "the second file was not questioned")
        assert stdout(page, 2).strip() == "old"
        page.page.get_by_role("button", name="Replace").click()
        until(lambda: phases(page) == ["done", "done"], 30, "the file was not replaced")
        assert stdout(page, 2).strip() == "new"


@pytest.mark.field(146)
def test_field_146_the_limits_are_told_before_anything_is_sent(lab: Lab, tmp_path: Path) -> None:
    policy = (
        "{'version': 1, 'preset': 'workspace', 'endpoints': {'files_upload_stream':"
        " {'limits': {'max_bytes': 1000}, 'params': {'allow_extensions': ['.csv']}}}}"
    )
    start = (
        "from sandbox_sdk import Sandbox\nfrom sandbox_notebook.widgets.upload import UploadPicker\n"
        f"sb = Sandbox.local(policy={policy})\npicker = UploadPicker(sb)\npicker"
    )
    name = lab.write("limits.ipynb", start, "print(picker.value)\nsb.kill()")
    large, other, fine = tmp_path / "large.csv", tmp_path / "notes.txt", tmp_path / "fine.csv"
    large.write_bytes(b"x" * 1001)
    other.write_text("no")
    fine.write_text("a,b\n")
    with browse(lab, name) as page:
        page.run(0)
        assert "at most 1.0 kB each · only .csv" in str(page.page.locator(".nsb-zone").text_content())
        choose(page, large, other, fine)
        until(lambda: phases(page) == ["failed", "failed", "done"], 30, "not all was settled")
        assert "larger than the 1.0 kB" in said(page, 0) and "takes .csv only" in said(page, 1)
        assert stdout(page, 1).strip().endswith("fine.csv',)")


def test_files_and_folders_can_be_dropped_and_it_fits_and_can_be_read_in_both_themes(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "one.txt").write_text("one")
    (tmp_path / f"{'long' * 40}.txt").write_text("two")
    name = lab.write("dropped.ipynb", START, PICK, "print(sb.files.read_text('in/folder/deep/one.txt'))")
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        drop(page, tmp_path / "folder", tmp_path / f"{'long' * 40}.txt")
        until(lambda: phases(page) == ["done", "done"], 30, "what was dropped did not arrive")
        assert stdout(page, 2).strip() == "one"
        page.page.evaluate(DROP_BY_SCRIPT)
        until(lambda: phases(page) == ["done", "done", "done"], 30, "a file without an entry did not arrive")
        choose(page, tmp_path / f"{'long' * 40}.txt")
        until(lambda: phases(page) == ["done", "done", "done", "exists"], 30, "the fourth file was not questioned")
        every_look(page, ".nsb-upload", lab.directory)


def test_a_folder_keeps_its_layout_and_the_keyboard_is_enough(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "a b.txt").write_text("one")
    (tmp_path / "folder" / "deep" / "ü.txt").write_text("two")
    name = lab.write("folder.ipynb", START, PICK, "print(sorted(e.path for e in sb.files.list('in', recursive=True)))")
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        with page.page.expect_file_chooser() as chooser:
            page.page.get_by_role("button", name="Choose a folder").press("Enter")
        chooser.value.set_files(str(tmp_path / "folder"))
        until(lambda: phases(page) == ["done", "done"], 30, "the folder did not arrive")
        assert stdout(page, 2).strip() == "['in/folder', 'in/folder/a b.txt', 'in/folder/deep', 'in/folder/deep/ü.txt']"


def test_a_cancelled_upload_leaves_nothing_and_can_be_tried_again(lab: Lab, tmp_path: Path) -> None:
    path, digest = random_file(tmp_path, "large.bin", 200 << 20)
    name = lab.write(
        "cancel.ipynb", START, PICK, "print(sb.files.exists('in/large.bin'))", "print(picker.receipts[0].sha256)"
    )
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        choose(page, path)
        until(lambda: "%" in said(page), 60, "the upload did not begin")
        page.page.get_by_role("button", name="Cancel").click()
        assert phases(page) == ["cancelled"]
        assert stdout(page, 2).strip() == "False"
        page.page.get_by_role("button", name="Retry").click()
        until(lambda: phases(page) == ["done"], 120, "the upload did not come through")
        assert stdout(page, 3).strip() == digest
