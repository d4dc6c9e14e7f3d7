"""The stop button in cells that ``await``, where a kernel tells it to the loop only.

None of these cells ends by itself.
"""

from __future__ import annotations

import contextlib
import os
import re
from asyncio import CancelledError
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.support.overlays import ipykernel_of
from tests.support.waiting import eventually

from .kernels import Cell, Kernel, kernel

LONG = str(1_000_000 + os.getpid())  # seconds; nobody else on this machine sleeps for as many
COMMAND = f"COMMAND = ['sh', '-c', 'echo ready; sleep {LONG}; echo never']"
SOON = "threading.Timer(0.5, print, ['ready']).start()\n"  # what follows blocks by then
HEAD = "import asyncio, os, signal, threading, time\nawait asyncio.sleep(0)\n"


def folder_and_environ(factory: pytest.TempPathFactory, version: str) -> tuple[Path, dict[str, str]]:
    folder = factory.mktemp("kernel")
    environ = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    if version:
        environ["PYTHONPATH"] = str(ipykernel_of(version))
    return folder, environ


@pytest.fixture(scope="module", params=["", "6.31.0"], ids=["newest", "ipykernel-6.31.0"])
def session_kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder, environ = folder_and_environ(tmp_path_factory, request.param)
    with kernel(folder, environ) as running:
        assert running.run(f"%load_ext sandbox_sdk\nsandbox = %sandbox start\n{COMMAND}").error is None
        assert request.param in running.run("import ipykernel\nprint(ipykernel.__version__)").stdout
        yield running


@pytest.fixture
def cell(session_kernel: Kernel) -> Iterator[Kernel]:
    yield session_kernel
    after = session_kernel.run("import signal\nprint(signal.getsignal(signal.SIGINT) is signal.default_int_handler)")
    assert after.stdout == "True\n", "a cell left the handler of its own behind"


def ready(seen: Cell) -> bool:
    return "ready" in seen.stdout


def stopped(cell: Kernel, source: str) -> Cell:
    return cell.run(HEAD + source, ready, cell.interrupt)


def shown(done: Cell) -> list[str]:
    assert done.error is not None
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in done.error[2]]


def alive() -> bool:
    """Whether anything sleeps for so long, in whichever sandbox."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if LONG.encode() in path.read_bytes():
                return True
    return False


def dead() -> bool:
    return not alive()


@pytest.mark.parametrize("line", ["sandbox.run(COMMAND, on_stdout=print)", "await work()"])
def test_a_blocking_call_in_a_cell_that_awaits_is_stopped_and_shown_in_two_lines(cell: Kernel, line: str) -> None:
    done = stopped(cell, f"async def work():\n    sandbox.run(COMMAND, on_stdout=print)\n{line}")
    assert done.error is not None and done.error[:2] == ("KeyboardInterrupt", "")
    head, *places = shown(done)
    assert head == "KeyboardInterrupt: the call was stopped"
    assert places[0].startswith("  line ") and places[0].endswith(f": {line}")
    assert "never" not in done.stdout
    eventually(dead)


def test_a_cell_without_await_shows_the_same(cell: Kernel) -> None:
    done = cell.run("sandbox.run(COMMAND, on_stdout=print)", ready, cell.interrupt)
    assert shown(done) == [
        "KeyboardInterrupt: the call was stopped",
        "  line 1: sandbox.run(COMMAND, on_stdout=print)",
    ]
    eventually(dead)
    assert cell.run("%config SandboxMagics.tracebacks = True").error is None
    whole = cell.run("sandbox.run(COMMAND, on_stdout=print)", ready, cell.interrupt)
    assert "sandbox_sdk/_sync/process.py" in "".join(shown(whole))
    assert cell.run("%config SandboxMagics.tracebacks = False").error is None


def test_a_shell_that_has_its_own_way_of_showing_exceptions_keeps_it(shell: InteractiveShell) -> None:
    assert shell.custom_exceptions == (KeyboardInterrupt, CancelledError)
    shell.extension_manager.unload_extension("sandbox_notebook")
    assert shell.custom_exceptions == ()
    shell.set_custom_exc((ZeroDivisionError,), lambda *_, **__: None)
    try:
        shell.extension_manager.load_extension("sandbox_notebook")
        assert shell.custom_exceptions == (ZeroDivisionError,)
        shell.extension_manager.unload_extension("sandbox_notebook")
        assert shell.custom_exceptions == (ZeroDivisionError,)
    finally:
        shell.set_custom_exc((), None)
        shell.extension_manager.load_extension("sandbox_notebook")


@pytest.mark.parametrize(
    "source",
    [
        "with process.follow() as events:\n    for event in events: print(event.text)",
        f"{SOON}process.wait()",
        f"from sandbox_notebook import ProcessPane\npane = ProcessPane(process)\n{SOON}pane.wait_shown({LONG})",
    ],
    ids=["its output", "its end", "its pane"],
)
def test_waiting_for_a_process_is_stopped_and_the_process_goes_on(cell: Kernel, source: str) -> None:
    done = stopped(cell, f"process = sandbox.process.start(COMMAND)\n{source}")
    assert done.error is not None and done.error[0] == "KeyboardInterrupt"
    assert alive()
    assert cell.run("print(process.refresh().running)\nprocess.kill()").stdout == "True\n"


@pytest.mark.parametrize(
    "source",
    [f"%sandbox run sh -c 'echo ready; sleep {LONG}'", f"{SOON}time.sleep({LONG})"],
    ids=["magic", "code of the user"],
)
def test_magics_and_code_of_the_user_are_stopped(cell: Kernel, source: str) -> None:
    done = stopped(cell, source)
    assert done.error is not None and done.error[0] == "KeyboardInterrupt"
    eventually(dead)


REPORT = "def report(done, total):\n    print('ready', flush=True)\n    time.sleep(0.2)\n"
LARGE = 8 << 30  # bytes: more than is moved before the cell is stopped


def test_a_transfer_is_stopped_and_leaves_nothing_half(cell: Kernel, tmp_path: Path) -> None:
    (tmp_path / "near").mkdir()
    (tmp_path / "far").mkdir()
    for side in ("near", "far"):
        with (tmp_path / side / f"{side}.bin").open("wb") as file:
            file.truncate(LARGE)
    setup = f"import sandbox_sdk\nother = sandbox_sdk.Sandbox.local(root={str(tmp_path / 'far')!r})"
    assert cell.run(f"{setup}\nnear = {str(tmp_path / 'near/near.bin')!r}").error is None
    for line in ("upload(near, 'near.bin'", "download('far.bin', near"):
        done = stopped(cell, f"{REPORT}other.files.{line}, progress=report)")
        assert shown(done)[0] == "KeyboardInterrupt: the call was stopped"
    eventually(lambda: os.listdir(tmp_path / "far") == ["far.bin"])
    assert os.listdir(tmp_path / "near") == ["near.bin"] and (tmp_path / "near/near.bin").stat().st_size == LARGE
    assert cell.run("print(other.run(['echo', 'next']).stdout, end='')\nother.kill()").stdout == "next\n"


def test_an_awaited_command_is_cancelled_and_dead_while_its_sandbox_runs_on(cell: Kernel) -> None:
    assert cell.run("import sandbox_sdk\nfar = await sandbox_sdk.AsyncSandbox.local()").error is None
    done = stopped(cell, "await far.run(COMMAND, on_stdout=print)")
    assert shown(done) == ["CancelledError: the call was stopped", "  line 3: await far.run(COMMAND, on_stdout=print)"]
    eventually(dead)
    assert cell.run("print((await far.run(['echo', 'next'])).stdout, end='')\nawait far.kill()").stdout == "next\n"


def test_a_cell_that_another_cell_ran_takes_nothing_away(cell: Kernel) -> None:
    inner = "get_ipython().run_cell('inner = 1')\n"
    later = "asyncio.get_running_loop().call_later(0.1, print, 'ready')\n"
    waiting = stopped(cell, f"{inner}{later}await asyncio.sleep({LONG})")
    assert waiting.error is not None and waiting.error[0] == "CancelledError"
    blocked = stopped(cell, f"{inner}sandbox.run(COMMAND, on_stdout=print)")
    assert shown(blocked)[0] == "KeyboardInterrupt: the call was stopped"


def test_a_call_in_another_thread_goes_on(cell: Kernel) -> None:
    """The signal is for the cell: what it has handed to a thread of its own is none of it."""
    script = "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo end"
    done = stopped(
        cell,
        f"results = []\ndef work():\n    results.append(sandbox.run(['sh', '-c', {script!r}], on_stdout=print))\n"
        f"thread = threading.Thread(target=work)\nthread.start()\nawait asyncio.sleep({LONG})",
    )
    assert done.error is not None and done.error[0] == "CancelledError"
    assert cell.run("sandbox.files.write('go', b'')\nthread.join()\nprint(results[0].stdout_bytes)").stdout.endswith(
        "b'ready\\nend\\n'\n"
    )


def test_a_handler_of_the_users_own_is_left_alone(cell: Kernel) -> None:
    done = stopped(
        cell,
        "heard = []\nbefore = signal.signal(signal.SIGINT, lambda *_: heard.append(1))\nprint('ready', flush=True)\n"
        "while not heard: await asyncio.sleep(0.01)\n"
        "print(heard, signal.signal(signal.SIGINT, before).__name__)",
    )
    assert done.error is None and done.stdout == "ready\n[1] <lambda>\n"


NESTED = """
import asyncio, gc, logging, sandbox_sdk, sys
%config SandboxMagics.nested_asyncio = True
complaints = []
class Keep(logging.Handler):
    def emit(self, record): complaints.append(self.format(record))
logging.getLogger('asyncio').addHandler(Keep())
sys.unraisablehook = lambda told: complaints.append(repr(told.exc_value))
def taken():
    gc.collect()
    found, complaints[:] = ' '.join(complaints), []
    return 'ignored GeneratorExit' in found, len(found)
async def badly():
    try:
        yield 'line'
    finally:
        yield 'one more'
async def leave(stream):
    async for one in stream:
        break
other = asyncio.run(sandbox_sdk.AsyncSandbox.local())
async def first_line():
    process = await other.process.start(['sh', '-c', 'while :; do echo line; sleep 0.01; done'])
    async for event in process:
        break
    async with process.follow() as events:
        async for event in events:
            break
    await process.kill()
    return event.data
"""


@pytest.fixture(scope="module")
def nested_kernel(session_kernel: Kernel) -> Kernel:
    """The last to use it: what is nested once stays so."""
    assert session_kernel.run(NESTED).error is None
    return session_kernel


@pytest.mark.parametrize("head", ["", "await asyncio.sleep(0)\n"], ids=["", "awaits"])
def test_the_stop_button_cancels_a_nested_run_and_its_command(nested_kernel: Kernel, head: str) -> None:
    source = f"{head}asyncio.run(other.run(COMMAND, on_stdout=print))"
    done = nested_kernel.run(source, ready, nested_kernel.interrupt)
    assert done.error is not None and done.error[0] == "KeyboardInterrupt" and done.stderr == ""
    eventually(dead)
    after = nested_kernel.run("print(asyncio.run(other.run(['echo', 'next'])).stdout, end='')")
    assert (after.error, after.stdout, after.stderr) == (None, "next\n", "")


@pytest.mark.parametrize("head", ["", "await asyncio.sleep(0)\n"], ids=["", "awaits"])
def test_a_stream_that_is_left_early_under_nesting_leaves_no_complaint(nested_kernel: Kernel, head: str) -> None:
    heard = "await asyncio.sleep(0.01)\nprint(taken())"  # the loop tells it when it turns the next time
    assert nested_kernel.run(f"{head}asyncio.run(leave(badly()))\ngc.collect()").error is None
    assert nested_kernel.run(heard).stdout.startswith("(True, "), "a complaint would not be heard"
    done = nested_kernel.run(f"{head}print(asyncio.run(first_line()))\ngc.collect()")
    assert done.error is None and done.stdout.startswith("b'line\\n") and done.stderr == ""
    after = nested_kernel.run("print(asyncio.run(other.run(['echo', 'next'])).stdout, end='')\ngc.collect()")
    assert (after.error, after.stdout, after.stderr) == (None, "next\n", "")
    assert nested_kernel.run(heard).stdout == "(False, 0)\n"
