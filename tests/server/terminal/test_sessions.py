"""Terminals of a running server: what a shell finds, what it gets, and how it ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.processes import is_running
from tests.support.server import running_server
from tests.support.waiting import eventually

from .conftest import Place


def test_what_is_typed_runs_and_its_output_comes_back(place: Place) -> None:
    id = place.open()
    with place.connect(id) as viewer:
        started = viewer.receive()
        assert started == {"type": "event", "event": "started", "session_id": id, "pid": place.detail(id)["pid"]}
        viewer.type("echo mar''ker\n")
        assert "marker" in viewer.until("marker")


@pytest.mark.field(118)
def test_field_118_a_fast_paste_arrives_in_order_and_whole(place: Place) -> None:
    lines = [f"line {number:05}" for number in range(1000)]
    with place.connect(place.open()) as viewer:
        viewer.type("stty -echo; cat > pasted; echo do''ne\n")
        for start in range(0, len(lines), 10):
            viewer.type("".join(f"{line}\n" for line in lines[start : start + 10]))
        viewer.type("\x04")
        viewer.until("done")
    base = Path(place.server.request("GET", "/files/stat?path=pasted").json()["path"])
    assert base.read_text().splitlines() == lines


@pytest.mark.field(101)
def test_field_101_a_terminal_has_the_environment_and_directory_of_a_command(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GREETING": "hello", "LANG": "C.UTF-8"}
    with running_server(tmp_path, environ=environ) as server:
        place = Place(server, {})
        command = server.request("POST", "/shell", {"command": "env"}).json()["stdout"]
        run = dict(line.split("=", 1) for line in command.splitlines())
        with place.connect(place.open(env={"MINE": "1"})) as viewer:
            viewer.type("env > out; pwd; cd; pwd; echo do''ne\n")
            shown = viewer.until("done")
        told = (tmp_path / "base" / "out").read_text()
    terminal = dict(line.split("=", 1) for line in told.splitlines())
    theirs = {"TERM", "SHELL", "MINE", "_", "SHLVL", "OLDPWD", "NSB_PROCESS"}
    assert {n: v for n, v in terminal.items() if n not in theirs} == {n: v for n, v in run.items() if n not in theirs}
    assert (terminal["GREETING"], terminal["MINE"], terminal["SHELL"]) == ("hello", "1", "/bin/sh")
    assert f"{tmp_path / 'base'}\r\n{tmp_path}\r\n" in shown


@pytest.mark.field(113)
@pytest.mark.parametrize("language", [None, "C", "C.utf8"])
def test_field_113_programs_know_the_terminal_and_that_text_is_utf8(tmp_path: Path, language: str | None) -> None:
    environ = {"PATH": os.environ["PATH"], **({} if language is None else {"LANG": language})}
    with running_server(tmp_path, environ=environ) as server:
        place = Place(server, {})
        with place.connect(place.open()) as viewer:
            viewer.type("echo $TERM ${LC_ALL:-${LC_CTYPE:-$LANG}}; test -n \"$HOME\" && echo at''home\n")
            shown = viewer.until("athome")
    assert f"xterm-256color {language if language == 'C.utf8' else 'C.UTF-8'}\r\n" in shown


def test_the_callers_own_terminal_kind_and_locale_win(place: Place) -> None:
    with place.connect(place.open(env={"TERM": "dumb", "LC_ALL": "C"})) as viewer:
        viewer.type("echo $TERM-$LC_ALL\n")
        viewer.until("dumb-C\r\n")


def test_loader_variables_are_dropped_without_a_word(place: Place) -> None:
    with place.connect(place.open(env={"LD_PRELOAD": "/x.so", "LD_LIBRARY_PATH": "/x", "OTHER": "o"})) as viewer:
        viewer.type('echo "<$LD_PRELOAD$LD_LIBRARY_PATH$OTHER>"\n')
        viewer.until("<o>")


def test_a_terminal_starts_where_it_is_told(place: Place) -> None:
    place.server.request("POST", "/files/mkdir", {"path": "deep/down"})
    with place.connect(place.open(cwd="deep/down")) as viewer:
        viewer.type("pwd\n")
        viewer.until("base/deep/down\r\n")
    assert place.try_open(cwd="/etc").json()["code"] == "path_not_allowed"
    assert place.try_open(cwd="absent").json()["code"] == "invalid_argument"


def test_shells_beside_the_list_and_shells_that_are_not_installed_are_refused(place: Place) -> None:
    assert place.try_open("/bin/cat").json()["code"] == "invalid_argument"
    absent = next((shell for shell in ("/bin/zsh", "/usr/bin/zsh") if not os.path.exists(shell)), None)
    if absent:
        reply = place.try_open(absent)
        assert (reply.status, reply.json()["code"]) == (404, "not_found")


def test_jobs_are_controlled_as_on_any_terminal(place: Place) -> None:
    with place.connect(place.open("/bin/bash")) as viewer:
        viewer.type("tty; sh -c 'echo rea\"\"dy; exec cat'\n")
        viewer.until("/dev/pts/")
        viewer.until("ready")
        viewer.type("\x1a")  # Ctrl-Z stops it
        viewer.until("Stopped")
        viewer.type("kill %1; wait; stty size\n")
        viewer.until("24 80")


def test_signals_go_to_the_job_in_the_foreground_not_to_the_shell(place: Place) -> None:
    id = place.open("/bin/bash")
    with place.connect(id) as viewer:
        viewer.type("PS1='go''on> '\n")
        viewer.until("goon> ")
        for name in ("SIGINT", "SIGQUIT", "SIGTERM", "SIGKILL", "SIGHUP"):
            viewer.type("sh -c 'echo rea\"\"dy; exec sleep 1000'; echo ended by $?\n")
            viewer.until("ready")  # by the job itself, so that it is in the foreground
            viewer.send(type="signal", signal=name)
            if name == "SIGINT":  # which ends the whole line, as Ctrl-C does, and what was typed before the prompt
                viewer.until("goon> ")
            else:
                viewer.until(f"ended by {128 + getattr(signal, name)}")
    assert place.detail(id)["alive"]


def _children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text()


@pytest.mark.field(107)
def test_field_107_resizing_one_terminal_leaves_the_other_alone(place: Place) -> None:
    one, other = place.open(), place.open(cols=120, rows=40)
    with place.connect(one) as first, place.connect(other) as second:
        first.send(type="resize", cols=111, rows=33)
        first.type("stty size\n")
        first.until("33 111")
        second.type("stty size\n")
        second.until("40 120")
        first.send(type="resize", rows=50)  # what is missing stays
        first.type("stty size\n")
        first.until("50 111")
    assert (place.detail(one)["cols"], place.detail(one)["rows"]) == (111, 50)
    assert (place.detail(other)["cols"], place.detail(other)["rows"]) == (120, 40)


@pytest.mark.field(109)
@pytest.mark.parametrize(
    ("typed", "code", "signal"),
    [("exit 7\n", 7, None), ("kill -9 $$\n", -9, 9), ("exec true\n", 0, None)],
)
def test_field_109_the_end_of_a_shell_is_a_clean_end_with_its_status(
    place: Place, typed: str, code: int, signal: int | None
) -> None:
    id = place.open()
    with place.connect(id) as viewer:
        viewer.type("echo last wo''rds; " + typed)
        messages = viewer.rest()
    assert "last words\r\n" in "".join(m["data"] for m in messages if m["type"] == "output")
    assert messages[-1] == {
        "type": "event", "event": "exited", "session_id": id, "exit_code": code, "signal": signal,
    }  # fmt: skip
    assert (viewer.close_code, viewer.close_reason) == (1000, "the shell has ended")
    detail = place.detail(id)
    assert (detail["alive"], detail["exit_code"], detail["signal"], detail["reason"]) == (False, code, signal, "exit")
    assert place.server.request("GET", "/pty/sessions").json() == {"sessions": []}


def test_who_comes_after_the_end_still_sees_the_last_output_and_the_status(place: Place) -> None:
    id = place.open()
    with place.connect(id) as viewer:
        viewer.type("echo last wo''rds; exit 3\n")
        viewer.rest()
    with place.connect(id) as late:
        messages = late.rest()
    assert messages[0]["event"] == "started" and messages[-1]["exit_code"] == 3
    assert "last words\r\n" in "".join(m["data"] for m in messages if m["type"] == "output")


@pytest.mark.field(86)
def test_field_86_closing_a_terminal_that_pours_out_text_ends_its_viewers_with_a_reason(place: Place) -> None:
    id = place.open("/bin/bash")
    with place.connect(id) as viewer:
        viewer.type("sleep 1000 & yes\n")
        viewer.until("y\r\ny\r\n")
        pid = place.detail(id)["pid"]
        family = [pid, *map(int, _children(pid).split())]
        assert place.close(id).json() == {"status": "closed", "session_id": id}
        messages = viewer.rest()
    assert (messages[-1]["event"], messages[-1]["reason"]) == ("exited", "closed")
    assert (viewer.close_code, viewer.close_reason) == (1000, "it was closed")
    assert place.server.request("GET", f"/pty/sessions/{id}").status == 404
    eventually(lambda: not any(map(is_running, family)))


def test_what_ignores_the_hang_up_is_killed_all_the_same(place: Place) -> None:
    id = place.open("/bin/bash")
    with place.connect(id) as viewer:
        viewer.type("trap '' HUP TERM; (setsid sleep 1000 &) ; echo rea''dy; sleep 1000\n")
        viewer.until("ready")
        pid = place.detail(id)["pid"]
        assert place.close(id).status == 200
    eventually(lambda: not is_running(pid))


def test_what_a_shell_leaves_behind_goes_on_until_the_terminal_is_closed(place: Place) -> None:
    id = place.open("/bin/bash")
    with place.connect(id) as viewer:
        viewer.type("(setsid sleep 1000 & echo pid=$!); exit\n")
        shown = "".join(message.get("data", "") for message in viewer.rest())
    pid = int(shown.rpartition("pid=")[2].split()[0])
    assert is_running(pid)
    assert place.close(id).status == 200
    eventually(lambda: not is_running(pid))


@pytest.mark.field(85)
@pytest.mark.finding("R2-S14")
def test_field_85_a_terminal_that_nobody_uses_is_closed_but_never_one_with_work(tmp_path: Path) -> None:
    policy = {"endpoints": {"pty_create_session": {"limits": {"idle_seconds": 3}}}}
    with running_server(tmp_path, policy=policy) as server:
        place = Place(server, {})
        working = place.open("/bin/bash")
        with place.connect(working) as viewer:
            viewer.type("sh -c 'echo rea\"\"dy; exec sleep 1000'\n")
            viewer.until("ready")
        watched = place.open()
        with place.connect(watched) as viewer:
            viewer.receive()
            for _ in range(2):  # one after the other: the working one has been silent for much longer than is allowed
                idle = place.open()
                eventually(lambda id=idle: not place.detail(id)["alive"])
                assert place.detail(idle)["reason"] == "idle"
            assert place.detail(working)["alive"] and place.detail(watched)["alive"]
        eventually(lambda: not place.detail(watched)["alive"])


def test_at_most_ten_are_open_and_places_come_back(place: Place) -> None:
    ids = [place.open() for _ in range(10)]
    reply = place.try_open()
    assert reply.status == 429
    assert (reply.json()["code"], reply.json()["type"], reply.json()["limit"]) == (
        "too_many_sessions", "RuntimeError", 10,
    )  # fmt: skip
    with place.connect(ids[0]) as viewer:
        viewer.type("exit\n")
        viewer.rest()
    assert place.try_open().status == 200


@pytest.mark.field(80)
@pytest.mark.field(110)
def test_field_110_without_terminals_or_descriptors_it_says_busy_and_recovers(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        place = Place(server, {})
        place.close(place.open())  # threads and modules of the first
        descriptors, threads = _counts(server.pid)
        hard = 4096
        # So many descriptors, and not one more: the next ones asked for are those of a terminal.
        import resource

        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (descriptors + 2, hard))
        for _ in range(50):
            reply = place.try_open()
            assert (reply.status, reply.json()["code"]) == (503, "busy")
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (hard, hard))
        assert server.request("GET", "/pty/sessions").json() == {"sessions": []}
        for _ in range(50):
            assert place.try_open("/bin/sh", cwd="absent").status == 400
        place.close(place.open())
        eventually(lambda: _counts(server.pid) <= (descriptors, threads))


def _counts(pid: int) -> tuple[int, int]:
    return len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task"))


def test_sizes_are_judged_everywhere_alike(place: Place) -> None:
    id = place.open(cols=1000, rows=1)
    for cols, rows in ((0, 10), (10, 0), (1001, 10), (-1, 10), (70000, 10)):
        assert place.try_open(cols=cols, rows=rows).json()["code"] == "invalid_argument"
        reply = place.server.request("POST", f"/pty/sessions/{id}/resize", {"cols": cols, "rows": rows})
        assert (reply.status, reply.json()["code"]) == (400, "invalid_argument")
    with place.connect(id) as viewer:
        viewer.receive()
        for size in ({"cols": 0}, {"rows": 1001}, {"cols": "x"}, {"cols": 10.5}, {"rows": True}, {"cols": None}):
            viewer.send(type="resize", **size)
            error = viewer.receive()
            while error["type"] == "output":
                error = viewer.receive()
            assert (error["type"], error["code"]) == ("error", "invalid_argument")
        viewer.type("stty size\n")
        viewer.until("1 1000")


def test_a_server_that_stops_ends_its_terminals_and_tells_the_viewers(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        place = Place(server, {})
        id = place.open("/bin/bash")
        with place.connect(id) as viewer:
            viewer.receive()
            pid = place.detail(id)["pid"]
            server.process.send_signal(signal.SIGTERM)
            messages = viewer.rest()
            assert (messages[-1]["event"], messages[-1]["reason"]) == ("exited", "shutdown")
            assert viewer.close_code == 1001
        assert server.stop() == 0
        assert not is_running(pid)


def test_terminals_stay_inside_what_a_path_rule_allows(tmp_path: Path) -> None:
    inside = tmp_path / "base" / "in"
    inside.mkdir(parents=True)
    (tmp_path / "base" / "secret").write_text("hidden")
    policy = {"endpoints": {"pty_create_session": {"paths": {"allow": [str(inside)]}}}}
    with running_server(tmp_path, policy=policy) as server:
        place = Place(server, {})
        with place.connect(place.open()) as viewer:
            viewer.type("pwd; cat ../secret; echo x > made && cat made; tty; echo do''ne\n")
            shown = viewer.until("done")
    assert f"{inside}\r\n" in shown and "hidden" not in shown and "x\r\n/dev/pts/" in shown
