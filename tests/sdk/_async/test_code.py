"""Code: once, and in contexts that last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_sdk import (
    AsyncServerClient,
    CodeFailedError,
    CommandTimeoutError,
    ConflictError,
    NotFoundError,
    Result,
    StreamInterruptedError,
)
from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.anyio
TOOLS = {"groups": ["dev_tools"]}
PICTURE = """\
class P:
    def _repr_png_(self): return bytes([137]) + b"PNG"
    def _repr_html_(self): return "<b>p</b>"
    def __repr__(self): return "P"
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with running_server(tmp_path_factory.mktemp("tools"), policy=TOOLS) as process:
        yield process


@pytest.mark.field(106)
async def test_field_106_code_runs_once_with_directory_variables_and_input(tools: ServerProcess) -> None:
    base = tools.log.parent.parent / "base"
    (base / "here").mkdir(exist_ok=True)
    async with AsyncServerClient(tools.url) as client:
        result = await client.code.run(
            'echo "$PWD $WORD $(cat)"; echo e >&2; exit 3', "bash", cwd="here", env={"WORD": "é"}, stdin="fed"
        )
        assert (result.stdout, result.stderr, result.exit_code) == (f"{base}/here é fed\n", "e\n", 3)
        assert (result.language, result.success, result.truncated) == ("bash", False, False)
        heard: list[str] = []
        streamed = await client.code.run(
            "import sys; print('out'); print('err', file=sys.stderr); sys.exit(2)",
            on_stdout=lambda text: heard.append(f"o:{text}"),
            on_stderr=lambda text: heard.append(f"e:{text}"),
        )
        assert (streamed.stdout, streamed.stderr, streamed.exit_code) == ("out\n", "err\n", 2)
        assert sorted(heard) == ["e:err\n", "o:out\n"]


@pytest.mark.field(94)
@pytest.mark.parametrize("listening", [False, True])
async def test_field_094_a_timeout_carries_the_output_so_far(
    tools: ServerProcess, tmp_path: Path, listening: bool
) -> None:
    said = tmp_path / "said"
    code = f"import time; print('so far', flush=True); open({str(said)!r}, 'w').close(); time.sleep(600)"
    async with AsyncServerClient(tools.url) as client:
        for seconds in (1, 10, 60):  # the first is too short for a program to start only where a machine is slow
            with pytest.raises(CommandTimeoutError) as caught:
                await client.code.run(code, timeout=seconds, on_stdout=print if listening else None)
            if said.exists():
                break
    assert caught.value.stdout == "so far\n"


async def test_a_context_keeps_its_variables_and_tells_everything(tools: ServerProcess) -> None:
    async with AsyncServerClient(tools.url) as client:
        async with await client.code.create_context(name="mine", env={"WORD": "é"}) as context:
            heard: list[str] = []
            shown: list[Result] = []
            execution = await context.run(
                f"{PICTURE}import os, sys\nprint(os.environ['WORD']); print('bad', file=sys.stderr)\n"
                "display(P())\nx = 41; x + 1",
                on_stdout=heard.append,
                on_stderr=heard.append,
                on_display=shown.append,
            )
            assert (execution.stdout, execution.stderr, execution.status, execution.ok) == ("é\n", "bad\n", "ok", True)
            assert sorted(heard) == ["bad\n", "é\n"]
            assert list(execution.results) == shown and [each.kind for each in shown] == ["display", "result"]
            picture, value = shown
            assert (picture.png, picture.html, picture.text) == (b"\x89PNG", "<b>p</b>", "P")
            assert execution.result is value and (value.text, value.png, value.html) == ("42", None, None)
            assert (execution.execution_count, execution.exit_code, execution.truncated) == (1, None, False)
            assert (await context.run("x")).result == Result({"text/plain": "41"}, {}, "result")
            [listed] = [each for each in await client.code.contexts() if each.id == context.id]
            assert (listed.info.state, listed.name, listed.info.execution_count) == ("idle", "mine", 2)
            assert listed.info.created_at is not None and listed.info.pid == context.info.pid
        assert context.id not in [each.id for each in await client.code.contexts()]
        with pytest.raises(NotFoundError):
            await context.run("x")


async def test_an_exception_is_data_unless_asked_for(tools: ServerProcess) -> None:
    async with AsyncServerClient(tools.url) as client, await client.code.create_context() as context:
        execution = await context.run("print('before')\n1/0")
        assert execution.error is not None
        assert (execution.status, execution.error.name, execution.error.value) == (
            "error", "ZeroDivisionError", "division by zero",
        )  # fmt: skip
        assert execution.error.traceback[-1] == "ZeroDivisionError: division by zero"
        assert repr(execution).startswith("before\nTraceback") and repr(execution).endswith("by zero")
        with pytest.raises(CodeFailedError, match="ZeroDivisionError: division by zero") as caught:
            await context.run("print('before')\n1/0", raise_on_error=True)
        assert caught.value.execution is not None and caught.value.execution.stdout == "before\n"


async def test_what_notebooks_show_is_what_the_value_has(tools: ServerProcess) -> None:
    async with AsyncServerClient(tools.url) as client, await client.code.create_context() as context:
        execution = await context.run(f"{PICTURE}print('text'); P()")
    assert execution.result is not None
    data, metadata = execution.result._repr_mimebundle_()
    assert data == {"text/html": "<b>p</b>", "image/png": "iVBORw==", "text/plain": "P"} and metadata == {}
    assert execution._repr_mimebundle_() == ({**data, "text/plain": "text\nP"}, {})
    assert execution._repr_mimebundle_(include=["image/png"], exclude=["text/html"])[0] == {"image/png": "iVBORw=="}


@pytest.mark.finding("R-A3")
async def test_closing_the_stream_interrupts_the_code_and_the_variables_stay(tools: ServerProcess) -> None:
    async with AsyncServerClient(tools.url) as client, await client.code.create_context() as context:
        async with context.stream("x = 1\nprint('on', flush=True)\nwhile True: pass") as events:
            async for event in events:
                if event.text == "on\n":
                    break
            assert (events.status, events.execution_count) == ("", 1)
            with pytest.raises(ConflictError):
                await context.run("2")
        while (await context.refresh()).state == "busy":
            pass
        assert (await context.run("x")).result == Result({"text/plain": "1"})


async def test_a_stream_tells_each_step(tools: ServerProcess) -> None:
    async with AsyncServerClient(tools.url) as client, await client.code.create_context() as context:
        seen = []
        async with context.stream("print('a')\ndisplay(1)\nprint('b')\n1/0") as events:
            async for event in events:
                seen.append((event.kind, event.text or (event.result and event.result.text) or event.status))
            assert events.status == "error"
        assert seen == [
            ("start", ""), ("output", "a\n"), ("display", "1"), ("output", "b\n"), ("error", ""), ("end", "error"),
        ]  # fmt: skip


async def test_timeouts_interrupts_and_restarts(tools: ServerProcess) -> None:
    async with AsyncServerClient(tools.url) as client, await client.code.create_context() as context:
        assert (await context.run("x = 1")).ok  # it has started: what does not heed an interrupt for long is killed
        assert (await context.run("while True: pass", timeout=0.3)).status == "timeout"
        died = await context.run("import os; os._exit(3)")
        assert (died.status, died.exit_code, died.ok) == ("died", 3, False)
        with pytest.raises(ConflictError):
            await context.run("1")
        before = context.info.pid
        info = await context.restart()
        assert (info.state, info.execution_count, context.info) == ("idle", 0, info) and info.pid != before
        assert await context.interrupt() is False  # nothing runs
        error = (await context.run("x")).error
        assert error is not None and error.name == "NameError"


async def test_large_displays_pass(tools: ServerProcess) -> None:
    async with AsyncServerClient(tools.url) as client, await client.code.create_context() as context:
        execution = await context.run("display({'text/plain': 'x' * 20_000_000}, raw=True)")
        assert execution.results[0].text == "x" * 20_000_000


async def test_a_server_that_vanishes_is_no_end(tmp_path: Path) -> None:
    code = "import os, time\nserver = os.getppid()\nprint('on', flush=True)\n"
    code += "while os.getppid() == server: time.sleep(0.05)"
    with running_server(tmp_path, policy=TOOLS) as server:
        async with AsyncServerClient(server.url) as client:
            context = await client.code.create_context()
            with pytest.raises(StreamInterruptedError) as caught:
                async with context.stream(code) as events:
                    async for event in events:
                        if event.text:
                            server.process.kill()
                            server.process.wait()
            assert caught.value.offset == 3
