"""Policies side by side in a real JupyterLab: explained cell by cell, compared, and asked about a path."""

from __future__ import annotations

from .lab import Lab, Page, browse, until
from .looks import every_look

AGENTS = (
    "{'preset': 'workspace', 'auth': {'tokens': ["
    "{'id': 'agent', 'scopes': ['files:read'], 'token_env': 'A', 'paths': {'allow': ['/workspace/in']}},"
    " {'id': 'boss', 'scopes': ['*'], 'token_env': 'B'}]}}"
)
SHOW = "from sandbox_notebook.widgets.matrix import PolicyMatrix\nmatrix = PolicyMatrix({})\nmatrix"


def cell(page: Page, endpoint: str, column: int) -> str:
    return str(page.page.locator(f"[data-at='{endpoint} {column}']").text_content())


def endpoints(page: Page) -> int:
    return page.page.locator(".nsb-matrix tr[data-endpoint]").count()


def test_a_verdict_is_explained_and_a_path_is_tried_by_the_keyboard_alone(lab: Lab) -> None:
    with browse(lab, lab.write("matrix.ipynb", SHOW.format(f"['workspace', 'transfer-only', {AGENTS}]"))) as page:
        page.run(0)
        page.page.locator("[data-at='files_list 0']").focus()
        for key in ("ArrowRight", "ArrowRight"):
            page.page.keyboard.press(key)
        about = page.page.locator(".nsb-rules-about")
        until(lambda: "/workspace/in" in (about.text_content() or ""), 10, "the cell was not explained")
        page.page.locator("[data-at='shell 1']").focus()
        assert "switched off" in (about.text_content() or "") and "endpoint_disabled" in (about.text_content() or "")
        assert (cell(page, "shell", 1), cell(page, "files_list", 2)) == ("denied", "limited")
        page.page.get_by_label("Try a path").focus()
        page.page.keyboard.type("/workspace/out/x")
        page.page.keyboard.press("Enter")
        until(lambda: cell(page, "files_list", 2) == "denied", 15, "the path was not judged")
        assert (cell(page, "files_list", 0), cell(page, "files_list", 3)) == ("allowed", "allowed")
        page.page.locator("[data-at='files_list 2']").focus()
        assert "outside" in (about.text_content() or "")
        every_look(page, ".nsb-matrix", lab.directory)


def test_two_columns_are_compared(lab: Lab) -> None:
    show = SHOW.format("['workspace', 'transfer-only']")
    with browse(lab, lab.write("compare.ipynb", show, "len(matrix.data.diff(0, 1))")) as page:
        page.run(0)
        every = endpoints(page)
        different = int("".join(page.run(1)["outputs"][0]["data"]["text/plain"]))
        page.page.get_by_role("button", name="Compare").click()
        until(lambda: endpoints(page) == different, 10, "the differences are not shown")
        said = str(page.page.locator(".nsb-matrix .nsb-rules-said").text_content())
        assert said.startswith(f"{different} differ; with transfer-only they are: ") and "denied" in said
        page.page.locator(".nsb-matrix").screenshot(path=lab.directory / "matrix-diff.png")
        page.page.get_by_role("button", name="Show all").click()
        assert endpoints(page) == every > different


def test_one_policy_alone_offers_no_comparison_and_nonsense_is_survived(lab: Lab) -> None:
    messages = (
        "for content in ({'kind': 'diff', 'before': 0, 'after': 9}, {'kind': 'try', 'path': 7}, {'kind': 'x'}, 3):\n"
    )
    messages += "    matrix._hear(matrix, content, [])\nlen(matrix.data.columns)"
    with browse(lab, lab.write("one.ipynb", SHOW.format("'workspace'"), messages)) as page:
        bundle = page.run(0)["outputs"][0]["data"]
        assert not page.page.get_by_role("button", name="Compare").is_visible()
        assert page.run(1)["outputs"][0]["data"]["text/plain"] == "1"
        assert "◐ limited" in "".join(bundle["text/plain"]) and "<table" in "".join(bundle["text/html"])
