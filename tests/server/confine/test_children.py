"""A path rule over something that executes binds the program itself, by the kernel."""

from __future__ import annotations

import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.landlock import abi
from tests.support.processes import processes_with
from tests.support.waiting import eventually

from .conftest import House, Start, bearer, quote

pytestmark = pytest.mark.skipif(abi() < 6, reason="no way here: this kernel's Landlock keeps no signals in")

ATTEMPTS = Path(__file__).with_name("attempts.py")
SHELL: dict[str, Any] = {"endpoints": {"shell": {"paths": {"allow": ["DATA"]}}}}
EVERYTHING: dict[str, Any] = {
    "endpoints": {name: {"paths": {"allow": ["DATA"]}} for name in ("shell", "shell_stream", "process_start")}
}


@pytest.fixture
def house(start: Start) -> House:
    house = start(EVERYTHING)
    shutil.copy(ATTEMPTS, house.data / "attempts.py")
    return house


def attempts(house: House) -> str:
    return f"{sys.executable} -I attempts.py {house.outside} {house.server.pid}"


def untouched(house: House) -> bool:
    names = sorted(path.name for path in house.outside.iterdir())
    return names == ["made", "secret"] and (house.outside / "secret").read_text() == "TOP SECRET"


@pytest.mark.finding("R1-F7")
def test_the_password_file_is_refused_by_the_kernel_while_the_system_runs(house: House) -> None:
    refused = house.run("cat /etc/shadow")
    assert (refused["stdout"], refused["exit_code"]) == ("", 1)
    assert "Permission denied" in refused["stderr"]
    assert "bin" in house.run("ls /usr")["stdout"].split()
    assert house.run("cat own")["stdout"] == "own"
    assert house.run("touch /usr/new")["exit_code"] == 1
    assert house.run(f"sh -c {quote('echo new > made; cat made')}")["stdout"] == "new\n"
    assert (house.data / "made").read_text() == "new\n"


def test_every_way_out_of_a_confined_shell_is_shut(house: House) -> None:
    told = json.loads(house.run(attempts(house))["stdout"])
    assert len(told) > 30
    assert {name: outcome for name, outcome in told.items() if outcome == "done"} == {}
    assert untouched(house)
    assert house.server.request("GET", "/health").status == 200


def test_every_way_out_of_a_confined_stream_is_shut(house: House) -> None:
    answer = house.server.request("POST", "/shell/stream", {"command": attempts(house)})
    blocks = [block for block in answer.body.decode().split("\n\n") if block.startswith("event: stdout\n")]
    told = json.loads("".join(json.loads(block.partition("data: ")[2])["data"] for block in blocks))
    assert len(told) > 30 and "done" not in told.values()
    assert untouched(house)


def test_every_way_out_of_a_confined_background_process_is_shut(house: House) -> None:
    started = house.server.request("POST", "/process/start", {"command": attempts(house), "capture_output": True})
    pid = started.json()["id"]
    eventually(lambda: house.server.request("GET", f"/process/{pid}").json()["state"] == "exited")
    events = house.server.request("GET", f"/process/{pid}/output").json()["events"]
    told = json.loads("".join(entry["data"] for entry in events if entry["stream"] == "stdout"))
    assert len(told) > 30 and "done" not in told.values()
    assert untouched(house)


def test_without_a_rule_the_same_program_is_as_free_as_the_server(start: Start) -> None:
    house = start({})
    assert house.run(f"cat {house.outside}/secret")["stdout"] == "TOP SECRET"
    assert house.run(f"sh -c {quote(f'echo x > {house.outside}/new')}")["exit_code"] == 0


def test_grandchildren_and_daemons_are_confined_too(house: House) -> None:
    read = f"cat {house.outside}/secret"
    assert house.run(f"sh -c {quote(f'sh -c {quote(read)}; true')}")["stdout"] == ""
    daemon = f"(setsid sh -c {quote(f'{read} > stolen; echo over > over')} &) ; true"
    house.run(f"sh -c {quote(daemon)}")
    eventually(lambda: (house.data / "over").exists() and (house.data / "over").read_text() == "over\n")
    assert (house.data / "stolen").read_text() == ""


def test_a_child_gains_no_privileges_and_keeps_no_powers_but_over_files(house: House) -> None:
    status = dict(line.split(":", 1) for line in house.run("cat /proc/self/status")["stdout"].splitlines())
    assert status["NoNewPrivs"].strip() == "1"
    for word in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        assert int(status[word], 16) & ~0b10 == 0, word


def test_a_directory_that_is_swapped_for_a_link_leads_a_confined_child_nowhere(house: House) -> None:
    code = f"""
import os
os.mkdir("d"); open("d/secret", "w").write("harmless")
os.symlink({str(house.outside)!r}, "link")
child = os.fork()
if not child:
    while True:
        os.rename("d", "kept"); os.rename("link", "d"); os.rename("d", "link"); os.rename("kept", "d")
seen = set()
for _ in range(20000):  # what careless programs do: look first, open then
    try:
        if os.path.realpath("d/secret").startswith(os.getcwd()):
            seen.add(open("d/secret").read())
    except OSError as error:
        seen.add(type(error).__name__)
os.kill(child, 9)
print("TOP SECRET" in seen, "harmless" in seen)
"""
    told = house.python(code)
    assert (told["stdout"], told["stderr"]) == ("False True\n", "")


def test_children_of_one_scope_may_signal_each_other(house: House) -> None:
    sleeper = house.server.request("POST", "/process/start", {"command": "sleep 60"}).json()["pid"]
    for _ in range(4):  # on whatever thread of the scope
        assert house.run(f"sh -c {quote(f'kill -0 {sleeper}')}")["exit_code"] == 0
    assert house.run(f"sh -c {quote(f'kill -9 {sleeper}')}")["exit_code"] == 0


def test_a_read_only_rule_leaves_a_child_nothing_to_write(start: Start) -> None:
    house = start({"endpoints": {"shell": {"paths": {"allow": ["DATA"], "read_only": True}}}})
    assert house.run("cat own")["stdout"] == "own"
    for command in ("echo x > own", "echo x > new", "rm own", "mkdir d", "mv own other"):
        assert house.run(f"sh -c {quote(command)}")["exit_code"] != 0, command
    assert [path.name for path in house.data.iterdir()] == ["own"]


def tokens(**paths: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The auth block and the environment of identities whose tokens are their names."""
    entries = [
        {"id": name, "scopes": ["*"], "token_env": f"TOKEN_{name}", **({"paths": rule} if rule else {})}
        for name, rule in paths.items()
    ]
    return {"tokens": entries}, {f"TOKEN_{name}": name for name in paths}


@pytest.mark.finding("R1-F7")
def test_two_identities_with_scopes_of_their_own_share_a_server_and_nothing_else(start: Start) -> None:
    auth, environ = tokens(ann={"allow": ["BASE/ann"]}, bob={"allow": ["BASE/bob"]}, root=None)
    environ |= {"PATH": os.defpath, "HOME": "/nonexistent"}
    house = start({"auth": auth}, allow_anonymous=False, environ=environ)
    base = house.data.parent / "base"
    for name in ("ann", "bob"):
        (base / name).mkdir()
        (base / name / "diary").write_text(f"{name}'s")
    for name, other in (("ann", "bob"), ("bob", "ann")):
        assert house.run("cat diary", name)["stdout"] == f"{name}'s"
        assert house.run(f"cat {base}/{other}/diary", name)["exit_code"] == 1
        assert house.run(f"sh -c {quote(f'echo x > {base}/{other}/diary')}", name)["exit_code"] != 0
        assert house.run(f"sh -c {quote('echo mine > $TMPDIR/t; cat $TMPDIR/t')}", name)["stdout"] == "mine\n"
        assert house.run("ls /dev/shm /dev/pts", name)["stdout"] == ""
    places = {name: house.run("printenv TMPDIR", name)["stdout"].strip() for name in ("ann", "bob")}
    assert house.run(f"cat {places['bob']}/t", "ann")["exit_code"] == 1
    sleeper = house.server.request("POST", "/process/start", {"command": "sleep 60"}, bearer("bob")).json()["pid"]
    assert house.run(f"sh -c {quote(f'kill -9 {sleeper}')}", "ann")["exit_code"] != 0
    assert house.run(f"cat {base}/ann/diary", "root")["stdout"] == "ann's"  # whom no rule binds


def test_where_rule_and_identity_both_speak_the_kernel_keeps_what_both_allow(start: Start) -> None:
    auth, environ = tokens(ann={"allow": ["DATA/in", "OUTSIDE"]})
    environ |= {"PATH": os.defpath}
    house = start({**SHELL, "auth": auth}, allow_anonymous=False, environ=environ)
    (house.data / "in").mkdir()
    (house.data / "in" / "it").write_text("it")
    assert house.run("cat it", "ann")["stdout"] == "it"
    assert house.run(f"cat {house.data}/own", "ann")["exit_code"] == 1
    assert house.run(f"cat {house.outside}/secret", "ann")["exit_code"] == 1


def test_a_directory_that_is_made_later_belongs_to_the_scope_from_then_on(start: Start) -> None:
    house = start({"endpoints": {"shell": {"paths": {"allow": ["DATA", "OUTSIDE/later"]}}}})
    later = house.outside / "later"
    assert house.run(f"cat {later}/file")["exit_code"] == 1
    later.mkdir()
    (later / "file").write_text("there now")
    assert house.run(f"cat {later}/file")["stdout"] == "there now"
    assert house.run(f"cat {house.outside}/secret")["exit_code"] == 1


def test_temporary_files_of_a_scope_are_its_own_and_go_with_the_server(house: House) -> None:
    place = house.run("printenv TMPDIR")["stdout"].strip()
    deep = "d=$TMPDIR; for i in $(seq 1 200); do d=$d/d; done; mkdir -p $d; ln -s / $TMPDIR/link; mktemp"
    assert house.run(f"sh -c {quote(deep)}")["stdout"].startswith(f"{place}/tmp.")
    assert os.stat(place).st_mode & 0o777 == 0o700
    assert house.run("sh -c 'echo x > /tmp/x'")["exit_code"] != 0
    assert house.run("printenv TMPDIR", env={"TMPDIR": str(house.data)})["stdout"].strip() == str(house.data)
    assert house.server.stop() == 0
    assert not os.path.lexists(place)
    assert os.path.isdir("/usr")


def test_no_descriptor_of_the_server_reaches_a_confined_child(house: House) -> None:
    code = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd')))"
    assert house.python(code)["stdout"].strip() == "[0, 1, 2, 3]"  # the last is that of the listing


def test_many_at_once_all_stay_inside(house: House) -> None:
    with ThreadPoolExecutor(16) as pool:
        told = list(pool.map(lambda _: house.run(f"cat own {house.outside}/secret"), range(64)))
    assert {answer["stdout"] for answer in told} == {"own"}
    assert {answer["exit_code"] for answer in told} == {1}


def test_the_workspace_preset_confines_what_it_runs_to_the_base_directory(start: Start) -> None:
    house = start({"preset": "workspace"})
    assert house.run(f"cat {house.outside}/secret")["exit_code"] == 1
    assert house.run("sh -c 'echo hello > here; cat here'")["stdout"] == "hello\n"
    entries = house.server.request("GET", "/capabilities").json()["endpoints"]
    for name in ("shell", "shell_stream", "process_start"):
        assert entries[name]["paths"]["enforcement"] == {"allow": "kernel", "deny": "api"}
    assert entries["files_list"]["paths"]["enforcement"] == {"allow": "api", "deny": "api"}


def test_discovery_says_kernel_only_where_a_rule_is_written(start: Start) -> None:
    house = start({**SHELL, "require_landlock": True})
    entries = house.server.request("GET", "/capabilities").json()["endpoints"]
    assert entries["shell"]["paths"]["enforcement"] == {"allow": "kernel", "deny": "api"}
    assert entries["process_start"]["paths"]["enforcement"] == {"allow": "api", "deny": "api"}


def test_a_server_that_stops_under_load_leaves_no_confined_child_and_no_temporary_file(house: House) -> None:
    place = house.run("printenv TMPDIR")["stdout"].strip()
    mark = f"sleep 600.{house.server.pid}"
    with ThreadPoolExecutor(12) as pool:
        for _ in range(12):
            pool.submit(house.server.request, "POST", "/shell", {"command": f"sh -c 'touch $$; {mark}; true'"})
        eventually(lambda: len(list(house.data.iterdir())) >= 6)
        assert house.server.stop(60) == 0
    eventually(lambda: not processes_with(mark.split()[1]))  # they are killed, and may take a moment to be gone
    assert not os.path.lexists(place)


def test_terminals_and_shared_memory_of_the_machine_are_closed_until_they_are_named(start: Start) -> None:
    code = """
import multiprocessing, os
for attempt in (lambda: multiprocessing.Lock(), lambda: os.openpty(), lambda: os.listdir("/dev/pts")):
    try:
        attempt()
        print("open")
    except OSError as error:
        print("closed")
"""
    assert start(SHELL).python(code)["stdout"].split() == ["closed"] * 3
    opened = start(SHELL, arguments=["--scratch", "/dev/shm", "--scratch", "/dev/pts"])
    assert opened.python(code)["stdout"].split() == ["open"] * 3


CODE: dict[str, Any] = {
    "groups": {"dev_tools": True},
    "endpoints": {name: {"paths": {"allow": ["DATA"]}} for name in ("code_run", "code_contexts_create")},
}


@pytest.mark.parametrize("language", ["python", "bash"])
def test_code_is_confined_like_a_command(start: Start, language: str) -> None:
    house = start(CODE)
    programs = {
        "python": "print(open('own').read())\nopen({secret!r})",
        "bash": "cat own; cat {secret!r}",
    }
    code = programs[language].format(secret=str(house.outside / "secret"))
    told = house.server.request("POST", "/code/run", {"code": code, "language": language}).json()
    assert told["stdout"].strip() == "own"
    assert "Permission" in told["stderr"] and told["exit_code"] == 1


def test_a_code_context_is_confined_for_all_of_its_life(start: Start) -> None:
    house = start(CODE)
    made = house.server.request("POST", "/code/contexts", {}).json()
    for _ in range(2):
        for code in (f"open({str(house.outside / 'secret')!r}).read()", "open('/etc/shadow')"):
            answer = house.server.request("POST", f"/code/contexts/{made['id']}/run", {"code": code})
            assert b"PermissionError" in answer.body and b"TOP SECRET" not in answer.body
        answer = house.server.request("POST", f"/code/contexts/{made['id']}/run", {"code": "open('own').read()"})
        assert b"own" in answer.body
        house.server.request("POST", f"/code/contexts/{made['id']}/restart", {})
