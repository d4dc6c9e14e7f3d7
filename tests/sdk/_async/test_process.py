"""Commands in a real sandbox: to the end, streamed, in the background."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from sandbox_sdk import (
    AsyncServerClient,
    CommandFailedError,
    CommandResult,
    CommandTimeoutError,
    ConflictError,
    EndpointNotAvailableError,
    Event,
    NotFoundError,
    PayloadTooLargeError,
    SandboxError,
)
from tests.support.server import ServerProcess, running_server

pytestmark = pytest.mark.anyio


#: Seconds, for a command to say something before its time is up. Machines that need more than the first are slow.
LONG_ENOUGH = (1, 10, 60)


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


async def test_a_command_gives_its_output_and_exit_code(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        result = await client.process.run(sh("echo out; echo err >&2; exit 3"))
    assert (result.stdout, result.stderr, result.exit_code, result.success) == ("out\n", "err\n", 3, False)
    assert repr(result) == r"CommandResult(exit_code=3, stdout='out\n', stderr='err\n')"


async def test_the_result_shows_the_beginning_of_long_output_and_what_was_odd() -> None:
    result = CommandResult(-9, stdout_bytes=b"x" * 1000, signal=9, truncated=True)
    shown = f"CommandResult(exit_code=-9, signal=9, stdout='{'x' * 300}'… (700 more characters), truncated=True)"
    assert repr(result) == shown


async def test_the_short_form_gives_the_same_as_text(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        result = await client.process.shell(sh("echo out; cat >&2; exit 3"), stdin="é")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "é", 3)


@pytest.mark.field(55)
@pytest.mark.field(59)
async def test_field_055_059_output_is_exact_to_the_byte(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        result = await client.process.run(sh(r"printf 'a\n\nb\n\n\nc'; printf '\377\376\n' >&2"))
        assert result.stdout_bytes == b"a\n\nb\n\n\nc"
        assert (result.stderr_bytes, result.stderr) == (b"\xff\xfe\n", "\ufffd\ufffd\n")
        binary = await client.process.run("cat /bin/ls")
        assert binary.stdout_bytes == Path("/bin/ls").read_bytes()


@pytest.mark.field(56)
async def test_field_056_a_very_long_line_comes_in_pieces(server: ServerProcess) -> None:
    pieces: list[str] = []
    async with AsyncServerClient(server.url) as client:
        result = await client.process.run(sh("head -c 10000000 /dev/zero | tr '\\0' x"), on_stdout=pieces.append)
    assert len(result.stdout_bytes) == 10_000_000
    assert len(pieces) > 1 and "".join(pieces) == result.stdout


@pytest.mark.field(67)
async def test_field_067_output_cannot_pretend_to_be_the_end(server: ServerProcess) -> None:
    forged = '\n\nevent: exit\ndata: {"exit_code": 0}\n\n\x03\x00\x00\x00\x00\x00\x00\x02{}'
    async with AsyncServerClient(server.url) as client:
        result = await client.process.run(["sh", "-c", 'printf "%s" "$1"; exit 7', "x", forged.replace("\0", "")])
    assert (result.exit_code, result.stdout) == (7, forged.replace("\0", ""))


@pytest.mark.field(73)
async def test_field_073_the_exit_comes_after_the_last_output(server: ServerProcess) -> None:
    expected = "".join(f"{number}\n" for number in range(1, 20_001))
    async with AsyncServerClient(server.url) as client:
        for _ in range(10):
            result = await client.process.run(sh("seq 1 20000; exit 3"))
            assert (result.stdout, result.exit_code) == (expected, 3)


@pytest.mark.field(76)
async def test_field_076_a_child_that_holds_the_output_is_mentioned(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        result = await client.process.run(sh("sleep 600 & echo hi"))
    assert (result.stdout, result.exit_code, result.held) == ("hi\n", 0, True)


@pytest.mark.field(82)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
async def test_field_082_a_signal_is_told_in_both_ways(server: ServerProcess, number: signal.Signals) -> None:
    async with AsyncServerClient(server.url) as client:
        result = await client.process.run(sh(f"kill -{number.value} $$"))
        assert (result.exit_code, result.signal) == (-number, number)
        with pytest.raises(CommandFailedError, match=f"was ended by signal {number.value}"):
            await client.process.run(sh(f"kill -{number.value} $$"), check=True)


@pytest.mark.field(88)
@pytest.mark.field(89)
async def test_field_088_089_stdin_ends_at_once_unless_something_is_given(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        assert (await client.process.run("cat")).stdout == ""
        assert (await client.process.run("wc -c", stdin="é" * 1000)).stdout.strip() == "2000"
        assert (await client.process.run("cat", stdin=b"bytes")).stdout == "bytes"
        with pytest.raises(ValueError, match="not UTF-8"):
            await client.process.run("cat", stdin=b"\xff")


@pytest.mark.field(94)
@pytest.mark.field(95)
async def test_field_094_095_a_timeout_stops_the_command_and_keeps_its_output(
    server: ServerProcess, home: Path
) -> None:
    async with AsyncServerClient(server.url) as client:
        for name in ("run", "shell"):
            said = home / f"{name} has said it"
            for seconds in LONG_ENOUGH:
                with pytest.raises(TimeoutError) as late:
                    await getattr(client.process, name)(
                        sh(f"echo $$; echo err >&2; touch '{said}'; sleep 600"), timeout=seconds
                    )
                if said.exists():
                    break
            assert isinstance(late.value, CommandTimeoutError)
            assert late.value.stderr == "err\n"
            await gone(int(late.value.stdout))


@pytest.mark.field(98)
async def test_field_098_the_working_directory_is_honoured_or_refused(server: ServerProcess, home: Path) -> None:
    (home / "file").write_text("")
    async with AsyncServerClient(server.url) as client:
        assert (await client.process.run("pwd", cwd=home.name)).stdout.strip() == str(home)
        for bad in (f"{home.name}/absent", f"{home.name}/file", "/etc"):
            with pytest.raises(SandboxError, match="absent|file|etc"):
                await client.process.run("pwd", cwd=bad)


async def test_the_environment_reaches_the_command(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        result = await client.process.run(sh('printf "%s" "$GREETING"'), env={"GREETING": "grüß\ngott"})
    assert result.stdout == "grüß\ngott"


@pytest.mark.field(100)
async def test_field_100_odd_commands_work_or_are_refused_clearly(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        assert (await client.process.run(["printf", "%s", "a\nb"])).stdout == "a\nb"
        script = "".join(f"echo {number}\n" for number in range(30_000))
        assert (await client.process.run("sh", stdin=script)).stdout.endswith("29999\n")
        for bad in ("", "   ", [], "unbalanced 'quote"):
            with pytest.raises(SandboxError) as refused:
                await client.process.run(bad)
            assert refused.value.status_code == 400, bad
        with pytest.raises(NotFoundError, match="no-such-program"):
            await client.process.run("no-such-program")


async def test_check_raises_with_the_result(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(CommandFailedError, match=r"exited with 3: last words") as failed:
            await client.process.run(sh("echo out; echo first >&2; echo last words >&2; exit 3"), check=True)
        assert failed.value.result is not None and failed.value.result.stdout == "out\n"
        assert (await client.process.run("true", check=True)).success


@pytest.mark.field(58)
async def test_field_058_endless_output_costs_bounded_memory(server: ServerProcess) -> None:
    count = 0

    def add(text: str) -> None:
        nonlocal count
        count += len(text)

    async with AsyncServerClient(server.url) as client:
        result = await client.process.run(sh("head -c 50000000 /dev/zero"), on_stdout=add, keep=1000)
    assert count == 50_000_000
    assert (len(result.stdout_bytes), result.truncated) == (1000, True)


async def test_a_callback_that_fails_stops_the_command(server: ServerProcess) -> None:
    def broken(text: str) -> None:
        raise RuntimeError(text)

    async with AsyncServerClient(server.url) as client:
        with pytest.raises(RuntimeError) as failed:
            await client.process.run(sh("echo $$; sleep 60"), on_stdout=broken)
        await gone(int(str(failed.value)))


async def gone(pid: int) -> None:
    """Wait until a process of this machine has ended."""
    deadline = time.monotonic() + 60
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}")


@pytest.mark.finding("R-A3")
async def test_closing_a_stream_stops_the_command(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        async with client.process.stream(sh("echo ready; sleep 60")) as events:
            first = await anext(events)
            assert (first.text, events.pid is not None, events.exit_code) == ("ready\n", True, None)
        assert [event async for event in events] == []
        await gone(events.pid or 0)
        stream = client.process.stream(sh("echo ready; sleep 60"))
        await anext(stream)
        await stream.aclose()
        await stream.aclose()
        await gone(stream.pid or 0)


async def test_a_refused_stream_never_enters_the_block(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        with pytest.raises(NotFoundError):
            async with client.process.stream("no-such-program"):
                raise AssertionError("unreachable")


async def test_a_stream_tells_everything_up_to_the_end(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client, client.process.stream(sh("printf ab; exit 4")) as events:
        seen = [event async for event in events]
    assert seen == [Event("output", "stdout", b"ab", 0, "ab"), Event("exit", exit_code=4, reason="exit")]
    assert (events.exit_code, events.signal, events.offset) == (4, None, 2)


async def test_a_background_process_is_a_handle(server: ServerProcess, home: Path) -> None:
    async with AsyncServerClient(server.url) as client:
        process = await client.process.start(sh("echo hi; pwd; exit 5"), cwd=home.name)
        assert process.pid and process.id and process.exit_code is None
        assert await process.wait(60) == 5
        assert (process.exit_code, process.signal, process.info.state) == (5, None, "exited")
        assert repr(process) == f'<{type(process).__name__} {process.pid} "{process.command}", exited with 5>'
        part = await process.output()
        assert part.text == f"hi\n{home}\n"
        again = await client.process.attach(process.pid)
        assert again.id == process.id
        assert (await client.process.get(process.id)).exit_code == 5
        assert process.id in [info.id for info in await client.process.list(finished=True)]
        assert process.id not in [info.id for info in await client.process.list()]
        with pytest.raises(NotFoundError):
            await client.process.get(2**22 + 1)


@pytest.mark.field(83)
async def test_field_083_a_running_process_has_no_exit_code(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        process = await client.process.start("sleep 60")
        info = await process.refresh()
        assert (info.running, info.exit_code, info.signal) == (True, None, None)
        assert info.started_at is not None and info.started_at.tzinfo is not None
        await process.kill()
        assert await process.wait(60) == -9
        assert process.signal == 9


@pytest.mark.field(97)
async def test_field_097_waiting_for_no_time_asks_once(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        process = await client.process.start("sleep 60")
        with pytest.raises(CommandTimeoutError, match="still runs after 0 s") as late:
            await process.wait(0)
        assert "wait() again" in late.value.hint
        assert (await process.refresh()).running, "the waiting ends, not the process"
        await process.terminate()
        assert await process.wait(60) == -15


async def test_signals_reach_the_process(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        process = await client.process.start(sh("trap 'echo got; exit 9' INT; echo ready; sleep 60 & wait"))
        async for event in process:
            if "ready" in event.text:
                await process.interrupt()
        assert process.exit_code is None, "iterating does not ask"
        assert await process.wait(60) == 9
        assert "got" in (await process.output()).text
        ended = await client.process.start("true")
        await ended.wait(60)
        for again in (ended.terminate, ended.kill, ended.interrupt):
            with pytest.raises(NotFoundError, match="has ended with exit code 0"):
                await again()
        with pytest.raises(SandboxError, match="signal 99"):
            await client.process.signal(process.pid, 99)


@pytest.mark.field(89)
async def test_field_089_stdin_is_written_piece_by_piece_and_ended(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        process = await client.process.start("wc -c", stdin=True)
        assert await process.stdin.write("é") == 2
        assert await process.stdin.write(b"\x00\xff" * (1 << 20)) == 2 << 20
        assert await process.stdin.write("") == 0
        await process.stdin.aclose()
        assert await process.wait(60) == 0
        assert (await process.output()).text.strip() == str(2 + (2 << 20))
        deaf = await client.process.start("sleep 60")
        with pytest.raises(ConflictError):
            await deaf.stdin.write("x")
        await deaf.kill()


@pytest.mark.field(64)
@pytest.mark.finding("R-A1")
async def test_field_064_breaking_off_and_going_on_loses_and_repeats_nothing(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        process = await client.process.start(sh("for i in $(seq 300); do echo $i; echo e$i >&2; sleep 0.002; done"))
        seen: dict[str, bytes] = {"stdout": b"", "stderr": b""}
        rounds = 0
        while True:
            rounds += 1
            async for event in process:
                if event.kind == "output":
                    assert event.offset == len(seen[event.stream])
                    seen[event.stream] += event.data
                    if rounds < 20:
                        break
                if event.kind == "exit":
                    assert event.exit_code == 0
            else:
                break
        assert seen["stdout"].decode() == "".join(f"{i}\n" for i in range(1, 301))
        assert seen["stderr"].decode() == "".join(f"e{i}\n" for i in range(1, 301))


async def test_output_can_be_read_from_any_offset(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        process = await client.process.start(sh("printf 0123456789; printf abc >&2"))
        await process.wait(60)
        part = await process.output(4)
        assert (part.data, part.offset, part.end, part.lost, part.exit_code) == (b"456789", 4, 10, 0, 0)
        assert (await process.output(stream="stderr")).data == b"abc"
        assert (await process.output(10)).data == b""
        async with process.follow(stdout_from=8, stderr_from=1) as events:
            got = {event.stream: event.data async for event in events if event.kind == "output"}
        assert got == {"stdout": b"89", "stderr": b"bc"}
        async with client.process.follow(process.id) as events:
            assert sum([len(event.data) async for event in events]) == 13


async def test_what_fell_out_of_the_ring_is_a_gap(tmp_path: Path) -> None:
    policy = {"version": 1, "endpoints": {"process_start": {"limits": {"max_output_bytes": 1000}}}}
    with running_server(tmp_path, policy=policy) as server:
        async with AsyncServerClient(server.url) as client:
            process = await client.process.start(sh("head -c 5000 /dev/zero | tr '\\0' x"))
            await process.wait(60)
            events = [event async for event in process]
            part = await process.output()
    assert [event.kind for event in events if event.kind != "output"] == ["gap", "exit"]
    lost = events[0].lost
    assert events[0].stream == "stdout" and lost >= 4000
    assert events[1].offset == lost
    assert sum(len(event.data) for event in events) == 5000 - lost
    assert (part.lost, part.offset, part.end) == (lost, lost, 5000)


async def test_output_that_is_not_captured_cannot_be_read(server: ServerProcess) -> None:
    async with AsyncServerClient(server.url) as client:
        process = await client.process.start("true", capture=False)
        assert await process.wait(60) == 0
        with pytest.raises(ConflictError, match="capture_output"):
            await process.output()


async def test_an_output_limit_is_an_error(tmp_path: Path) -> None:
    policy = {"version": 1, "endpoints": {"shell_stream": {"limits": {"max_output_bytes": 1000}}}}
    with running_server(tmp_path, policy=policy) as server:
        async with AsyncServerClient(server.url) as client:
            with pytest.raises(PayloadTooLargeError, match="more than the limit"):
                await client.process.run(sh("head -c 5000 /dev/zero; sleep 60"))


async def test_where_streams_are_off_the_short_form_takes_over(tmp_path: Path) -> None:
    policy = {"version": 1, "endpoints": {"shell_stream": {"enabled": False}}}
    with running_server(tmp_path, policy=policy) as server:
        async with AsyncServerClient(server.url) as client:
            assert (await client.process.run("echo hi", stdin="x")).stdout == "hi\n"
            with pytest.raises(CommandFailedError):
                await client.process.run("false", check=True)
            with pytest.raises(EndpointNotAvailableError):
                await client.process.run("echo hi", on_stdout=print)
            await client.discover()
            assert (await client.process.run("echo hi")).stdout == "hi\n"


@pytest.mark.field(86)
async def test_field_086_a_server_that_stops_tells_why_the_command_ended(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        async with AsyncServerClient(server.url) as client, client.process.stream(sh("echo hi; sleep 60")) as events:
            assert (await anext(events)).text == "hi\n"
            server.process.send_signal(signal.SIGTERM)
            last = [event async for event in events][-1]
    assert (last.kind, last.reason, last.signal is not None) == ("exit", "shutdown", True)
