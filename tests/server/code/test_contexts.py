"""Contexts: made, listed, run in, interrupted, emptied, closed; and whose they are."""

from __future__ import annotations

import ast
import contextlib
import http.client
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import sandbox_server.contexts.runner as runner_module
from sandbox_server.messages import SSE_TYPE
from tests.server.process.harness import alive, sse
from tests.support.interpreters import VERSIONS, interpreters
from tests.support.server import SYSTEM_PATH, ServerProcess, running_server
from tests.support.waiting import eventually, in_time

from .harness import POLICY, Context


def test_variables_last_from_run_to_run(context: Context) -> None:
    assert context.run("x = 20") == {
        "stdout": "", "stderr": "", "results": [], "error": None, "status": "ok", "truncated": False,
        "execution_count": 1, "execution_time_ms": pytest.approx(0, abs=1e9),
    }  # fmt: skip
    assert context.value("x + 1") == "21"
    assert context.value("_ * 2") == "42"


def test_a_context_is_described_when_made_and_listed(server: ServerProcess, base: Path) -> None:
    (base / "work").mkdir(exist_ok=True)
    context = Context(server, name="notebook 1", cwd="work", env={"WORD": "é"}, language="Python")
    assert {name: context.facts[name] for name in ("name", "language", "state", "cwd", "execution_count")} == {
        "name": "notebook 1", "language": "python", "state": "idle", "cwd": f"{base}/work", "execution_count": 0,
    }  # fmt: skip
    code = "import os; (os.getcwd(), os.environ['WORD'], os.getpid())"
    assert ast.literal_eval(context.value(code)) == (f"{base}/work", "é", context.facts["pid"])
    listed = context.state()
    assert listed is not None and listed["execution_count"] == 1
    assert listed["created_at"] == context.facts["created_at"] <= listed["last_used_at"]
    assert context.delete().json() == {"id": context.id, "closed": True}
    assert context.state() is None
    assert not alive(context.facts["pid"])


@pytest.mark.parametrize(
    "fields", [{"language": "bash"}, {"name": "x" * 101}, {"name": 5}, {"cwd": "nowhere"}, {"cwd": 7}, {"code": None}]
)
def test_what_makes_no_context_is_refused(server: ServerProcess, fields: dict[str, object]) -> None:
    before = len(server.request("GET", "/code/contexts").json()["contexts"])
    reply = server.request("POST", "/code/contexts", fields)
    if "code" in fields:  # unknown fields are not looked at
        server.request("DELETE", f"/code/contexts/{reply.json()['id']}")
    else:
        assert reply.status in (400, 404) and reply.json()["code"] in ("invalid_argument", "not_found")
    assert len(server.request("GET", "/code/contexts").json()["contexts"]) == before


@pytest.mark.parametrize("action", ["/run", "/interrupt", "/restart", ""])
def test_a_context_that_is_not_there_is_told(server: ServerProcess, action: str) -> None:
    method = "POST" if action else "DELETE"
    for id in ("0" * 32, "x", "%2e%2e"):
        reply = server.request(method, f"/code/contexts/{id}{action}", {"code": "1"} if action == "/run" else None)
        assert (reply.status, reply.json()["code"]) == (404, "context_not_found")


def test_contexts_belong_to_their_identity(tmp_path: Path) -> None:
    policy = {
        **POLICY,
        "auth": {"tokens": [{"id": n, "token_env": n.upper(), "scopes": ["devtools:run"]} for n in ("ann", "bob")]},
    }
    environ = {"PATH": SYSTEM_PATH, "ANN": "ann" * 20, "BOB": "bob" * 20}
    with running_server(tmp_path, policy=policy, allow_anonymous=False, environ=environ) as server:
        ann, bob = ({"Authorization": f"Bearer {name * 20}"} for name in ("ann", "bob"))
        context = Context(server, ann)
        assert server.request("GET", "/code/contexts", headers=bob).json() == {"contexts": []}
        for method, action in (("POST", "/run"), ("POST", "/interrupt"), ("POST", "/restart"), ("DELETE", "")):
            reply = server.request(method, f"/code/contexts/{context.id}{action}", {"code": "1"}, bob)
            assert (reply.status, reply.json()["code"]) == (404, "context_not_found")
        assert context.value("1") == "1"


def test_only_so_many_contexts_are_open_at_once(tmp_path: Path) -> None:
    policy = {**POLICY, "endpoints": {"code_contexts_create": {"limits": {"max_sessions": 2}}}}
    with running_server(tmp_path, policy=policy) as server:
        first, _ = Context(server), Context(server)
        refused = server.request("POST", "/code/contexts", {})
        assert (refused.status, refused.json()["code"], refused.json()["limit"]) == (429, "too_many_sessions", 2)
        first.delete()
        assert Context(server).value("1") == "1"


@pytest.mark.field(85)
def test_field_085_a_context_closes_when_unused_but_never_while_code_runs(tmp_path: Path) -> None:
    policy = {**POLICY, "endpoints": {"code_contexts_create": {"limits": {"idle_seconds": 4}}}}
    with running_server(tmp_path, policy=policy) as server:
        context = Context(server)
        assert context.run("import time; time.sleep(5)")["status"] == "ok"
        eventually(lambda: context.state() is None)
        assert context.post("/run", {"code": "1"}).json()["code"] == "context_not_found"
        eventually(lambda: not alive(context.facts["pid"]))


def test_one_run_at_a_time(context: Context) -> None:
    with context.stream("print('on', flush=True)\nimport time; time.sleep(600)") as stream:
        stream.until_output(b"on")
        assert context.is_("busy")
        reply = context.post("/run", {"code": "1"})
        assert (reply.status, reply.json()["code"], reply.json()["state"]) == (409, "conflict", "busy")
        assert context.post("/interrupt", {}).json() == {"id": context.id, "interrupted": True}
        assert stream.until("error")["name"] == "KeyboardInterrupt"
        assert stream.until("end")["status"] == "interrupted"
    eventually(lambda: context.is_("idle"))
    assert context.post("/interrupt", {}).json() == {"id": context.id, "interrupted": False}
    assert context.value("2") == "2"


def test_an_interrupt_reaches_what_the_code_runs_too(context: Context) -> None:
    code = "import subprocess\nsubprocess.run(['sh', '-c', 'echo $$; exec sleep 600'])"
    with context.stream(code) as stream:
        pid = next(int(data) for number, data in stream.frames() if number == 1 and data.strip())
        context.post("/interrupt", {})
        assert stream.until("end")["status"] == "interrupted"
    eventually(lambda: not alive(pid))


def test_many_interrupts_between_and_during_runs_do_no_harm(context: Context) -> None:
    for count in range(20):
        with context.stream("for i in range(10**9): print(i)") as stream:
            stream.until_output(b"1\n")
            for _ in range(count % 4 + 1):
                context.post("/interrupt", {})
            assert stream.until("end")["status"] == "interrupted"
        eventually(lambda: context.is_("idle"))
        context.post("/interrupt", {})
        assert context.value(f"{count}") == str(count)
    assert context.state()["pid"] == context.facts["pid"]  # type: ignore[index]


def test_displays_in_a_storm_of_interrupts_keep_the_channel_whole(context: Context) -> None:
    for _ in range(15):
        with context.stream("while True: display('x' * 300_000)") as stream:
            stream.until("display")
            context.post("/interrupt", {})
            assert stream.until("end")["status"] == "interrupted"
        eventually(lambda: context.is_("idle"))
    assert context.value("'whole'") == "'whole'"


@pytest.mark.finding("R-A3")
def test_a_reader_who_leaves_interrupts_the_code_and_the_context_stays(context: Context) -> None:
    context.run("x = 1; seen = []")
    code = "import time\ntry: print('on', flush=True); time.sleep(600)\nexcept KeyboardInterrupt: seen.append(1); raise"
    with context.stream(code) as stream:
        stream.until_output(b"on")
    eventually(lambda: context.is_("idle"))
    assert context.value("x, seen") == "(1, [1])"


def test_a_reader_who_leaves_a_flood_interrupts_it(context: Context) -> None:
    for code in ("print('x' * 1000)", "display('x' * 1_000_000)", "print(1, file=sys.stderr)"):
        with context.stream(f"import sys\nprint('on', flush=True)\nwhile True: {code}") as stream:
            stream.until_output(b"on")
        eventually(lambda: context.is_("idle"))
        assert context.value("1") == "1"


def test_a_caller_of_the_plain_form_who_leaves_interrupts_too(context: Context) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", context.server.port)) as connection:
        body = json.dumps({"code": "import time; time.sleep(600)"})
        connection.request("POST", f"/code/contexts/{context.id}/run", body, {"Content-Type": "application/json"})
        eventually(lambda: context.is_("busy"))
    eventually(lambda: context.is_("idle"))
    assert context.value("1") == "1"


@pytest.mark.field(94)
def test_field_094_a_timeout_interrupts_and_what_was_there_stays(context: Context) -> None:
    context.run("x = 5")  # its program has started by the end

    def run(seconds: float) -> Any:
        return context.run("print('so far')\nwhile True: pass", timeout=seconds)

    answer = in_time(run, lambda answer: answer["stdout"])
    assert (answer["status"], answer["stdout"], answer["error"]["name"]) == ("timeout", "so far\n", "KeyboardInterrupt")
    assert context.value("x") == "5"


def test_code_that_heeds_no_interrupt_is_killed_after_its_time(context: Context) -> None:
    context.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)")  # as long as it takes
    answer = context.run("while True: pass", timeout=0.2)
    assert (answer["status"], answer["exit_code"], answer["reason"]) == ("timeout", -9, "timeout")
    assert context.is_("dead")


@pytest.mark.field(92)
@pytest.mark.field(97)
@pytest.mark.parametrize("timeout", [None, 0, -1])
def test_field_092_097_no_timeout_and_zero_mean_no_bound(context: Context, timeout: float | None) -> None:
    assert context.run("import time; time.sleep(0.2)", timeout=timeout)["status"] == "ok"


def test_the_policy_bounds_every_run(tmp_path: Path) -> None:
    policy = {**POLICY, "endpoints": {"code_contexts_run": {"limits": {"timeout_seconds": 0.3}}}}
    with running_server(tmp_path, policy=policy) as server:
        assert Context(server).run("while True: pass", timeout=60)["status"] == "timeout"


@pytest.mark.field(86)
@pytest.mark.parametrize(("ending", "reason"), [("restart", "restart"), ("delete", "closed")])
def test_field_086_a_stream_whose_context_is_emptied_or_closed_ends_with_the_reason(
    context: Context, ending: str, reason: str
) -> None:
    with context.stream("print('on', flush=True)\nimport time; time.sleep(600)") as stream:
        stream.until_output(b"on")
        assert (context.post("/restart", {}) if ending == "restart" else context.delete()).status == 200
        end = stream.until("end")
    assert (end["status"], end["exit_code"], end["reason"]) == ("died", -9, reason)


def test_a_restart_leaves_nothing_but_the_context(context: Context) -> None:
    helper = int(context.value("import subprocess; x = 1; subprocess.Popen(['setsid', 'sleep', '600']).pid"))
    facts = context.post("/restart", {}).json()
    assert (facts["id"], facts["execution_count"], facts["state"]) == (context.id, 0, "idle")
    assert facts["pid"] != context.facts["pid"]
    assert not alive(context.facts["pid"]) and not alive(helper)
    assert context.run("x")["error"]["name"] == "NameError"


def test_restarts_side_by_side_leave_one_program(context: Context) -> None:
    with ThreadPoolExecutor(8) as pool:
        pids = [reply.json()["pid"] for reply in pool.map(lambda _: context.post("/restart", {}), range(8))]
    assert len(set(pids)) == 8
    assert [pid for pid in pids if alive(pid)] == [context.state()["pid"]]  # type: ignore[index]
    assert context.value("1") == "1"


def test_what_comes_between_two_runs_is_told_with_the_next(context: Context, base: Path) -> None:
    wait = "until [ -e tell ]; do sleep 0.05; done"
    context.run(f"import subprocess; subprocess.Popen('{wait}; echo late; echo very >&2; touch told', shell=True)")
    (base / "tell").touch()
    eventually((base / "told").exists)
    answer = context.run("print('next')")
    assert (answer["stdout"], answer["stderr"]) == ("late\nnext\n", "very\n")


def test_a_program_in_the_background_never_waits_for_a_reader(context: Context, base: Path) -> None:
    wait = "until [ -e seq ]; do sleep 0.05; done"
    context.run(f"import subprocess; busy = subprocess.Popen('{wait}; seq 300000; echo done > done', shell=True)")
    (base / "seq").touch()
    eventually((base / "done").exists)  # so much is more than a pipe holds
    with context.stream("busy.wait(); print('next')") as stream:
        assert stream.until("start")["dropped"] > 1_000_000
        kept = b"".join(data for number, data in stream.frames() if number == 1)
    assert kept.endswith(b"299999\n300000\nnext\n") and len(kept) < 1_000_000


def test_the_events_of_the_older_form(context: Context) -> None:
    body = {"code": "print('é', end='')\ndisplay(1)\nimport sys; print('bad', file=sys.stderr)\n2"}
    reply = context.server.request("POST", f"/code/contexts/{context.id}/run", body, {"Accept": SSE_TYPE})
    assert reply.headers["content-type"] == SSE_TYPE
    (start, *events, (last, end)) = sse(reply.body)
    assert start == ("start", {"id": context.id, "pid": context.facts["pid"], "execution_count": 1, "dropped": 0})
    assert events == [
        ("stdout", {"data": "é"}),
        ("display", {"data": {"text/plain": "1"}, "metadata": {}}),
        ("stderr", {"data": "bad\n"}),
        ("result", {"data": {"text/plain": "2"}, "metadata": {}, "execution_count": 1}),
    ]
    assert last == "end" and (end["status"], end["execution_count"]) == ("ok", 1)


def test_output_and_displays_keep_their_order(context: Context) -> None:
    seen = []
    with context.stream("import os\nfor i in range(50):\n print(i)\n os.system(f'echo {i}')\n display(i)") as stream:
        for number, facts in stream.frames():
            if number == 1:
                seen += facts.decode().split()
            elif facts["kind"] == "display":
                seen.append(facts["data"]["text/plain"])
    assert seen == [str(i) for i in range(50) for _ in range(3)]


def test_nothing_survives_the_server(tmp_path: Path) -> None:
    with running_server(tmp_path, policy=POLICY) as server:
        context = Context(server)
        pid = int(context.value("import subprocess; subprocess.Popen(['setsid', 'sleep', '600']).pid"))
        with context.stream("print('on', flush=True)\nimport time; time.sleep(600)") as stream:
            stream.until_output(b"on")
            server.stop()
    assert not alive(context.facts["pid"]) and not alive(pid)


def test_contexts_leave_no_descriptor_and_no_thread_behind(server: ServerProcess) -> None:
    def things() -> tuple[int, int]:
        process = Path(f"/proc/{server.pid}")
        return len(list((process / "fd").iterdir())), len(list((process / "task").iterdir()))

    def use() -> None:
        context = Context(server)
        context.run("1")
        context.run("import os; os._exit(1)")
        context.post("/restart", {})
        with context.stream("import time; time.sleep(600)") as stream:
            stream.until("start")
        context.post("/restart", {})
        context.delete()

    use()
    before = things()[0]
    for _ in range(10):
        use()
    eventually(lambda: things()[0] <= before)


@pytest.mark.parametrize("version", ["3.8", "3.9", *VERSIONS])
def test_the_program_inside_runs_under_every_python_from_3_8_on(tmp_path: Path, version: str) -> None:
    ast.parse(Path(runner_module.__file__).read_text(), feature_version=(3, 8))
    homes = Path.home().glob(f".pyenv/versions/{version}.*/bin")
    place = next((str(home) for home in homes), None) or os.path.dirname(interpreters().get(version, ""))
    if not place:
        pytest.skip(f"no way here: no Python {version}")
    arguments = ["--program-path", f"{place}:{SYSTEM_PATH}"]
    with running_server(tmp_path, policy=POLICY, arguments=arguments) as server:
        context = Context(server)
        assert context.value("import sys; sys.version_info[:2]") == f"({version.replace('.', ', ')})"
        assert context.value("import asyncio\nawait asyncio.sleep(0, {'x': 1})") == "{'x': 1}"
        assert context.run("def f(): 1/0\nf()")["error"]["traceback"][-1] == "ZeroDivisionError: division by zero"
        assert context.run("while True: pass", timeout=0.3)["status"] == "timeout"
        assert context.run("print('out')\ndisplay(5);\n6;")["results"][0]["data"] == {"text/plain": "5"}


def test_code_runs_under_the_path_rule_of_running_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "base" / "inside").mkdir(parents=True)
    rule = {"paths": {"allow": [str(tmp_path / "base" / "inside")]}}
    policy = {**POLICY, "endpoints": {"code_contexts_run": rule}}
    with running_server(tmp_path, policy=policy) as server:
        if (
            server.request("GET", "/capabilities").json()["endpoints"]["code_contexts_run"]["paths"]["enforcement"][
                "allow"
            ]
            != "kernel"
        ):
            pytest.skip("no way here: this kernel keeps nobody inside a path rule")
        reply = Context(server).post("/run", {"code": "1"})
        assert (reply.status, reply.json()["code"]) == (403, "forbidden")
    policy = {**POLICY, "endpoints": {"code_*": rule}}
    with running_server(tmp_path, policy=policy) as server:
        context = Context(server)
        assert context.run("open('x', 'w').close()")["status"] == "ok"
        for _ in range(2):
            assert (
                context.run(f"open({str(tmp_path / 'state' / 'server.log')!r})")["error"]["name"] == "PermissionError"
            )
            context.post("/restart", {})
