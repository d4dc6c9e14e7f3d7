"""Modules that ``--commands`` names: loaded once, collected, and blamed by name when they are broken."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_server.custom.loading import LoadError, load
from tests.support.server import SYSTEM_PATH, running_server

MODULE = """
from sandbox_server import Call, CommandRegistry, Endpoint, Field, command, json_response, route
import beside

registry = CommandRegistry()
registry.register("from-registry", lambda: beside.WORD)

@command()
def marked(a: int = 1) -> int:
    return a

@route(Endpoint("hello", "GET", "/hello/{name}", "commands", "Greets.", ("hello:say",),
                (Field("name", "text", "path", "Whom."),)))
def hello(call, *, name):
    return json_response({"hello": name})
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", list(sys.path))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "beside.py").write_text('WORD = "beside"\n')
    (folder / "ours.py").write_text(MODULE)
    return folder / "ours.py"


def test_registries_marked_functions_and_routes_of_a_file_are_collected(module: Path) -> None:
    registry, routes = load([str(module)])
    assert [one.name for one in registry] == ["from-registry", "marked"]
    assert [one.endpoint.id for one in routes] == ["hello"]
    sys.modules.pop("beside")


def test_the_same_file_is_loaded_once(module: Path) -> None:
    module.write_text(MODULE + "\nwith open(__file__ + '.count', 'a') as file: file.write('x')\n")
    registry, routes = load([str(module), str(module.parent / "." / "ours.py"), f"{module.parent}/../mine/ours.py"])
    assert Path(f"{module}.count").read_text() == "x"
    assert (len(registry), len(routes)) == (2, 1)
    sys.modules.pop("beside")


def test_a_module_is_loaded_by_its_name() -> None:
    registry, _ = load(["tests.support.sample_commands"])
    assert registry.get("greet") is not None


@pytest.mark.parametrize(
    ("text", "problem"),
    [("raise RuntimeError('boom')", "RuntimeError: boom"), ("def (", "SyntaxError"), ("import no_such", "no_such")],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "broken.py").write_text(text)
    with pytest.raises(LoadError, match=f'commands ".*broken.py" cannot be loaded: .*{problem}'):
        load([str(tmp_path / "broken.py")])


@pytest.mark.parametrize("name", ["/nowhere/none.py", "no_such_module_x", "./folder", "a..b", ""])
def test_what_is_not_there_is_named(name: str) -> None:
    with pytest.raises(LoadError, match="commands"):
        load([name])


def test_what_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    gone, folder, asking = (str(tmp_path / name) for name in ("gone.py", "folder.py", "asking.py"))
    Path(folder).mkdir()
    Path(asking).write_text("open('/no/such/file')")
    for name, why in (
        (gone, "no such file or directory"),
        (folder, "is a directory"),
        ("no_such_module_x", "there is no such module; a file is named with its .py"),
        (asking, "FileNotFoundError: [Errno 2] No such file or directory: '/no/such/file'"),
    ):
        with pytest.raises(LoadError) as refused:
            load([name])
        assert str(refused.value) == f'commands "{name}" cannot be loaded: {why}'


def test_a_server_offers_what_its_modules_declare(module: Path, tmp_path: Path) -> None:
    policy = {"endpoints": {"hello": {"limits": {"rate_per_minute": 2}}}}
    with running_server(tmp_path, policy=policy, arguments=["--commands", str(module)]) as server:
        assert server.request("POST", "/commands/marked", {"a": 7}).json() == {"result": 7}
        assert server.request("POST", "/commands/from-registry").json() == {"result": "beside"}
        assert server.request("GET", "/hello/ann").json() == {"hello": "ann"}
        assert server.request("GET", "/hello/ann").status == 200
        assert server.request("GET", "/hello/ann").status == 429


def program(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sandbox_server", *arguments], capture_output=True, text=True, timeout=60, cwd=cwd,
        env={"PATH": SYSTEM_PATH},
    )  # fmt: skip


def test_policies_are_checked_against_them(module: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text('{"endpoints": {"hello": {"enabled": false}}}')
    check = ("check-config", "--policy", "policy.json")
    assert program(*check, cwd=tmp_path).returncode == 1
    known = program(*check, "--commands", str(module), "--explain", "hello", cwd=tmp_path)
    assert (known.returncode, json.loads(known.stdout)["code"]) == (3, "endpoint_disabled")


def test_the_document_is_printed_with_them(module: Path, tmp_path: Path) -> None:
    printed = program("openapi", "--commands", str(module), cwd=tmp_path)
    assert "/hello/{name}" in json.loads(printed.stdout)["paths"]
    broken = program("openapi", "--commands", "no_such_module_x", cwd=tmp_path)
    assert (broken.returncode, broken.stdout) == (1, "")
    assert "no_such_module_x" in broken.stderr


def test_endpoints_that_clash_keep_a_server_from_starting(module: Path, tmp_path: Path) -> None:
    module.write_text(MODULE.replace('"/hello/{name}"', '"/process/{name}"'))
    done = program(
        "serve", "--allow-anonymous", "--port", "0", "--base-dir", ".", "--commands", str(module), cwd=tmp_path
    )
    assert done.returncode == 1
    assert "/process/{name} and /process/{pid} are one path" in done.stderr
    assert "Traceback" not in done.stderr
