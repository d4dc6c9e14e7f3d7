"""The process pane in a real JupyterLab: output as it comes, a stop that works, nothing lost by a reload."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .lab import RESTART, Lab, Page, browse, until
from .looks import every_look

START = "%load_ext sandbox_notebook\nsb = %sandbox start"
COUNT = """%%sandbox run --bg --lang python
import sys, time
for number in range({lines}):
    print(f"\\x1b[32mstep {{number}}\\x1b[0m", flush=True)
    time.sleep({pause})
    if number == 2:
        print("careful", file=sys.stderr, flush=True)
"""
# All that a button says, however short the time is.
SAYING = """(button) => {
  window.saying = [];
  new MutationObserver(() => window.saying.push(button.textContent))
    .observe(button, { subtree: true, childList: true, characterData: true });
}"""


def state(page: Page) -> str:
    found = page.page.locator(".nsb-state")
    return str(found.first.text_content()) if found.count() else "replaced"


def shown_lines(page: Page) -> list[str]:
    text: str = page.page.evaluate(
        "() => [...document.querySelectorAll('.nsb-lines > *')].map((e) => e.textContent).join('\\n')"
    )
    return text.split("\n") if text else []


def reload_and_miss_no_line(page: Page) -> None:
    """Load the page anew while `COUNT` runs: its pane comes back with every line there was."""
    until(lambda: len(shown_lines(page)) > 20, 20, "no output came")
    page.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.reload()
    until(lambda: len(shown_lines(page)) > 60, 30, "the pane did not come back")
    numbers = [int(line[5:]) for line in shown_lines(page) if line.startswith("step ")]
    assert numbers == list(range(len(numbers)))


def final_html(page: Page, cell: int) -> str:
    """The output that replaced the pane, as the notebook would be saved."""

    def data() -> dict[str, Any]:
        outputs = page.cells()[cell]["outputs"]
        found: dict[str, Any] = outputs[0]["data"] if outputs else {}
        return found

    until(lambda: "application/vnd.jupyter.widget-view+json" not in data() and data(), 30, "the pane was not replaced")
    return "".join(data()["text/html"])


def test_output_arrives_live_in_order_and_ends_as_plain_html(lab: Lab) -> None:
    wait = "    while number == 40 and not os.path.exists('go on'): time.sleep(0.05)\n"
    count = COUNT.format(lines=60, pause=0.03).replace("import sys", "import os, sys") + wait
    name = lab.write("live.ipynb", START, count, "%sandbox run touch 'go on'")
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        until(lambda: len(shown_lines(page)) > 10, 20, "no output came")
        assert state(page) == "running"
        page.run(2)
        html = final_html(page, 1)
        assert "✓ 1 · python cell · exit code 0" in html
        numbers = re.findall(r"step (\d+)", html)
        assert numbers == [str(number) for number in range(60)]
        assert "careful" in html and "<script" not in html
        last = page.page.locator(".jp-OutputArea-output pre").last
        assert last.evaluate(
            "(text) => text.getBoundingClientRect().top < text.parentElement.getBoundingClientRect().top"
        )


def test_stop_is_heard_while_a_cell_is_busy(lab: Lab) -> None:
    name = lab.write(
        "stop.ipynb",
        START,
        COUNT.format(lines=10_000, pause=0.02),
        "import time\ntime.sleep(600)",
        "%sandbox ps --all",
    )
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        until(lambda: shown_lines(page), 20, "no output came")
        page.run(2, wait=False)
        until(lambda: "*" in (page.cells()[2]["prompt"] or ""), 10, "the cell did not begin")
        page.page.get_by_role("button", name="Stop").click()
        html = final_html(page, 1)
        assert "*" in (page.cells()[2]["prompt"] or ""), "the click waited for the cell"
        assert "stopped" in html


def test_a_flood_stays_within_bounds_and_the_page_answers_until_the_process_is_dead(lab: Lab) -> None:
    wait = "import time\nwhile sb.process.list():\n    time.sleep(0.05)\nprint('dead')"
    name = lab.write("flood.ipynb", START, "%sandbox run --bg yes", wait)
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        skipped = page.page.locator(".nsb-skipped")
        until(lambda: "earlier lines skipped" in (skipped.text_content() or ""), 20, "nothing was skipped")
        page.page.get_by_label("Find in the output").press_sequentially("y")
        until(
            lambda: re.fullmatch(r"\d{4} found", str(page.page.locator(".nsb-matches").text_content())), 20, "no answer"
        )
        assert len(shown_lines(page)) <= 5000
        assert page.page.locator(".nsb-lines *").count() <= 5000
        page.run(2, wait=False)
        page.page.get_by_role("button", name="Stop").press("Enter")
        until(lambda: page.cells()[2]["outputs"], 20, "the process lived on")
        assert page.cells()[2]["outputs"][0]["text"] == "dead\n"
        assert "earlier lines not shown" in final_html(page, 1)
    assert "rate exceeded" not in lab.log.read_text()


def test_a_reload_loses_no_line(lab: Lab) -> None:
    name = lab.write("reload.ipynb", START, COUNT.format(lines=10_000, pause=0.02), "%sandbox kill 1")
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        reload_and_miss_no_line(page)
        page.run(2)
        # A page that was loaded anew no longer knows which output to replace; the pane itself tells the end.
        until(lambda: state(page) == "ended by SIGTERM", 20, "the pane did not tell the end")


def test_a_pane_can_be_used_by_the_keyboard_alone(lab: Lab) -> None:
    source = (
        "from sandbox_notebook.widgets.process import ProcessPane\n"
        "program = 'while read line; do echo got $line; done; echo bye'\n"
        "ProcessPane(sb.process.start(['sh', '-c', program], stdin=True), title='reader', takes_input=True).show()"
    )
    name = lab.write("keys.ipynb", START, source)
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        page.page.get_by_label("Standard input").focus()
        page.page.keyboard.type("one word")
        page.page.keyboard.press("Enter")
        until(lambda: "got one word" in shown_lines(page), 20, "the line was not answered")
        page.page.keyboard.press("Tab")
        page.page.keyboard.press("Enter")  # "End of input" is what comes next
        assert "bye" in final_html(page, 1)


def test_lines_are_copied_and_saved_and_the_end_is_followed_until_one_looks_back(lab: Lab) -> None:
    source = (
        "from sandbox_notebook import ProcessPane\n"
        "program = 'trap \"\" TERM; seq 300; while read line; do echo got $line; done; sleep 600'\n"
        "ProcessPane(sb.process.start(['sh', '-c', program], stdin=True), title='stubborn', takes_input=True).show()"
    )
    with browse(lab, lab.write("look-back.ipynb", START, source)) as page:
        page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.run(0)
        page.run(1)
        log, follow = page.page.locator(".nsb-log"), page.page.get_by_label("Follow")
        until(lambda: "300" in shown_lines(page), 20, "no output came")
        until(lambda: log.evaluate("(e) => e.scrollTop + e.clientHeight > e.scrollHeight - 5"), 10, "not at the end")
        log.focus()
        page.page.keyboard.press("Home")
        until(lambda: not follow.is_checked(), 10, "it goes on to follow")
        page.page.get_by_label("Standard input").fill("a word")
        page.page.keyboard.press("Enter")
        until(lambda: "got a word" in shown_lines(page), 20, "the line was not answered")
        assert log.evaluate("(e) => e.scrollTop") == 0, "the place was lost"
        follow.check()
        assert log.evaluate("(e) => e.scrollTop + e.clientHeight > e.scrollHeight - 5")

        whole = [*map(str, range(1, 301)), "❯ a word", "got a word"]
        with page.page.expect_download() as download:
            page.page.locator(".nsb-pane").get_by_role("button", name="Download").click()
        assert Path(download.value.path()).read_text("utf-8").splitlines() == whole
        copied = "() => navigator.clipboard.readText()"
        copy = page.page.locator(".nsb-pane").get_by_role("button", name=re.compile("Copy|Copied|Press Ctrl"))
        copy.click()
        until(lambda: page.page.evaluate(copied).splitlines() == whole, 10, "not copied")
        page.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('no')); }")
        copy.evaluate(SAYING)
        copy.click()
        until(lambda: "Press Ctrl+C" in page.page.evaluate("() => window.saying"), 10, "nothing was said")
        assert page.page.evaluate("() => getSelection().toString()").splitlines() == whole

        page.page.get_by_role("button", name="Stop").click()
        page.page.get_by_role("button", name="Kill").click()  # it heeds no SIGTERM
        assert "stubborn · stopped" in final_html(page, 1)


def test_a_new_kernel_takes_up_the_job_of_the_last_one(lab: Lab) -> None:
    start = f"%load_ext sandbox_notebook\nsb = %sandbox start --keep --name job-{lab.port}"
    cells = (start, COUNT.format(lines=10_000, pause=0.02), start, "%sandbox attach", "%sandbox stop")
    with browse(lab, lab.write("again.ipynb", *cells)) as page:
        page.run(0)
        page.run(1)
        until(lambda: len(shown_lines(page)) > 20, 20, "no output came")
        page.page.evaluate(RESTART, page.name)
        page.wait_ready()
        try:
            page.run(2)
            page.run(3)
            pane = page.page.locator(".jp-Cell").nth(3)
            text = pane.locator(".nsb-lines")
            until(lambda: "step 60" in (text.text_content() or ""), 20, "the new pane shows nothing")
            assert "step 0" in str(text.text_content()).split("step 1")[0], "the beginning is missing"
            pane.get_by_role("button", name="Stop").click()
            assert "stopped" in final_html(page, 3)
        finally:
            page.run(4)


def test_a_pane_fits_and_can_be_read_in_both_themes(lab: Lab) -> None:
    program = (
        "%%sandbox run --bg --lang python\nimport sys, time\n"
        "for code in (*range(30, 38), *range(90, 98)):\n    print(f'\\x1b[{code}mcolour {code}\\x1b[0m')\n"
        "print('careful', file=sys.stderr)\nsys.stdout.flush()\ntime.sleep(600)"
    )
    name = lab.write("look.ipynb", START, program, "%sandbox kill 1")
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        until(lambda: len(shown_lines(page)) > 5, 20, "no output came")
        every_look(page, ".nsb-pane", lab.directory)
        page.run(2)


# In the notebook of this name: bring it to the front, and what it shows.
FRONT = """(name) => {
  const app = window.jupyterapp;
  for (const widget of app.shell.widgets('main'))
    if (widget.context && widget.context.path.endsWith(name)) app.shell.activateById(widget.id);
}"""
TEXT = """(name) => {
  for (const widget of window.jupyterapp.shell.widgets('main'))
    if (widget.context && widget.context.path.endsWith(name))
      return [...widget.node.querySelectorAll('.jp-OutputArea')].map((e) => e.textContent).join(' ');
}"""


def test_two_notebooks_of_one_page_keep_their_panes_apart(lab: Lab) -> None:
    names = ("one.ipynb", "two.ipynb")
    for name in names:
        lines = f"for i in $(seq 3000); do echo {name}:$i; sleep 0.1; done"
        lab.write(name, START, f"%%sandbox run --bg --lang bash\n{lines}")
    with browse(lab, names[0]) as page:
        page.page.evaluate("(path) => window.jupyterapp.commands.execute('docmanager:open', {path})", names[1])
        Page(page.page, names[1]).wait_ready()

        def latest(name: str) -> int:
            return max(map(int, re.findall(rf"{name}:(\d+)", page.page.evaluate(TEXT, name))), default=0)

        for name in names:
            page.page.evaluate(FRONT, name)
            page.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
            until(lambda name=name: latest(name) > 3, 30, f"no output came in {name}")
        page.page.evaluate(FRONT, names[0])
        before = latest(names[0])
        until(lambda: latest(names[0]) > before, 20, "the first pane stood still beside the second")
        page.page.get_by_role("button", name="Stop").locator("visible=true").click()
        until(lambda: "stopped" in page.page.evaluate(TEXT, names[0]), 20, "the first command went on")
        page.page.evaluate(FRONT, names[1])
        before = latest(names[1])
        until(lambda: latest(names[1]) > before, 20, "the second was stopped with the first")
        assert names[1] not in page.page.evaluate(TEXT, names[0]) and names[0] not in page.page.evaluate(TEXT, names[1])
