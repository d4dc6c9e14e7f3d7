"""What stands for a widget where nothing is live: exports, comparisons, terminals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import sandbox_notebook
from sandbox_notebook.widgets.process import ProcessPane
from sandbox_notebook.widgets.terminal import TerminalPane
from tests.support.waiting import eventually

from .conftest import Ran, Run, failure

EXTENSION = Path(sandbox_notebook.__file__).parent


@pytest.fixture
def still(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("SANDBOX_SDK_UI", "html")
    assert run("%sandbox config ui html").error is None
    assert run("sb = %sandbox start").error is None
    return run


def shown(done: Ran) -> tuple[str, str]:
    assert done.error is None, done.error
    (output,) = done.outputs
    assert not any("widget" in kind for kind in output)
    return output["text/plain"], output["text/html"]


def test_attach_shows_what_the_process_has_written(still: Run) -> None:
    still("%sandbox run --bg sh -c 'echo plain; printf \"\\033[32mgreen\\033[0m\\n\"; echo bad >&2; exit 3'")
    still("job = sb.process.attach(sb.process.list(finished=True)[0].id); job.wait(60)")
    text, html = shown(still("%sandbox attach"))
    head, *lines = text.splitlines()
    assert head.startswith("✗ 1 · sh -c ") and head.endswith(" · exit code 3") and lines == ["plain", "green", "bad"]
    assert '<span style="color:#1f9254">green</span>' in html and "border-left:3px solid #dc4a43" in html
    assert shown(still("%sandbox attach 1")) == (text, html)  # however long ago
    still("%sandbox run --bg sleep 600")
    assert shown(still("%sandbox attach"))[0] == "2 · sleep 600 · running"
    assert still("process = %sandbox attach 2\nprocess.info.running").result is True


def test_a_pane_shows_the_same(still: Run, shell: InteractiveShell) -> None:
    still("process = sb.process.start('echo hello'); process.wait(60)")
    pane = ProcessPane(shell.user_ns["process"])
    assert repr(pane) == "✓ echo hello · exit code 0\nhello"
    assert pane._repr_mimebundle_()[0].keys() == {"text/html", "text/plain"}
    shell.user_ns["sb"].kill()
    assert repr(pane) == "echo hello\n  state  running"  # whoever cannot ask any more knows no better


def test_a_pane_follows_by_itself_where_it_is_shown(
    still: Run, monkeypatch: pytest.MonkeyPatch, shell: InteractiveShell
) -> None:
    monkeypatch.setenv("SANDBOX_SDK_UI", "auto")
    still("process = sb.process.start('echo hello')")
    pane = ProcessPane(shell.user_ns["process"])
    assert "text/html" in pane._repr_mimebundle_()[0]
    assert pane.wait_shown(60) and repr(pane) == "✓ echo hello · exit code 0\nhello"


def test_a_pane_whose_client_is_closed_says_so(
    still: Run, shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_SDK_UI", "auto")
    still("process = sb.process.start('sleep 600')")
    pane = ProcessPane(shell.user_ns["process"])
    still("sb.kill()")
    pane.follow()
    eventually(lambda: pane.done)
    assert pane.state.startswith("lost: ") and "the client is closed" in repr(pane)


def test_a_pane_that_is_put_below_a_cell_stays_as_it_was(still: Run, shell: InteractiveShell) -> None:
    still("from sandbox_notebook import ProcessPane\nprocess = sb.process.start('sleep 600')")
    assert shown(still("pane = ProcessPane(process, title='job')\npane.show()"))[0] == "job · running"
    still("process.kill(); process.wait(60)")
    pane = shell.user_ns["pane"]
    assert pane._handle is None and not pane._following  # nothing could replace it behind the back of who compares


def test_a_terminal_shows_its_lines(still: Run, shell: InteractiveShell) -> None:
    assert shown(still("%sandbox term"))[0] == "terminal · open"
    still("(info,) = sb.pty.list()\nterminal = sb.pty.connect(info.id)\nterminal.send('echo $((6 * 7))\\n')")
    still("seen = ''\nwhile '42' not in seen: seen += terminal.read(60)")
    still("terminal.close()")
    for line in ("", "--id " + shell.user_ns["info"].id):
        text, html = shown(still(f"%sandbox term {line}"))
        assert text.splitlines()[0] == "terminal · open" and "42" in text.splitlines() and "\x1b" not in text
    assert still("len(sb.pty.list())").result == 1
    assert shown(still("%sandbox term --new"))[0] == "terminal · open" and still("len(sb.pty.list())").result == 2
    pane = TerminalPane(shell.user_ns["sb"])
    assert repr(pane).splitlines()[0] == "terminal" and pane._repr_mimebundle_()[0].keys() == {
        "text/html",
        "text/plain",
    }
    pane.terminal.kill()


def test_a_picker_tells_the_place_and_the_rules(run: Run, here: Path, still: Run) -> None:
    text, html = shown(still("picker = %sandbox upload --to in\n%sandbox upload --to in"))
    assert text.splitlines() == [
        "upload to /workspace/in: nothing yet",
        "in a live notebook files and folders are dropped here; %sandbox upload FILE works anywhere",
    ]
    assert "upload to /workspace/in" in html
    assert still("picker.value, picker.receipts").result == ((), ())
    rules = '{"endpoints": {"files_upload_stream": {"limits": {"max_bytes": 2000}, '
    rules += '"params": {"overwrite": false, "allow_extensions": [".csv"]}}}}'
    (here / "rules.json").write_text(rules)
    assert still("%sandbox start --name narrow --policy rules.json").error is None
    lines = shown(still("%sandbox upload"))[0].splitlines()[1:4]
    assert lines == ["at most 2.0 kB a file", "only .csv", "nothing is replaced"]


def test_without_the_library_of_the_widgets_a_path_is_asked_for(still: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox_notebook.verbs.upload.find_spec", lambda name: None)
    assert failure(still("%sandbox upload"))[0] == "path is missing"


CELLS = """
import sandbox_notebook as ours
sb = %sandbox start
sleeper = sb.process.start(['sleep', '600'])
made = {
    'CapabilityTable': lambda: ours.CapabilityTable(sb),
    'FileBrowser': lambda: ours.FileBrowser(sb),
    'PolicyMatrix': lambda: ours.PolicyMatrix(['read-only', 'workspace']),
    'ProcessPane': lambda: ours.ProcessPane(sleeper),
    'SandboxPanel': lambda: ours.SandboxPanel(sb),
    'TerminalPane': lambda: ours.TerminalPane(sb),
    'UploadPicker': lambda: ours.UploadPicker(sb),
}
faces = {}
for name, make in made.items():
    widget = make()
    faces[name] = [repr(widget), widget._repr_mimebundle_()[0]]
    widget.close()
sleeper.kill()
faces
"""


def test_every_widget_has_words_of_its_own_and_html_beside_the_view(run: Run, here: Path) -> None:
    """Object addresses differ from run to run, and readers without the view see only these two."""
    done = run(CELLS)
    assert done.error is None, done.traceback
    faces: dict[str, Any] = done.result  # type: ignore[assignment]
    assert sorted(faces) == [name for name in sandbox_notebook.__all__ if name[0].isupper()]
    for name, (words, bundle) in faces.items():
        assert words and " at 0x" not in words and not words.startswith("<"), name
        assert bundle["text/plain"] == words, name
        assert bundle["text/html"].startswith("<") and " at 0x" not in bundle["text/html"], name
        assert "application/vnd.jupyter.widget-view+json" in bundle, name


def test_nothing_is_shown_through_an_output_widget_or_cleared_again() -> None:
    """Both lose or double lines when several threads, kernels or a comparison have a part in them."""
    sources = {path: path.read_text(encoding="utf-8") for path in EXTENSION.rglob("*.py")}
    assert len(sources) > 50
    found = [
        path for path, text in sources.items() if re.search(r"\bclear_output\b|\bOutput\(|import .*\bOutput\b", text)
    ]
    assert found == []
