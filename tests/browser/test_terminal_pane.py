"""The terminal pane in a real JupyterLab: typed into, resized, full-screen programs, and found again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from .lab import RESTART, Lab, Page, browse, until
from .looks import every_look

START = "%load_ext sandbox_notebook\nsb = %sandbox start"
TERM = "%sandbox term"
LIBRARY = Path(__file__).parents[2] / "extensions/sandbox_notebook/widgets/xterm"


def screen(page: Page) -> str:
    rows: list[str] = page.page.evaluate(
        "() => [...document.querySelectorAll('.nsb-terminal .xterm-rows > div')].map((row) => row.textContent)"
    )
    return "\n".join(row.replace("\xa0", " ").rstrip() for row in rows)


def shows(page: Page, text: str) -> None:
    until(lambda: text in screen(page), 20, f"{text!r} did not appear")


def type_in(page: Page, text: str) -> None:
    page.page.locator(".nsb-terminal .xterm-screen").last.click()
    page.page.keyboard.type(text)


@pytest.fixture
def opened(lab: Lab, request: pytest.FixtureRequest) -> Iterator[Page]:
    name = lab.write(f"{request.node.name}.ipynb", START, TERM)
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        until(lambda: screen(page).strip(), 20, "no prompt came")
        yield page


def test_the_library_is_the_one_that_was_published() -> None:
    sums = dict(reversed(line.split("  ")) for line in (LIBRARY / "SHA256SUMS").read_text().splitlines())
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in LIBRARY.iterdir()}
    assert sums == {name: digest for name, digest in found.items() if name != "SHA256SUMS"}
    assert set(sums) == {"LICENSE", "xterm.css", "xterm.mjs"}


def test_what_is_typed_runs_and_a_new_width_is_known_to_the_shell(lab: Lab, opened: Page) -> None:
    type_in(opened, "echo $((6*7))\n")
    shows(opened, "\n42\n")
    type_in(opened, "until set -- $(stty size); [ $2 -ge 120 ]; do sleep 0.1; done; echo wi''de\n")
    shows(opened, "\nwide\n")
    opened.page.set_viewport_size({"width": 800, "height": 900})
    type_in(opened, "until set -- $(stty size); [ $2 -lt 120 ]; do sleep 0.1; done; clear; echo nar''row: $2\n")
    shows(opened, "narrow: ")
    assert int(screen(opened).partition("narrow: ")[2].split()[0]) > 40
    every_look(opened, ".nsb-terminal", lab.directory)


def test_full_screen_programs_work_and_a_reload_keeps_the_screen(lab: Lab, opened: Page) -> None:
    type_in(opened, "seq 1000 | less\n")
    shows(opened, "\n20\n")
    assert "less" not in screen(opened)
    type_in(opened, "dG")
    shows(opened, "1000\n(END)")
    before = screen(opened)
    opened.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    opened.reload()
    until(lambda: screen(opened).split() == before.split(), 30, "the screen did not come back")
    type_in(opened, "q")
    shows(opened, "seq 1000")


def test_escape_and_tab_lead_out_and_lab_takes_no_key(opened: Page) -> None:
    type_in(opened, "cat -v\n")
    opened.page.keyboard.press("Control+b")
    opened.page.keyboard.press("Escape")
    opened.page.keyboard.type("dd\n")
    shows(opened, "^B^[dd")
    assert len(opened.cells()) == 2
    inside = "() => document.activeElement.closest('.nsb-terminal .xterm') !== null"
    opened.page.keyboard.press("Tab")
    assert opened.page.evaluate(inside)
    opened.page.keyboard.press("Escape")
    opened.page.keyboard.press("Tab")
    assert not opened.page.evaluate(inside)
    assert "Escape and then Tab" in opened.page.locator(".nsb-terminal textarea").get_attribute("aria-label")


def test_a_large_paste_into_a_program_that_answers_comes_back_whole(opened: Page) -> None:
    # Before the terminal is raw, more than a line of 4096 bytes would be dropped.
    type_in(opened, "stty raw; wc -c & printf 'ra%s\\n' w-now; head -c 300000 | wc -c; stty sane\n")
    shows(opened, "raw-now")
    opened.page.evaluate(
        """() => { const data = new DataTransfer(); data.setData('text/plain', 'x'.repeat(300000));
        document.querySelector('.nsb-terminal textarea').dispatchEvent(
          new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true})); }"""
    )
    shows(opened, "300000")


def test_another_viewer_takes_over_and_it_can_be_taken_back(lab: Lab) -> None:
    take = "other = sb.pty.connect(sb.pty.list()[-1].id, takeover=True)"
    name = lab.write("takeover.ipynb", START, TERM, take)
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        type_in(page, "echo be''fore\n")
        shows(page, "before")
        page.run(2)
        page.page.get_by_role("button", name="Take it back").click()
        until(lambda: page.page.locator(".nsb-state").first.text_content() == "connected", 10, "it did not connect")
        shows(page, "before")
        type_in(page, "echo af''ter\n")
        shows(page, "after")


def test_a_new_kernel_finds_the_terminal_of_the_last_one(lab: Lab) -> None:
    start = f"%load_ext sandbox_notebook\nsb = %sandbox start --keep --name terminal-{lab.port}"
    name = lab.write("again.ipynb", start, TERM, start, TERM, "%sandbox stop")
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        type_in(page, "echo he''re; spoken=word\n")
        shows(page, "\nhere")
        page.page.evaluate(RESTART, name)
        page.wait_ready()
        try:
            page.run(2)
            page.run(3)
            rows = page.page.locator(".jp-Cell").nth(3).locator(".xterm-rows")
            until(
                lambda: rows.count() and "\nhere" in rows.inner_text(), 20, "the new pane does not show what was before"
            )
            type_in(page, "echo the $spoken\n")
            shows(page, "\nthe word")
        finally:
            page.run(4)


def test_the_end_is_plain_html_in_every_pane(lab: Lab) -> None:
    name = lab.write("end.ipynb", START, TERM, TERM)
    with browse(lab, name) as page:
        page.run(0)
        page.run(1)
        type_in(page, "echo he''re\n")
        shows(page, "here")
        page.run(2)
        until(lambda: screen(page).count("\nhere") == 2, 20, "the second pane does not show the same terminal")
        page.page.locator(".nsb-terminal .xterm-screen").first.click()
        page.page.keyboard.type("exit 3\n")
        until(lambda: not page.page.locator(".nsb-terminal").count(), 20, "the panes were not replaced")
        for cell in page.cells()[1:]:
            data = cell["outputs"][0]["data"]
            assert "exit code 3" in "".join(data["text/html"]) and "here" in "".join(data["text/plain"])
            assert "application/vnd.jupyter.widget-view+json" not in data
