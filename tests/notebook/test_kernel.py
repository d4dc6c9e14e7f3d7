"""The magics in a real kernel: output while it comes, and the stop button."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import eventually

from .kernels import Cell, Kernel, kernel

ALIVE = (
    "import glob\n"
    "lines = [open(p, 'rb').read() for p in glob.glob('/proc/[0-9]*/cmdline')]\n"
    "print(sum(b'86399' in line for line in lines))\n"
)


@pytest.fixture(scope="module")
def session_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("kernel")
    environ = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_RUNTIME_DIR": str(folder / "runtime")}
    with kernel(folder, environ) as running:
        assert running.run("%load_ext sandbox_sdk").error is None
        assert running.run("%sandbox start").error is None
        yield running


@pytest.fixture
def cell(session_kernel: Kernel) -> Kernel:
    return session_kernel


def test_a_result_carries_text_and_html(cell: Kernel) -> None:
    (data,) = cell.run("%sandbox info").data
    assert data["text/plain"].startswith('✓ sandbox "local"')
    assert data["text/html"].startswith("<div")


def test_output_shows_while_the_command_runs(cell: Kernel, tmp_path: Path) -> None:
    """The program waits for a file that is only made once its first line has been seen."""
    go = tmp_path / "go"
    assert cell.run(f"%sandbox start --name live --root {tmp_path}").error is None
    program = (
        "%%sandbox run --in live\nimport os, time\nprint('first')\n"
        "while not os.path.exists('go'):\n    time.sleep(0.01)\nprint('second')"
    )
    done = cell.run(program, lambda seen: seen.stdout == "first\n", go.touch)
    assert done.error is None and done.stdout == "first\nsecond\n"
    assert cell.run("%sandbox stop live\n%sandbox use local").error is None


def ready(seen: Cell) -> bool:
    return "ready\n" in seen.stdout


@pytest.mark.field(173)
def test_field_173_the_stop_button_ends_the_command_in_the_sandbox(cell: Kernel) -> None:
    done = cell.run("%%sandbox run --lang bash\necho ready\nsleep 86399\necho never", ready, cell.interrupt)
    assert done.error is not None
    name, message, traceback = done.error
    assert (name, message) == ("KeyboardInterrupt", "bash cell was stopped")
    assert len(traceback) == 1
    assert done.stderr == 'stopped bash cell in sandbox "local"\n'
    assert done.stdout == "ready\n"
    eventually(lambda: cell.run(f"%%sandbox run\n{ALIVE}").stdout == "0\n")


def test_stopping_reaches_what_the_command_started(cell: Kernel) -> None:
    body = "import subprocess\nsubprocess.Popen(['sleep', '86399'])\nprint('ready')\nimport time\ntime.sleep(60)"
    done = cell.run(f"%%sandbox run\n{body}", ready, cell.interrupt)
    assert done.error is not None and done.error[0] == "KeyboardInterrupt"
    eventually(lambda: cell.run(f"%%sandbox run\n{ALIVE}").stdout == "0\n")


def test_a_line_can_be_stopped_as_well(cell: Kernel) -> None:
    done = cell.run("%sandbox run bash -c 'echo ready; sleep 86399'", ready, cell.interrupt)
    assert done.error is not None and done.error[1] == "bash was stopped"
    eventually(lambda: cell.run(f"%%sandbox run\n{ALIVE}").stdout == "0\n")


def test_the_stop_button_reaches_a_cell_that_awaits_one_thing(cell: Kernel) -> None:
    """Without anything else going on in the loop it would be noticed only when the wait is over."""
    source = (
        "import asyncio, sandbox_sdk\n"
        "async with await sandbox_sdk.AsyncSandbox.local() as other:\n"
        "    process = await other.process.start('sleep 86399')\n"
        "    print('ready')\n    await asyncio.sleep(86399)"
    )
    done = cell.run(source, ready, cell.interrupt)
    assert done.error is not None and done.error[0] == "CancelledError"
    assert cell.run("print(other.running)").stdout == "False\n"


def test_stopping_to_follow_leaves_the_process_running(cell: Kernel) -> None:
    cell.run("%sandbox run --bg bash -c 'echo ready; sleep 86399'")
    done = cell.run("%sandbox logs -f", ready, cell.interrupt)
    assert done.error is not None
    assert done.error[:2] == (
        "KeyboardInterrupt",
        "bash -c 'echo ready; sleep 86399' goes on; only the following has ended",
    )
    assert cell.run(f"%%sandbox run\n{ALIVE}").stdout != "0\n"
    assert cell.run("%sandbox kill").data[0]["text/plain"].endswith("has ended: SIGTERM")


@pytest.mark.field(166)
def test_field_166_output_around_an_await_is_complete_and_in_order(cell: Kernel) -> None:
    done = cell.run(
        "import asyncio\nprint('a')\nawait asyncio.sleep(0.01)\n%sandbox run echo b\nprint('c')\n"
        "await asyncio.sleep(0.01)\n%sandbox run echo d"
    )
    assert done.error is None and done.stdout == "a\nb\nc\nd\n"


@pytest.mark.field(167)
def test_field_167_panes_keep_their_own_lines_and_cells_get_none_of_them(cell: Kernel) -> None:
    """Ten at once, all ending at about the same time, while another cell prints."""
    begun = cell.run(
        "from sandbox_notebook import ProcessPane\nsb = %sandbox use local\n"
        "script = 'for i in $(seq 150); do echo $0 $i; done; echo $0 bad >&2; sleep 0.3; echo $0 end'\n"
        "panes = [ProcessPane(sb.process.start(['sh', '-c', script, str(n)])) for n in range(10)]\n"
        "for pane in panes: pane.show()\nprint('begun')"
    )
    assert begun.error is None and begun.stdout == "begun\n" and begun.stderr == ""
    assert sum("application/vnd.jupyter.widget-view+json" in one for one in begun.data) == 10
    done = cell.run("for n in range(5): print(n)\nprint(all([pane.wait_shown(60) for pane in panes]))")
    assert done.stdout == "0\n1\n2\n3\n4\nTrue\n" and done.stderr == "" and done.data == []
    check = (
        "for n, pane in enumerate(panes):\n"
        "    head, *lines = repr(pane).splitlines()\n"
        "    out = [line for line in lines if not line.endswith('bad')]\n"
        "    assert out == [f'{n} {i}' for i in range(1, 151)] + [f'{n} end'] and f'{n} bad' in lines, (n, lines)"
    )
    assert cell.run(check).error is None


SLOW = """
import os, time
from sandbox_notebook.verbs import searching
plain = searching.find
def slow(call):
    while not os.path.exists({go!r}):
        time.sleep(0.01)
    return plain(call)
searching.find = slow
"""


def test_a_slow_line_that_says_nothing_tells_for_how_long_and_takes_that_away(cell: Kernel, tmp_path: Path) -> None:
    go = tmp_path / "go"
    assert cell.run(SLOW.format(go=str(go))).error is None
    try:
        done = cell.run("%sandbox find nothing", lambda seen: bool(seen.data), go.touch)
        go.unlink()
        stopped = cell.run("%sandbox find nothing", lambda seen: bool(seen.data), cell.interrupt)
    finally:
        cell.run("searching.find = plain")
    status, result = done.data
    seconds = re.fullmatch(r"find … (\d+) s", status["text/plain"])
    assert done.error is None and seconds and int(seconds[1]) >= 1
    assert result["text/plain"] == "nothing found" and done.updates[-1] == {"text/plain": ""}
    assert stopped.error is not None and stopped.error[:2] == ("KeyboardInterrupt", "find was stopped")
    assert len(stopped.data) == 1 and stopped.updates[-1] == {"text/plain": ""}


def test_what_is_captured_keeps_no_word_of_waiting(cell: Kernel) -> None:
    front = "front = get_ipython().magics_manager.registry['SandboxMagics']._front()"
    assert cell.run(f"{front}\nfront.status is None").data[0]["text/plain"] == "False"
    cell.run(f"%%capture\n{front}")
    assert cell.run("front.status is None").data[0]["text/plain"] == "True"


def test_an_error_reaches_the_front_end_as_an_error(cell: Kernel) -> None:
    done = cell.run("%sandbox download /etc/passwd")
    assert done.error is not None
    name, message, traceback = done.error
    assert name == "SandboxMagicError" and message.startswith("denied: ") and len(traceback) == 2


def test_a_mid_cell_failure_stops_the_cell(cell: Kernel) -> None:
    done = cell.run("%sandbox run false\nprint('after')")
    assert done.error is not None and done.error[1] == "false ended with exit code 1"
    assert done.stdout == ""


def test_a_call_that_nobody_awaited_fails_with_a_hint(cell: Kernel) -> None:
    cell.run("class Result:\n    async def run(self): ...")
    done = cell.run("call = Result().run()\ncall.stdout")
    assert done.error is not None and done.error[0] == "AttributeError"
    assert done.stderr.startswith("hint: an asynchronous call has no result before `await`")
    assert cell.run("call.close()\n'x'.nothing").stderr == ""


def test_asyncio_run_fails_with_a_hint_and_works_once_allowed(cell: Kernel) -> None:
    source = "import asyncio\nasync def main():\n    return 42\ncoroutine = main()\nasyncio.run(coroutine)"
    done = cell.run(source)
    assert done.error is not None and done.error[0] == "RuntimeError"
    assert "%config SandboxMagics.nested_asyncio = True" in done.stderr
    done = cell.run("coroutine.close()\n%config SandboxMagics.nested_asyncio = True\nasyncio.run(main())")
    assert done.error is None and done.data[0]["text/plain"] == "42"
    done = cell.run("%sandbox run echo still", None)
    assert done.stdout == "still\n"
