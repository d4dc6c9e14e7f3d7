"""Code that is careless or means harm: whatever it does to its own program, the server answers and goes on."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.server.process.harness import alive
from tests.support.server import ServerProcess, running_server
from tests.support.waiting import eventually

from .harness import POLICY, Context

#: Finds the descriptor that the program in the context speaks over.
CHANNEL = """\
import os, json
def is_socket(f):
    try: return os.readlink(f"/proc/self/fd/{f}").startswith("socket:")
    except OSError: return False
channel = next(int(f) for f in os.listdir("/proc/self/fd") if is_socket(f))
"""
#: Says something over it in the place of that program.
SAY = f"""{CHANNEL}
def say(data):
    os.write(channel, data)
def message(m):
    data = m if isinstance(m, bytes) else json.dumps(m).encode()
    say(len(data).to_bytes(4, "big") + data)
"""


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("import os; os._exit(5)", 5),
        ("import ctypes; ctypes.string_at(0)", -signal.SIGSEGV),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("import os; os.abort()", -signal.SIGABRT),
        ("import os; print('last words', flush=True); os.execv('/bin/sh', ['sh', '-c', 'echo more; exit 3'])", None),
        (f"{CHANNEL}os.close(channel)\nimport time; time.sleep(600)", -signal.SIGKILL),
        ("import os; os.closerange(3, 5000)\nimport time; time.sleep(600)", -signal.SIGKILL),
    ],
)
def test_a_program_that_ends_or_cannot_be_heard_has_died(context: Context, code: str, exit_code: int | None) -> None:
    answer = context.run(code)
    assert answer["status"] == "died"
    assert exit_code is None or answer["exit_code"] == exit_code
    assert answer["stdout"] == "" or answer["stdout"].startswith("last words\n")
    assert context.is_("dead")
    reply = context.post("/run", {"code": "1"})
    assert (reply.status, reply.json()["code"], reply.json()["state"]) == (409, "conflict", "dead")
    context.post("/restart", {})
    assert context.value("1") == "1"


def test_a_program_that_dies_between_runs_is_known_to_be_dead(context: Context) -> None:
    context.run("import threading, os; threading.Timer(0.2, os._exit, [3]).start()")
    eventually(lambda: context.is_("dead"))


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.close(0); os.close(1); os.close(2)",
        "import os; os.closerange(3, 256)",
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys; sys.stdout = sys.stderr = sys.stdin = None",
        "del __builtins__, __name__",
        "import sys; sys.modules.clear()",
        "import sys; del sys.modules['__main__']",
        "import builtins; del builtins.display",
        "import sys; sys.setrecursionlimit(60)",
        "import sys; sys.meta_path.clear(); sys.path.clear()",
        "import linecache; linecache.cache.clear(); linecache.cache = None",
        "import os; os.chdir('/proc'); os.environ.clear()",
        "import gc; gc.disable(); gc.freeze()",
        "import threading; [threading.Thread(target=threading.Event().wait, daemon=True).start() for _ in range(50)]",
        "import warnings; warnings.simplefilter('error')",
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))",
        "import signal\nfor n in (2, 13, 15, 20): signal.signal(n, lambda *a: None)",
        "import json; json.dumps = None",
    ],
)
def test_the_next_run_works_or_the_context_says_that_it_is_dead(context: Context, code: str) -> None:
    first = context.run(code)
    assert first["status"] in ("ok", "error", "died")
    reply = context.post("/run", {"code": "print('heard')\n1"})
    if reply.status == 409:
        assert reply.json()["state"] == "dead"
    else:
        second = reply.json()
        assert second["status"] in ("ok", "error", "died")
        assert second["status"] != "ok" or (second["stdout"], len(second["results"])) == ("heard\n", 1)
    context.post("/restart", {})
    assert context.value("1") == "1"


def test_both_sides_of_a_fork_return_and_only_the_parent_goes_on(context: Context) -> None:
    fork = "import os\npid = os.fork()\nprint('child' if pid == 0 else 'parent', flush=True)"
    answer = context.run(f"{fork}\nif pid: os.waitpid(pid, 0)\npid > 0")
    assert sorted(answer["stdout"].split()) == ["child", "parent"]
    assert [each["data"]["text/plain"] for each in answer["results"]] == ["True"]
    assert context.value("os.getpid()") == str(context.facts["pid"])
    assert context.value("os.waitstatus_to_exitcode(os.waitpid(os.fork() or os._exit(7), 0)[1])") == "7"
    code = "pid = os.fork()\nif pid == 0: raise SystemExit(9)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    assert context.value(code) == "9"
    answer = context.run("pid = os.fork()\nif pid == 0: 1/0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
    assert answer["results"][0]["data"]["text/plain"] == "1" and "ZeroDivisionError" in answer["stderr"]


def test_a_child_that_outlives_the_program_is_ended_with_it(context: Context) -> None:
    answer = context.run(
        "import os, time\npid = os.fork()\nif pid == 0:\n os.setsid(); time.sleep(600)\n"
        "print(pid, flush=True); os._exit(1)"
    )
    assert answer["status"] == "died"
    eventually(lambda: not alive(int(answer["stdout"])))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_works(context: Context, method: str) -> None:
    pool = f"import multiprocessing, math\npool = multiprocessing.get_context('{method}').Pool(2)"
    code = f"{pool}\nwith pool: roots = pool.map(math.sqrt, [1, 4, 9])\nroots"
    assert context.value(code) == "[1.0, 2.0, 3.0]"


def test_threads_of_the_code_print_while_it_runs(context: Context) -> None:
    start = (
        "import threading\nts = [threading.Thread(target=print, args=(i,)) for i in range(20)]\nfor t in ts: t.start()"
    )
    code = f"{start}\nfor t in ts: t.join()"
    assert sorted(map(int, context.run(code)["stdout"].split())) == list(range(20))
    shown = context.run("t = threading.Thread(target=display, args=('here',)); t.start(); t.join()")
    assert shown["results"][0]["data"] == {"text/plain": "'here'"}


def test_a_display_after_the_end_of_its_run_is_dropped_with_a_note(context: Context, base: Path) -> None:
    wait = "import os, time, threading\ndef late():\n while not os.path.exists('display'): time.sleep(0.05)"
    context.run(f"{wait}\n display(1); open('displayed', 'w').close()\nthreading.Thread(target=late).start()")
    (base / "display").touch()
    eventually((base / "displayed").exists)
    answer = context.run("1")
    assert "nobody is there" in answer["stderr"] and len(answer["results"]) == 1


@pytest.mark.parametrize(
    "code", ["while True: print('x' * 100)", "while True: print(1)", "import os\nos.system('yes')"]
)
def test_a_flood_ends_at_the_limit_and_the_context_stays(tmp_path: Path, code: str) -> None:
    policy = {**POLICY, "endpoints": {"code_contexts_run": {"limits": {"max_output_bytes": 1000}}}}
    with running_server(tmp_path, policy=policy) as server:
        context = Context(server)
        answer = context.run(f"x = 1\n{code}")
        assert (answer["status"], len(answer["stdout"]), answer["truncated"]) == ("output_limit", 1000, True)
        assert context.value("x") == "1"


def test_a_flood_that_nobody_reads_waits_for_its_reader(context: Context) -> None:
    with context.stream("n = 0\nwhile True:\n n += 1\n print('x' * 1000)") as stream:
        stream.until("start")
        used = -1
        while used != (used := _ticks(int(context.facts["pid"]))):  # until it computes no more
            time.sleep(0.3)
    eventually(lambda: context.is_("idle"))
    assert int(context.value("n")) < 50_000


@pytest.mark.parametrize(
    "forged",
    [
        "say(b'\\xff\\xff\\xff\\xff')",
        "say((33 << 20).to_bytes(4, 'big'))",
        "message(b'')",
        "message(b'[]')",
        "message(b'\\xff{}')",
        "message(b'{\"op\": NaN}')",
        "message(b'[' * 100000)",
        "message({'op': 'unknown'})",
        "message({'op': 'end', 'status': 'died'})",
        "message({'op': 'display', 'number': 'x', 'data': {}, 'metadata': {}})",
        "message({'op': 'display', 'number': 10**30, 'data': [], 'metadata': {}})",
        "message({'op': 'error', 'name': 1, 'value': None, 'traceback': {}})",
    ],
)
def test_what_does_not_keep_to_the_format_ends_the_program(context: Context, forged: str) -> None:
    answer = context.run(f"{SAY}{forged}\nimport time; time.sleep(600)")
    assert (answer["status"], answer["exit_code"]) == ("died", -9)
    context.post("/restart", {})
    assert context.value("1") == "1"


def test_forged_messages_in_the_right_format_are_the_liar_s_own_harm(context: Context, server: ServerProcess) -> None:
    other = Context(server)
    code = f"{SAY}message({{'op': 'display', 'number': 10**30, 'data': {{'text/plain': 'x'}}, 'metadata': {{}}}})\n"
    assert context.run(f"{code}for _ in range(100): message({{'op': 'begin'}})")["status"] == "ok"
    early = context.run("message({'op': 'end', 'status': 'ok'})\nimport time; time.sleep(0.3); print('late')")
    assert early["status"] == "ok"
    assert other.value("1") == "1"
    other.delete()
    context.post("/restart", {})
    assert context.value("1") == "1"


def test_a_plain_answer_holds_so_many_small_things_and_no_more(context: Context) -> None:
    small = "message({'op': 'display', 'number': 10**30, 'data': {'text/plain': 'x'}, 'metadata': {}})"
    answer = context.run(f"{SAY}for _ in range(34_000): {small}")
    assert (answer["status"], answer["truncated"]) == ("ok", True)
    assert 30_000 < len(answer["results"]) < 1 << 15


def _ticks(pid: int) -> int:
    """How long a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
