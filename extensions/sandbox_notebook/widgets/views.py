"""The widgets that verbs show, behind one name: a verb asks whether there are any and needs no import of its own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sandbox_sdk import Process, Sandbox

    from .files import FileBrowser
    from .upload import UploadPicker


class Views:
    """Shows live widgets below the cell that runs."""

    def process(self, process: Process, *, title: str, takes_input: bool = False) -> None:
        from .process import ProcessPane

        ProcessPane(process, title=title, takes_input=takes_input).show()

    def upload(self, sandbox: Sandbox, *, to: str) -> UploadPicker:
        from IPython.display import display

        from .upload import UploadPicker

        picker = UploadPicker(sandbox, to=to)
        display(picker)
        return picker

    def browse(self, sandbox: Sandbox, path: str = ".") -> FileBrowser:
        from IPython.display import display

        from .files import FileBrowser

        browser = FileBrowser(sandbox, path)
        display(browser)
        return browser

    def terminal(self, sandbox: Sandbox, id: str | None = None, *, new: bool = False) -> None:
        """This terminal, else the one that was opened last, else a new one."""
        from .terminal import TerminalPane

        if id is None and not new and (known := sandbox.pty.list()):
            id = known[-1].id
        TerminalPane(sandbox, id).show()


def views_for(shell: Any) -> Views | None:
    """None where no page would show a widget: in a terminal, or without the library that carries them."""
    return Views() if hasattr(shell, "kernel") and find_spec("anywidget") else None
