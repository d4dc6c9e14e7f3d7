"""What a sandbox may do, in a real JupyterLab: looked through, asked about paths, and lit up when it refuses."""

from __future__ import annotations

from .lab import Lab, Page, browse, until
from .looks import FITS, WIDTHS, every_look

START = (
    "from sandbox_sdk import Sandbox\nfrom sandbox_notebook.widgets.caps import CapabilityTable\n"
    "sb = Sandbox.local('workspace', name='caps')\ntable = CapabilityTable(sb)\ntable"
)
REFUSED = "try:\n    sb.files.read('/etc/passwd')\nexcept PermissionError:\n    print('refused')"

# The lines that were lit up, however short the time was.
LIT = """() => {
  window.lit = [];
  const note = () => document.querySelectorAll("tr.nsb-flash").forEach((row) => window.lit.push(row.dataset.endpoint));
  new MutationObserver(note).observe(document.querySelector(".nsb-rules"),
    { subtree: true, childList: true, attributes: true, attributeFilter: ["class"] });
}"""


def rows(page: Page) -> list[str]:
    found: list[str] = page.page.evaluate(
        "() => [...document.querySelectorAll('.nsb-rules tr[data-endpoint]')].map((e) => e.dataset.endpoint)"
    )
    return found


def test_endpoints_are_filtered_opened_and_asked_about_by_the_keyboard_alone(lab: Lab) -> None:
    with browse(lab, lab.write("caps.ipynb", START, "sb.kill()")) as page:
        page.run(0)
        table = page.page.locator(".nsb-rules")
        table.get_by_label("Filter endpoints").focus()
        assert "files_list" in rows(page) and "browser_click" in rows(page)
        page.page.keyboard.type("files down")
        until(lambda: rows(page) == ["files_download_stream"], 10, "the filter did not work")
        page.page.keyboard.press("Control+a")
        page.page.keyboard.type("files_")
        button = table.get_by_role("button", name="files_download_stream")
        button.focus()
        page.page.keyboard.press("Enter")
        assert button.get_attribute("aria-expanded") == "true"
        table.get_by_label("A path for files_download_stream").focus()
        page.page.keyboard.type("/etc/passwd")
        page.page.keyboard.press("Enter")
        answer = table.locator(".nsb-answer")
        until(lambda: "denied" in (answer.text_content() or ""), 10, "no answer came")
        assert "lies outside the allowed directories" in (answer.text_content() or "")
        table.get_by_label("A path for files_download_stream").fill("notes.txt")
        page.page.keyboard.press("Enter")
        until(lambda: "allowed notes.txt" in (answer.text_content() or ""), 10, "no answer came")
        every_look(page, ".nsb-rules", lab.directory)
        page.page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        until(lambda: page.page.locator(".nsb-scroll").evaluate(FITS), 10, "the reasons are cut off")
        table.get_by_label("Filter endpoints").fill("")
        table.get_by_label("only denied").check()
        assert "browser_click" in rows(page) and "files_list" not in rows(page)
        page.run(1)


def test_a_refusal_lights_its_line_up_while_the_cell_goes_on(lab: Lab) -> None:
    busy = REFUSED + "\nimport time\ntime.sleep(600)"
    with browse(lab, lab.write("flash.ipynb", START, busy, "sb.kill()")) as page:
        page.run(0)
        page.page.evaluate(LIT)
        page.run(1, wait=False)
        line = page.page.locator("tr[data-endpoint='files_download_stream']")
        until(lambda: "refused 1×" in (line.text_content() or ""), 4, "the refusal was not shown")
        assert "*" in (page.cells()[1]["prompt"] or ""), "it waited for the cell"
        assert "files_download_stream" in page.page.evaluate("() => window.lit")
        assert "/etc/passwd" in (page.page.locator(".nsb-rules-said").text_content() or "")
        page.page.locator(".nsb-rules").screenshot(path=lab.directory / "caps-flash.png")
        until(lambda: "nsb-flash" not in (line.get_attribute("class") or ""), 8, "the light did not go out")


def test_the_saved_notebook_has_it_as_plain_html(lab: Lab) -> None:
    with browse(lab, lab.write("still.ipynb", START, "sb.kill()")) as page:
        bundle = page.run(0)["outputs"][0]["data"]
        page.run(1)
    assert "endpoints are allowed to" in "".join(bundle["text/plain"])
    assert "<script" not in "".join(bundle["text/html"]) and "files_list" in "".join(bundle["text/html"])
