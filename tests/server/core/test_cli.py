"""The command line: flags, variables, exit codes, and what is printed where."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sandbox_server import ClosedByDefault, __version__, cli
from sandbox_server.cli import main
from sandbox_server.messages import Response
from tests.server.http.fakes import FakeApplication, serving
from tests.support.landlock import abi
from tests.support.server import SYSTEM_PATH, NotStarted, ServerProcess, running_server, start_server


@pytest.fixture(autouse=True)
def no_ambient_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("ABX_"):
            monkeypatch.delenv(name)


def usage_error(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def started(tmp_path: Path, *arguments: str, **more: Any) -> ServerProcess:
    base, state = tmp_path / "base", tmp_path / "state"
    base.mkdir(exist_ok=True)
    state.mkdir(exist_ok=True)
    return start_server(base, state, arguments=arguments, **more)


def not_started(tmp_path: Path, *arguments: str, **more: Any) -> tuple[int, str]:
    with pytest.raises(NotStarted) as failed:
        started(tmp_path, *arguments, **more)
    return failed.value.code, str(failed.value)


# -- version, help, usage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["serve", "--port", "http"], 'argument --port: "http" is no whole number'),
        (["serve", "--port", "65536"], "argument --port: 65536 is no port; use 0 to 65535"),
        (["serve", "--audit-max-bytes", "5MB"], 'argument --audit-max-bytes: "5MB" is no whole number'),
        (["healthcheck", "--timeout", "soon"], 'argument --timeout: "soon" is no time to wait; use more than 0'),
    ],
)
def test_a_value_that_is_no_number_is_told_in_words(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    usage_error(*arguments)
    assert reason in capsys.readouterr().err


def test_version_prints_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"


def test_the_usual_flag_prints_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.strip() == __version__


@pytest.mark.parametrize(
    "arguments",
    [
        ["--port", "1"],
        ["nothing"],
        ["serve", "--port", "70000"],
        ["serve", "--port", "-1"],
        ["serve", "--port", "http"],
        ["serve", "--pty-port", "99999"],
        ["serve", "--listen-fd", "-1"],
        ["serve", "--listen-fd", "s"],
        ["serve", "--audit-max-bytes", "0"],
        ["serve", "--confine", "magic"],
        ["serve", "--program-path", "bin:sbin"],
        ["serve", "extra"],
        ["healthcheck", "--timeout", "0"],
        ["healthcheck", "--timeout", "-1"],
        ["healthcheck", "--timeout", "nan"],
        ["healthcheck", "--timeout", "soon"],
        ["check-config", "--op", "look"],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    usage_error(*arguments)
    assert capsys.readouterr().err.startswith("usage: agent-sandbox-server")


@pytest.mark.parametrize("arguments", [["openapi"], ["version"]])  # more than a buffer holds, and less
def test_a_reader_that_leaves_early_ends_it_without_a_traceback(arguments: list[str]) -> None:
    unread, pipe = os.pipe()
    os.close(unread)
    try:
        program = [sys.executable, "-m", "sandbox_server", *arguments]
        done = subprocess.run(program, stdout=pipe, stderr=subprocess.PIPE, timeout=60)
    finally:
        os.close(pipe)
    assert (done.returncode, done.stderr) == (1, b"")


def test_no_subcommand_means_serve(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["agent-sandbox-server"])
    monkeypatch.setenv("ABX_SERVER_POLICY", "{broken")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "agent-sandbox-server: " in capsys.readouterr().err


def test_restricting_the_network_alone_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--confine-network"]) == 2
    assert "add --confine landlock" in capsys.readouterr().err


# -- healthcheck ----------------------------------------------------------------------------------------------------


@pytest.mark.finding("R-B4")
def test_healthcheck_asks_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    healthy = [True]
    application = FakeApplication(health=lambda request: Response(200 if healthy[0] else 503))
    with serving(application) as server:
        assert main(["healthcheck", "--port", str(server.port), "--timeout", "60"]) == 0
        healthy[0] = False
        assert main(["healthcheck", "--port", str(server.port), "--timeout", "60"]) == 1
    assert main(["healthcheck", "--port", str(server.port)]) == 1
    assert capsys.readouterr() == ("", "")


def test_healthcheck_asks_on_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running_server(tmp_path, unix_socket=path):
        assert main(["healthcheck", "--unix-socket", str(path), "--timeout", "60"]) == 0
    assert main(["healthcheck", "--unix-socket", str(path)]) == 1


@pytest.mark.finding("R-B4")
def test_healthcheck_waits_no_longer_than_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert main(["healthcheck", "--port", str(silent.getsockname()[1]), "--timeout", "0.2"]) == 1


@pytest.mark.finding("R-B4")
def test_healthcheck_imports_no_http_library() -> None:
    code = "import sys; from sandbox_server.cli import main; main(['healthcheck', '--port', '1']); print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"http.client", "urllib.request", "email", "ssl", "ctypes", "sandbox_server.server"} & set(modules)


# -- check-config ---------------------------------------------------------------------------------------------------


def test_check_config_prints_every_endpoint_and_every_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.json"
    file.write_text(json.dumps({"preset": "read-only", "endpoints": {"files_*": {"paths": {"allow": ["/"]}}}}))
    assert main(["check-config", "--policy", str(file)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("policy is valid, revision ")
    assert "  on  files_stat\n" in text
    assert "  off shell                    preset:read-only" in text
    assert "\nwarning L2: " in text
    assert main(["check-config", "--policy", str(file), "--strict"]) == 2


def test_check_config_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-config", "--preset", "hardened", "--json", "--strict"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["revision"]) == 16
    assert [row["endpoint"] for row in told["endpoints"]] == sorted(row["endpoint"] for row in told["endpoints"])
    assert told["warnings"] == []


@pytest.mark.finding("R1-U5")
@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (["files_stat"], None, 0),
        (["files_stat", "--path", "{base}/x"], None, 0),
        (["files_stat", "--path", "x"], None, 0),
        (["files_stat", "--path", "/etc/passwd"], "path_not_allowed", 3),
        (["files_stat", "--path", ""], "invalid_path", 3),
        (["files_stat", "--path", "x", "--op", "write"], "read_only", 3),
        (["files_stat", "--scopes", "files:read"], None, 0),
        (["files_stat", "--scopes", "process:run,files:*"], None, 0),
        (["files_stat", "--scopes", ""], "missing_scope", 3),
        (["shell"], "endpoint_disabled", 3),
        (["nothing"], "unknown_endpoint", 3),
    ],
)
def test_explain_decides_like_the_server(
    base: Path, tmp_path: Path, arguments: list[str], code: str | None, exit_code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "policy.json"
    policy = {
        "base_dir": str(base),
        "endpoints": {"shell": {"enabled": False}, "files_*": {"paths": {"read_only": True}}},
    }
    file.write_text(json.dumps(policy))
    endpoint, *rest = [argument.replace("{base}", str(base)) for argument in arguments]
    assert main(["check-config", "--policy", str(file), "--explain", endpoint, *rest]) == exit_code
    told = json.loads(capsys.readouterr().out)
    assert (told["endpoint"], told["allowed"], told["code"]) == (endpoint, code is None, code)


def test_explain_needs_no_base_directory(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["check-config", "--base-dir", "/no/such/base", "--explain", "files_stat", "--path", "/no/such/base/x"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["allowed"] is True


@pytest.mark.parametrize("flag", ["--path", "--scopes", "--op"])
def test_what_is_about_one_call_is_refused_without_one(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    value = "read" if flag == "--op" else "*"
    assert main(["check-config", flag, value]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"agent-sandbox-server: {flag} is about one call; add --explain ENDPOINT\n")


def test_explain_refuses_what_is_no_scope(capsys: pytest.CaptureFixture[str]) -> None:
    usage_error("check-config", "--explain", "files_stat", "--scopes", "files read")
    assert capsys.readouterr().err.endswith(
        'argument --scopes: "files read" is no scope; write them like files:read,files:write\n'
    )
    assert main(["check-config", "--explain", "files_move", "--scopes", "files:write, files:delete"]) == 0


def test_explain_warns_of_a_scope_that_nothing_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "files_stat", "--scopes", "files:reed,deploy"]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["code"] == "missing_scope"
    deploy, reed = err.splitlines()
    assert deploy.startswith('warning: no endpoint asks for "deploy"; known ones are browser:evaluate, ')
    assert reed == 'warning: no endpoint asks for "files:reed"; did you mean "files:read"?'
    module = tmp_path / "deploying.py"
    module.write_text("from sandbox_server import command\n@command(scopes=['deploy'])\ndef ship(): pass\n")
    assert main(["explain", "files_stat", "--scopes", "files:read,deploy", "--commands", str(module)]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("variables", "preset"),
    [
        ({"ABX_SERVER_POLICY": '{"preset": "locked"}'}, "locked"),
        ({"ABX_SERVER_POLICY_FILE": "{file}"}, "read-only"),
        ({"ABX_SERVER_POLICY": '{"preset": "locked"}', "ABX_SERVER_POLICY_FILE": "{file}"}, "locked"),
    ],
)
def test_the_environment_names_the_policy_unless_a_flag_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    variables: dict[str, str], preset: str,
) -> None:  # fmt: skip
    file = tmp_path / "policy.json"
    file.write_text('{"preset": "read-only"}')
    other = tmp_path / "other.json"
    other.write_text('{"preset": "transfer-only"}')
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("{file}", str(file)))

    def enabled(*flags: str) -> set[str]:
        assert main(["check-config", "--json", *flags]) == 0
        return {row["endpoint"] for row in json.loads(capsys.readouterr().out)["endpoints"] if row["enabled"]}

    assert ("files_stat" in enabled()) is (preset == "read-only")
    assert "files_upload_stream" in enabled("--policy", str(other))
    assert "shell" in enabled("--preset", "default")
    assert "files_upload_stream" not in enabled("--policy", str(other), "--preset", "locked")


def test_a_broken_policy_is_exit_code_1_with_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.json"
    file.write_text('{"endpoints": {"files_stats": {}}}')
    for command in ("check-config", "serve"):
        assert main([command, "--policy", str(file)]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith("agent-sandbox-server: policy.endpoints.files_stats: ")
        assert "files_stat" in told.err


# -- serve ----------------------------------------------------------------------------------------------------------


def test_a_server_without_identity_does_not_start_and_says_what_to_do(tmp_path: Path) -> None:
    code, log = not_started(tmp_path, allow_anonymous=False)
    assert code == 2
    assert "pass --allow-anonymous" in log


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["--host", "0.0.0.0"], 2, "would be open to the network"),
        (["--base-dir", "/no/such/dir"], 1, 'base directory "/no/such/dir" does not exist'),
        (["--base-dir", "/dev/null"], 1, 'base directory "/dev/null" is no directory'),
        (["--audit-file", "/no/such/dir/audit"], 1, 'cannot write the audit file "/no/such/dir/audit"'),
        (["--unix-socket", "/no/such/dir/s"], 1, 'cannot listen on "/no/such/dir/s"'),
        (["--listen-fd", "0"], 1, "--listen-fd 0 is no listening unix or TCP socket"),
        (["--policy", "/no/such/policy.json"], 1, "/no/such/policy.json"),
        (["--preset", "lockd"], 1, "locked"),
    ],
)
def test_a_server_that_cannot_be_set_up_ends_with_a_reason_and_no_traceback(
    tmp_path: Path, arguments: list[str], code: int, reason: str
) -> None:
    ended, log = not_started(tmp_path, *arguments)
    assert ended == code
    assert reason in log
    assert "Traceback" not in log


def test_a_server_whose_file_names_are_not_utf_8_does_not_start(tmp_path: Path) -> None:
    environ = {"PATH": SYSTEM_PATH, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    code, log = not_started(tmp_path, environ=environ)
    assert code == 1
    assert log.endswith('names files in "ascii", but clients name them in UTF-8; start it with PYTHONUTF8=1\n')
    with running_server(tmp_path, environ={**environ, "PYTHONUTF8": "1"}) as server:
        assert server.request("GET", "/health").status == 200


def test_a_port_in_use_is_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, log = not_started(tmp_path, "--port", str(taken.getsockname()[1]))
    assert code == 1
    assert "Address already in use" in log


def test_flags_reach_the_server(tmp_path: Path) -> None:
    flags = ["--allow-host", "box.example", "--allow-host", "b2", "--allow-origin", "https://lab.example",
             "--isolation-level", "container", "--program-path", f"{tmp_path}:/usr/bin:/bin:relative"]  # fmt: skip
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho mine")
    tool.chmod(0o755)
    with running_server(tmp_path, arguments=flags) as server:
        assert server.request("GET", "/health", headers={"Host": "box.example"}).status == 200
        assert server.request("GET", "/health", headers={"Host": "b2"}).status == 200
        assert server.request("GET", "/health", headers={"Origin": "https://lab.example"}).status == 200
        assert server.request("GET", "/health", headers={"Host": "b3"}).json()["code"] == "host_not_allowed"
        assert server.request("GET", "/capabilities").json()["isolation"] == "container"
        assert server.request("POST", "/shell", {"command": "tool"}).json()["stdout"] == "mine\n"


def test_variables_reach_the_server(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    environ = {
        "PATH": os.environ["PATH"],
        "ABX_SERVER_TOKEN": "t",
        "ABX_SERVER_ENABLED_GROUPS": "dev_tools",
        "ABX_SERVER_BASE_DIR": str(tmp_path / "base"),
        "ABX_MAX_UPLOAD_SIZE": "1234",
    }
    with running_server(tmp_path, environ=environ, allow_anonymous=False) as server:
        assert server.request("GET", "/capabilities").status == 401
        told = server.request("GET", "/capabilities", headers={"X-Access-Token": "t"}).json()
    assert told["base_dir"] == environ["ABX_SERVER_BASE_DIR"]
    assert (told["groups"]["dev_tools"], told["groups"]["browser"]) == (True, False)
    assert told["endpoints"]["files_upload_stream"]["defaults"]["max_bytes"] == 1234


def test_warnings_of_the_policy_are_logged_at_the_start(tmp_path: Path) -> None:
    with running_server(tmp_path, policy={"endpoints": {"files_*": {"paths": {"allow": ["/"]}}}}) as server:
        assert server.request("GET", "/health").status == 200
    assert "WARNING sandbox_server: L2: " in server.log.read_text()


def test_audit_lines_go_to_standard_error_unless_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    command = [sys.executable, "-m", "sandbox_server", "serve", "--allow-anonymous", "--port", "0"]
    with subprocess.Popen(
        [*command, "--base-dir", str(tmp_path / "base")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout and process.stderr
        address = process.stdout.readline().rpartition("//")[2].strip()
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"GET /nothing HTTP/1.0\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 404 ")
        process.terminate()
        line = json.loads(process.stderr.read().splitlines()[-1])
    assert (line["code"], line["target"], process.returncode) == ("unknown_route", "/nothing", 0)


def test_on_a_unix_socket_alone_no_port_is_open(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running_server(tmp_path, unix_socket=path) as server:
        inodes = {
            line.split()[9]
            for table in ("tcp", "tcp6")
            for line in Path(f"/proc/{server.pid}/net/{table}").read_text().splitlines()[1:]
        }
        held = set()
        for number in os.listdir(f"/proc/{server.pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # it opens and closes files meanwhile
                held.add(os.readlink(f"/proc/{server.pid}/fd/{number}"))
        assert any(line.startswith("socket:") for line in held) and not {f"socket:[{inode}]" for inode in inodes} & held
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


@pytest.mark.parametrize("port", [[], ["--port", "0"]])
def test_on_an_inherited_socket_alone_no_other_is_open(tmp_path: Path, port: list[str]) -> None:
    with socket.socket(socket.AF_UNIX) as inherited:
        inherited.bind(str(tmp_path / "s"))
        inherited.listen()
        number = inherited.fileno()
        command = [sys.executable, "-m", "sandbox_server", "serve", "--listen-fd", str(number), "--base-dir"]
        process = subprocess.Popen(
            [*command, str(tmp_path), "--host", "127.0.0.1", *port],
            stdout=subprocess.PIPE,
            pass_fds=(number,),
            env={"PATH": SYSTEM_PATH, "ABX_SERVER_TOKEN": "t"},
            text=True,
        )
    with process, socket.socket(socket.AF_UNIX) as client:
        assert process.stdout
        assert process.stdout.readline() == f"listening on unix:{tmp_path}/s\n"
        client.connect(str(tmp_path / "s"))
        client.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 200 ")
        process.terminate()
        others = process.stdout.read().splitlines()
    beside = ["listening on http://", "listening on ws://"] if port else []
    assert [line.partition("127.0.0.1")[0] for line in others] == beside
    assert process.returncode == 0


@pytest.mark.skipif(abi() < 4, reason="no way here: this kernel does not confine TCP")
def test_a_confined_server_keeps_the_files_that_it_has_opened(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    environ = {"PATH": SYSTEM_PATH, "TMPDIR": str(tmp_path / "tmp")}  # the temporary directory is writable, always
    flags = ["--confine", "landlock", "--confine-network"]
    with running_server(tmp_path, arguments=flags, environ=environ) as server:
        assert server.request("GET", "/nothing").status == 404
        told = server.request("POST", "/shell", {"command": f"cat {server.log}"}).json()
        assert told["exit_code"] == 1 and "ermission denied" in told["stderr"]
    assert [line["code"] for line in server.audit_lines()] == ["unknown_route"]


def test_where_landlock_is_missing_a_server_that_needs_it_does_not_start(
    base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(38, "secret text")

    monkeypatch.setattr("sandbox_server.confine.restrict_to", fail)
    arguments = ["serve", "--allow-anonymous", "--port", "0", "--confine", "landlock", "--base-dir", str(base)]
    assert main([*arguments, "--audit-file", os.devnull]) == 1
    assert "--confine landlock is not available: Function not implemented" in capsys.readouterr().err


def test_exit_codes_differ_where_a_script_must_tell_them_apart() -> None:
    assert len({0, cli.FAILED, cli.USAGE, cli.REFUSED}) == 4
    assert issubclass(ClosedByDefault, ValueError)
