"""What goes to the page with each widget: not much, and styles that leave the other widgets alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sandbox_notebook

WIDGETS = Path(sandbox_notebook.__file__).parent / "widgets"
# Which scripts a style sheet is for.
OF = {
    "files.css": {"files.js", "uploader.js"},
    "pane.css": {"process.js", "terminal.js"},
    "panel.css": {"panel.js"},
    "rules.css": {"caps.js", "matrix.js"},
    "terminal.css": {"terminal.js"},
    "upload.css": {"uploader.js", "upload.js", "files.js"},
}


def test_every_sheet_is_for_some_scripts() -> None:
    assert {path.name for path in WIDGETS.glob("*.css")} == set(OF)
    assert {path.name for path in WIDGETS.glob("*.js")} == set().union(*OF.values())


@pytest.mark.parametrize("sheet", sorted(OF))
def test_no_rule_begins_with_a_class_that_another_widget_uses(sheet: str) -> None:
    others = {
        name
        for path in WIDGETS.glob("*.js")
        if path.name not in OF[sheet]
        for name in re.findall(r"\bnsb-[\w-]+", path.read_text("utf-8"))
    }
    styles = re.sub(r"/\*.*?\*/", "", (WIDGETS / sheet).read_text("utf-8"), flags=re.DOTALL)
    selectors = [one.strip() for rule in re.findall(r"([^{}]+)\{", styles) for one in rule.split(",")]
    assert [one for one in selectors if (found := re.match(r"\.(nsb-[\w-]+)", one)) and found[1] in others] == []


@pytest.mark.parametrize("name", [name for name in sandbox_notebook.__all__ if name[0].isupper()])
def test_a_widget_carries_less_than_60_kb(name: str) -> None:
    """Every one that is shown carries it anew, and so does the notebook where it is saved with its widgets."""
    widget = getattr(sandbox_notebook, name)
    script, style = str(widget._esm), str(widget._css)
    assert "export default" in script and "{" in style
    assert len(script.encode()) + len(style.encode()) < 60_000
