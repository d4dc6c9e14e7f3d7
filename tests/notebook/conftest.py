"""A real IPython shell in this process, with the extension loaded and nothing else of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from tests.support.ports import kernels_have_such_ports

kernels_have_such_ports()


@dataclass
class Ran:
    """What became of one cell."""

    stdout: str
    stderr: str
    outputs: list[dict[str, str]] = field(default_factory=list)
    result: object = None
    error: BaseException | None = None
    traceback: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(output["text/plain"] for output in self.outputs)


Run = Callable[[str], Ran]


@pytest.fixture(scope="session")
def session_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        config = Config()
        config.HistoryManager.enabled = False
        yield InteractiveShell.instance(config=config)
        InteractiveShell.clear_instance()


@pytest.fixture
def shell(session_shell: InteractiveShell, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    monkeypatch.delenv("SANDBOX_SDK_UI", raising=False)
    session_shell.extension_manager.load_extension("sandbox_notebook")
    yield session_shell
    session: Any = session_shell.meta["sandbox_notebook"]["session"]
    for entry in list(session.entries.values()):
        entry.sandbox.kill()
    session_shell.extension_manager.unload_extension("sandbox_notebook")
    session_shell.meta.clear()
    session_shell.config.pop("SandboxMagics", None)  # %config leaves it there, so that a reload keeps it
    session_shell.reset(new_session=False)


@pytest.fixture
def run(shell: InteractiveShell) -> Run:
    def run_cell(source: str) -> Ran:
        shown: list[str] = []
        with pytest.MonkeyPatch.context() as patch, capture_output() as captured:
            patch.setattr(shell, "_showtraceback", lambda kind, error, lines: shown.extend(lines))
            done = shell.run_cell(source, store_history=False)
        outputs = [output.data for output in captured.outputs]
        return Ran(
            captured.stdout, captured.stderr, outputs, done.result, done.error_in_exec or done.error_before_exec, shown
        )

    return run_cell


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory on this side."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def started(run: Run, here: Path) -> Run:
    assert run("%sandbox start").error is None
    return run


def failure(done: object) -> tuple[str, str]:
    error = getattr(done, "error", None)
    assert type(error).__name__ == "SandboxMagicError", done
    return str(error), str(getattr(error, "hint", ""))
