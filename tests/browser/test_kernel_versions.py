"""What depends on the kernel, with those that are still in use: an upload, a reload, and a stop beside a busy cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from .kernels import kernel_of
from .lab import Lab, browse, until
from .test_process_pane import COUNT, START, reload_and_miss_no_line, state
from .test_upload_picker import PICK, choose, phases, random_file, stdout


@pytest.mark.parametrize("version", ["6.31.0", "7.0.1", "7.3.0"])
def test_an_upload_a_reload_and_a_stop_work_with_older_kernels(lab: Lab, tmp_path: Path, version: str) -> None:
    path, digest = random_file(tmp_path, "large.bin", 24 << 20)
    name = lab.write(
        f"kernel-{version}.ipynb",
        f"{START}\nimport ipykernel, time\nprint(ipykernel.__version__)",
        PICK,
        "print([(r.bytes, r.sha256) for r in picker.receipts])",
        COUNT.format(lines=10_000, pause=0.02),
        COUNT.format(lines=10_000, pause=0.02),
        "time.sleep(600)",
        kernel=kernel_of(lab, version),
    )
    with browse(lab, name) as page:
        assert version in stdout(page, 0)
        page.run(1)
        choose(page, path)
        until(lambda: phases(page) == ["done"], 60, "the file did not arrive")
        assert stdout(page, 2).strip() == str([(24 << 20, digest)])

        page.run(3)
        reload_and_miss_no_line(page)

        page.run(4, wait=False)
        page.run(5, wait=False)
        second = page.page.locator(".nsb-lines").nth(1)
        until(lambda: "step 5" in (second.text_content() or ""), 20, "the second pane shows nothing")
        assert "*" in (page.cells()[5]["prompt"] or ""), "its output waited for the cell"
        page.page.get_by_role("button", name="Stop").first.click()
        if version.startswith("6."):  # no message is read beside a cell: the pane must say what to press
            notice = page.page.locator(".nsb-notice").first
            until(lambda: "Press ■ in the toolbar" in (notice.text_content() or ""), 10, "the pane said nothing")
            assert state(page) == "running"
            page.page.screenshot(path=lab.directory / "busy-kernel.png")
            page.page.get_by_role("button", name="Interrupt the kernel").click()
            until(lambda: state(page) == "stopped", 20, "the click was lost")
            assert not notice.is_visible()
        else:
            until(lambda: state(page) == "stopped", 20, "the click was not heard")
            assert "*" in (page.cells()[5]["prompt"] or ""), "the click waited for the cell"
