"""``%sandbox`` and ``%%sandbox``: the bridge between IPython and the verbs.

IPython neither splits nor expands the line (`no_var_expand`), and no traceback shows unless asked for; anything the
sandbox did not cause itself keeps the traceback it has.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.display import DisplayHandle, display
from traitlets import Bool, Enum, Float, Int, TraitError, Unicode, default, observe

from .args import escaped
from .config import SETTINGS, UI, Settings, ui_of
from .dispatch import dispatch
from .errors import Stopped, explained
from .fill import forgotten
from .grammar import Mistake
from .invocation import Front, Outcome
from .nested import allow_nested
from .session import Session
from .statements import MARK
from .verbs.manual import docstring
from .widgets.views import views_for


@magics_class
class SandboxMagics(Magics):
    """Settings of the sandbox magics."""

    ui = Enum(UI, help="auto, widget, html (nothing that depends on time) or text").tag(config=True)
    default_policy = Unicode("workspace", help="policy of %sandbox start without --policy").tag(config=True)
    timeout = Float(0.0, min=0.0, help="seconds for a command without --timeout; 0: no limit").tag(config=True)
    max_lines = Int(2000, min=1, help="lines of output that a cell shows").tag(config=True)
    tracebacks = Bool(False, help="show whole tracebacks instead of two lines").tag(config=True)
    confirm_overwrite = Bool(True, help="files of others are replaced with --overwrite only").tag(config=True)
    nested_asyncio = Bool(False, help="let asyncio.run() work in cells; timeouts across it do not").tag(config=True)

    def __init__(self, shell: Any, session: Session) -> None:
        super().__init__(shell)
        self.session = session

    @default("ui")
    def _ui_from_environment(self) -> str:
        return ui_of(os.environ)

    @observe("nested_asyncio")
    def _nest(self, change: Any) -> None:
        if change.new:
            allow_nested()

    @observe("tracebacks")
    def _trace(self, change: Any) -> None:
        from sandbox_sdk import SandboxError

        SandboxError.whole_traceback = bool(change.new)

    @property
    def namespace(self) -> dict[str, object]:
        return self.shell.user_ns if self.shell is not None else {}

    def variables(self) -> list[str]:
        """The names that people have given."""
        hidden = getattr(self.shell, "user_ns_hidden", {})
        return [name for name in self.namespace if not name.startswith("_") and name not in hidden]

    def settings(self) -> Settings:
        return Settings(**{name: getattr(self, name) for name in SETTINGS})

    @no_var_expand
    @line_cell_magic
    def sandbox(self, line: str, cell: str | None = None) -> object:
        bare = line.startswith(MARK)
        outcome = self._run(line[len(MARK) :] if bare else line, "" if cell == MARK else cell)
        if outcome.shown is not None and self.ui == "text":
            outcome.shown.html = False
        if not bare:
            return outcome.value
        if outcome.shown is not None:
            display(outcome.shown)
        return None

    sandbox.__doc__ = docstring()

    def _run(self, line: str, cell: str | None) -> Outcome:
        try:
            return dispatch(
                line,
                cell,
                session=self.session,
                settings=self.settings(),
                front=self._front(),
                namespace=self.namespace,
                change=self._change,
            )
        except KeyboardInterrupt as error:
            if self.tracebacks or isinstance(error, Stopped):
                raise
            raise Stopped(f"{line.split()[0] if line.split() else 'help'} was stopped") from None
        except Exception as error:
            magic = "%sandbox" if cell is None else "%%sandbox"
            shown = None if self.tracebacks else explained(error, magic, line.split()[:1])
            if shown is None:
                raise
            if again := forgotten(line, str(shown), self.namespace):
                shown.hint = f"{magic} {again} puts the variable in"
            elif whole := escaped(line, str(shown)):
                shown.hint = f"nothing escapes here; a name with blanks needs quotes: {whole}"
            raise shown from error

    def _change(self, name: str, value: object) -> None:
        try:
            setattr(self, name, value)
        except TraitError as error:
            raise Mistake(f'"{value}" is no value for {name}', "%config SandboxMagics explains it") from error

    def _front(self) -> Front:
        terminal = not hasattr(self.shell, "kernel") and sys.stdout.isatty()
        views = views_for(self.shell) if self.ui in ("auto", "widget") else None
        return Front(
            sys.stdout,
            sys.stderr,
            terminal,
            views,
            lambda data, metadata: display(data, metadata=metadata, raw=True),
            _Place() if hasattr(self.shell, "kernel") and not self._captured() else None,
        )

    def _captured(self) -> bool:
        """Whether outputs are kept for later, one by one: nothing there can be taken away."""
        return isinstance(getattr(self.shell, "display_pub", None), CapturingDisplayPublisher)


class _Place:
    """A status in a notebook: one output, which is changed."""

    def __init__(self) -> None:
        self._handle: DisplayHandle | None = None

    def __call__(self, line: str) -> None:
        data = {"text/plain": line}
        if self._handle is None:
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)
