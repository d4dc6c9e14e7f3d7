"""A sandbox as the last line of a cell, in a real JupyterLab: its panel, tab by tab."""

from __future__ import annotations

from .lab import Lab, Page, browse, until
from .looks import every_look, readable_under_the_pointer

START = "%load_ext sandbox_notebook\nfrom sandbox_sdk import Sandbox\nsb = Sandbox.local('workspace', name='demo')\nsb"
USED = (
    "sb.files.write('notes.txt', 'hello')\np = sb.process.start(['sh', '-c', 'echo started; sleep 600'])\n"
    "try:\n    sb.files.read('/etc/passwd')\nexcept PermissionError:\n    pass"
)
END = "sb.kill()"


def sheet(page: Page) -> str:
    return page.page.locator(".nsb-sheet:visible").inner_text()


def tab(page: Page, name: str) -> None:
    page.page.get_by_role("tab", name=name).click()


def test_every_tab_shows_what_it_promises(lab: Lab) -> None:
    with browse(lab, lab.write("panel.ipynb", START, USED, END)) as page:
        page.run(0)
        until(lambda: "0 in the background" in sheet(page), 15, "the overview is not live")
        page.run(1)
        panel = page.page.locator(".nsb-sandbox")
        until(lambda: "1 in the background" in sheet(page), 15, "the overview is not live")
        assert "/workspace" in sheet(page) and "minute" in sheet(page)
        readable_under_the_pointer(page, ".nsb-sandbox", panel.get_by_role("tab", name="Audit"))
        every_look(page, ".nsb-sandbox", lab.directory, "panel-overview")
        tab(page, "Files")
        until(lambda: "notes.txt" in sheet(page), 15, "the files are not shown")
        every_look(page, ".nsb-sandbox", lab.directory, "panel-files")
        tab(page, "Rules")
        until(lambda: "endpoints are allowed" in sheet(page), 15, "the rules are not shown")
        tab(page, "Metrics")
        until(lambda: page.page.locator(".nsb-gauge polyline").count() == 3, 15, "nothing was measured")
        every_look(page, ".nsb-sandbox", lab.directory, "panel-metrics")
        tab(page, "Audit")
        until(lambda: "/etc/passwd" in sheet(page), 15, "the refusal is not shown")
        every_look(page, ".nsb-sandbox", lab.directory, "panel-audit")
        tab(page, "Processes")
        until(lambda: "sleep 60" in sheet(page) and "running" in sheet(page), 15, "the process is not shown")
        panel.get_by_role("button", name="Output").click()
        output = page.page.locator(".nsb-log")
        until(lambda: output.count() and "started" in output.inner_text(), 15, "its output is not shown")
        every_look(page, ".nsb-sandbox", lab.directory, "panel-processes")
        panel.get_by_role("button", name="Kill").click()
        until(lambda: "ended by SIGKILL" in sheet(page), 15, "it was not killed")
        page.run(2)
        panel.scroll_into_view_if_needed()
        until(lambda: "has ended" in panel.inner_text(), 15, "its end was not told")


def test_the_keyboard_goes_from_tab_to_tab_and_a_busy_kernel_still_answers(lab: Lab) -> None:
    with browse(lab, lab.write("keys.ipynb", START, "import time\ntime.sleep(600)", END)) as page:
        page.run(0)
        until(lambda: "0 in the background" in sheet(page), 15, "the overview is not live")
        page.run(1, wait=False)
        page.page.get_by_role("tab", name="Overview").focus()
        for _ in range(4):
            page.page.keyboard.press("ArrowRight")
        assert page.page.evaluate("() => document.activeElement.textContent") == "Metrics"
        until(lambda: "Memory" in sheet(page), 10, "nothing was measured while a cell ran")
        page.page.keyboard.press("End")
        until(lambda: "Nothing noted" in sheet(page), 10, "the log is not shown")
        page.page.keyboard.press("ArrowRight")
        assert page.page.get_by_role("tab", name="Overview").get_attribute("aria-selected") == "true"


def test_it_comes_back_when_the_page_is_loaded_again(lab: Lab) -> None:
    with browse(lab, lab.write("again.ipynb", START, USED, END)) as page:
        page.run(0)
        page.run(1)
        tab(page, "Rules")
        until(lambda: "endpoints are allowed" in sheet(page), 15, "the rules are not shown")
        page.page.evaluate("async () => await window.jupyterapp.commands.execute('docmanager:save')")
        page.reload()
        until(lambda: page.page.locator(".nsb-sandbox").count() == 1, 20, "the panel is gone")
        tab(page, "Rules")
        until(lambda: "endpoints are allowed" in sheet(page), 15, "the rules are not shown again")
        page.run(2)


def test_what_the_policy_forbids_is_asked_once_and_said(lab: Lab) -> None:
    start = START.replace("'workspace'", "'transfer-only'")
    count = "noted = open(sb._local.box.log).read()\nprint(*map(noted.count, ('process_list', 'metrics')))\nsb.kill()"
    with browse(lab, lab.write("forbidden.ipynb", start, count)) as page:
        page.run(0)
        until(lambda: "minute" in sheet(page), 15, "the overview is not live")
        tab(page, "Metrics")
        until(lambda: "metrics" in sheet(page), 15, "the refusal is not shown")
        page.page.wait_for_timeout(3000)
        outputs = page.run(1)["outputs"]
        assert "".join(output.get("text", "") for output in outputs).strip() == "1 1"
